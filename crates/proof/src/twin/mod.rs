//! Naive twins of the buffer policies: textbook data structures, victims found by scanning, no
//! code shared with what they judge. A policy must agree with its twin on every access.

mod ad_lru;
mod aoi;
mod arc;
mod belady;
mod bplru;
mod ccf_lru;
mod cflru;
mod clock;
mod fab;
mod fifo;
mod gated;
mod lirs;
mod lru;
mod lru_wsr;
mod none;
mod pt_lru;
mod s3_fifo;
mod sieve;
mod two_level_lru;
mod two_q;
mod vbbms;
mod w_tinylfu;

use std::collections::BTreeSet;

use block::Op;
use ssd::{BufferShape, HitAccess, HitSim, PolicySpec};

/// What a twin gave up or kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Accesses that hit.
    pub hits: u64,
    /// Entries given up that had to be programmed.
    pub dirty: u64,
    /// Entries given up that had not.
    pub clean: u64,
    /// Pages written only to complete a block.
    pub padded: u64,
}

impl Tally {
    /// An entry was given up.
    pub fn gone(&mut self, dirty: bool) {
        if dirty {
            self.dirty += 1;
        } else {
            self.clean += 1;
        }
    }
}

/// One access as a twin sees it.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// The page.
    pub page: u32,
    /// A write.
    pub write: bool,
    /// Number of its request.
    pub request: u64,
    /// Length of that request in bytes.
    pub len: u32,
    /// It held data before this request.
    pub mapped: bool,
    /// Number of the access that uses it next.
    pub next_use: u64,
}

/// A policy written down naively, with its entries.
pub trait Twin {
    /// Serves one access.
    fn access(&mut self, a: Use, tally: &mut Tally, written: &BTreeSet<u32>);
    /// A page is discarded; `written` no longer has it.
    fn discard(&mut self, page: u32, written: &BTreeSet<u32>);
    /// Everything dirty is programmed, in the order in which it became dirty, and stays.
    fn flush(&mut self);
}

/// A share such as `12.5 %`, which the registry has checked.
fn parts_per_million(text: &str) -> u64 {
    let number: f64 = text.trim_end_matches('%').trim().parse().expect("a share");
    (number * 10_000.0).round() as u64
}

/// The twin of a policy with these options; `None` if there is none.
pub fn twin(policy: &str, shape: BufferShape) -> Option<Box<dyn Twin>> {
    let spec = PolicySpec::parse(policy).ok()?;
    let n = shape.entries;
    let share = |name: &str| parts_per_million(spec.option(name));
    let part = |name: &str| (n as u64 * share(name) / 1_000_000) as usize;
    Some(match spec.info.name {
        "none" => Box::new(none::None),
        "fifo" => Box::new(fifo::Fifo::new(n)),
        "lru" => Box::new(lru::Lru::new(n)),
        "clock" => Box::new(clock::Clock::new(n)),
        "sieve" => Box::new(sieve::Sieve::new(n)),
        "2q" => Box::new(two_q::TwoQ::new(n, share("in"), share("out"))),
        "arc" => Box::new(arc::Arc::new(n)),
        "lirs" => Box::new(lirs::Lirs::new(n, share("hir"))),
        "s3-fifo" => {
            let hits = spec.option("hits").parse().ok()?;
            Box::new(s3_fifo::S3Fifo::new(n, share("small"), share("ghost"), hits))
        }
        "w-tinylfu" => Box::new(w_tinylfu::WTinyLfu::new(n, share("window"))),
        "belady" => Box::new(belady::Belady::new(n, spec.option("clean") == "on")),
        "aoi" if spec.option("inner") == "lru" && spec.option("gate") == "off" => {
            Box::new(aoi::Aoi::new(&spec, shape))
        }
        "aoi" => Box::new(gated::Gated::new(&spec, shape)?),
        "2-level-lru" => {
            let borrow = spec.option("borrow") == "on";
            Box::new(two_level_lru::TwoLevelLru::new(n, part("hot"), borrow))
        }
        "cflru" => Box::new(cflru::Cflru::new(n, part("window"))),
        "lru-wsr" => Box::new(lru_wsr::LruWsr::new(n)),
        "ccf-lru" => Box::new(ccf_lru::CcfLru::new(n)),
        "ad-lru" => Box::new(ad_lru::AdLru::new(n, part("min_lc"))),
        "pt-lru" => Box::new(pt_lru::PtLru::new(shape, share("p"))),
        "vbbms" => {
            let width = ["random_block", "sequential_block"];
            let width = width.map(|name| spec.option(name).parse().expect("a number"));
            Box::new(vbbms::Vbbms::new(n, part("random"), width))
        }
        "bplru" => Box::new(bplru::Bplru::new(shape)),
        "fab" => Box::new(fab::Fab::new(shape)),
        _ => return None,
    })
}

/// Plays a list of accesses to a policy and to its twin; the first access after which they
/// differ, and how.
///
/// # Panics
/// If the policy has no twin or cannot be built.
pub fn first_difference(
    policy: &str,
    shape: BufferShape,
    accesses: &[HitAccess],
) -> Option<(usize, String)> {
    let mut sim = HitSim::new(policy, shape).expect("a policy of the registry");
    let mut twin = twin(policy, shape).expect("a policy with a twin");
    let mut written = BTreeSet::new();
    let mut tally = Tally::default();
    for (at, access) in accesses.iter().enumerate() {
        let page = access.page.0;
        let flush = access.op == Op::Flush;
        match access.op {
            Op::Flush => twin.flush(),
            Op::Discard => {
                written.remove(&page);
                twin.discard(page, &written);
            }
            Op::Read | Op::Write => {
                let write = access.op == Op::Write;
                let a = Use {
                    page,
                    write,
                    request: access.request,
                    len: access.len,
                    mapped: written.contains(&page),
                    next_use: access.next_use,
                };
                twin.access(a, &mut tally, &written);
                if write {
                    written.insert(page);
                }
            }
        }
        sim.play(std::slice::from_ref(access));
        let buffer = sim.buffer();
        let hits = sim.apps().iter().map(|app| app.read_hits + app.write_hits).sum();
        let seen = Tally {
            hits,
            dirty: buffer.dirty_evictions,
            clean: buffer.clean_evictions,
            padded: buffer.padded,
        };
        if seen != tally {
            return Some((at, format!("the policy {seen:?}, its twin {tally:?}")));
        }
        // Lists are walked where they change most, and now and then.
        if (flush || at % 64 == 0)
            && let Err(what) = sim.check()
        {
            return Some((at, what));
        }
    }
    sim.check().err().map(|what| (accesses.len(), what))
}

/// The fewest accesses found that still make a policy and its twin differ.
pub fn shrunk(policy: &str, shape: BufferShape, accesses: &[HitAccess]) -> Vec<HitAccess> {
    let mut kept = accesses.to_vec();
    if let Some((at, _)) = first_difference(policy, shape, &kept) {
        kept.truncate(at + 1);
    }
    let mut part = kept.len() / 2;
    while part > 0 {
        let mut start = 0;
        while start < kept.len() {
            let mut fewer = kept.clone();
            fewer.drain(start..(start + part).min(kept.len()));
            if first_difference(policy, shape, &fewer).is_some() {
                kept = fewer;
            } else {
                start += part;
            }
        }
        part /= 2;
    }
    kept
}
