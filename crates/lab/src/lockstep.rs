//! Two buffer policies that should do the same, played the same accesses: whether they do.
//!
//! What is compared after every access are the counts of what the buffer did: hits, entries given up,
//! dirty or clean, entries written by a flush. A page given up in place of another shows when either is
//! asked for again, so what is drawn asks for few pages often. Small buffers come first, and what differs
//! is shortened: a difference is told in as few accesses as could be found.

use block::{AppId, Lpn, Op, Rng};
use ssd::{BufferShape, HitAccess, HitSim, PolicySpec};

use crate::LabError;
use crate::replay::Watch;

/// Between two looks at whether to stop.
const TICK: usize = 4096;
/// A buffer that no policy finds too small.
const ENOUGH: usize = 64;
/// Accesses played to shorten a difference, at most.
const SHORTENING: usize = 4_000_000;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Accesses, of all buffers together; the last list is ended.
    pub accesses: u64,
    /// Of all draws.
    pub seed: u64,
    /// Pages are discarded too.
    pub discards: bool,
}

/// Accesses after which two policies differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The buffer.
    pub shape: BufferShape,
    /// They differ after the last.
    pub accesses: Vec<HitAccess>,
    /// What each counted.
    pub counted: [Counted; 2],
}

/// What a buffer has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Accesses that hit.
    pub hits: u64,
    /// Dirty entries given up.
    pub dirty: u64,
    /// Clean entries given up.
    pub clean: u64,
    /// Entries written only to complete a block.
    pub padded: u64,
    /// Entries written by flushes.
    pub flushed: u64,
}

impl Counted {
    fn of(sim: &HitSim) -> Counted {
        let buffer = sim.buffer();
        Counted {
            hits: sim.apps().iter().map(|app| app.read_hits + app.write_hits).sum(),
            dirty: buffer.dirty_evictions,
            clean: buffer.clean_evictions,
            padded: buffer.padded,
            flushed: buffer.flushed,
        }
    }
}

/// Requests of all lengths over a small space, of which a part is asked for more often.
fn drawn(rng: &mut Rng, pages: u32, count: usize, discards: bool) -> Vec<HitAccess> {
    let mut out = Vec::with_capacity(count + 24);
    let (mut request, hot) = (0, rng.between(1, u64::from(pages).div_ceil(2)));
    while out.len() < count {
        request += 1;
        let op = match rng.below(100) {
            0 => Op::Flush,
            1..4 if discards => Op::Discard,
            1..44 => Op::Read,
            _ => Op::Write,
        };
        let space = if rng.ratio(2, 3) { hot } else { u64::from(pages) };
        let first = rng.below(space);
        let asked = if rng.ratio(1, 3) && op != Op::Flush { rng.between(2, 24) } else { 1 };
        let len = asked.min(u64::from(pages) - first);
        out.extend((first..first + len).map(|page| HitAccess {
            page: Lpn(page as u32),
            op,
            app: AppId(0),
            request,
            len: (len * 4096) as u32,
            next_use: u64::MAX,
        }));
    }
    tell_next_uses(&mut out, pages);
    out
}

/// Tells every access when its page is used next: some policies know.
fn tell_next_uses(accesses: &mut [HitAccess], pages: u32) {
    let mut next = vec![u64::MAX; pages as usize];
    for (at, access) in accesses.iter_mut().enumerate().rev() {
        let of_page = &mut next[access.page.0 as usize];
        access.next_use = *of_page;
        match access.op {
            Op::Read | Op::Write => *of_page = at as u64,
            Op::Discard => *of_page = u64::MAX,
            Op::Flush => {}
        }
    }
}

/// Two policies, read.
pub struct Pair([PolicySpec; 2]);

impl Pair {
    /// Two policies by their names, with options.
    ///
    /// # Errors
    /// What of a name is none.
    pub fn new(names: [&str; 2]) -> Result<Pair, LabError> {
        let read = |text: &str| PolicySpec::parse(text).map_err(LabError::Input);
        Ok(Pair([read(names[0])?, read(names[1])?]))
    }

    fn built(&self, shape: BufferShape) -> Result<[HitSim; 2], String> {
        Ok([HitSim::of(&self.0[0], shape)?, HitSim::of(&self.0[1], shape)?])
    }

    /// The fewest entries with which there are both.
    fn least(&self, watch: Watch<'_>) -> Result<usize, LabError> {
        let mut reason = String::new();
        for entries in 1..=ENOUGH {
            match self.built(BufferShape::alone(entries, 2 * ENOUGH as u32)) {
                Ok(_) => return Ok(entries),
                Err(what) => reason = what,
            }
            // A policy that fails by an exception stops the work, and is told by it.
            watch.tick(0)?;
        }
        Err(LabError::Input(format!("with {ENOUGH} entries: {reason}")))
    }

    /// After how many accesses they differ first, and what each had counted then.
    fn first(
        &self,
        shape: BufferShape,
        accesses: &[HitAccess],
        watch: Watch<'_>,
    ) -> Result<Option<(usize, [Counted; 2])>, LabError> {
        let mut sims = self.built(shape).map_err(LabError::Input)?;
        for (at, access) in accesses.iter().enumerate() {
            sims.iter_mut().for_each(|sim| sim.play(std::slice::from_ref(access)));
            let counted = [Counted::of(&sims[0]), Counted::of(&sims[1])];
            if counted[0] != counted[1] {
                // What a policy counts after its exception is nobody's.
                watch.tick(0)?;
                return Ok(Some((at + 1, counted)));
            }
            if (at + 1).is_multiple_of(TICK) {
                watch.tick(TICK as u64)?;
            }
        }
        watch.tick((accesses.len() % TICK) as u64)?;
        for (sim, spec) in sims.iter().zip(&self.0) {
            sim.check().map_err(|what| LabError::Check {
                contract: "lockstep".to_string(),
                what: format!("{}: {what}", spec.info.name),
            })?;
        }
        Ok(None)
    }

    /// The first difference of what is drawn, in as few accesses as were found; `None` if they did the same.
    ///
    /// # Errors
    /// A policy that cannot be built; an interruption.
    pub fn first_difference(
        &self,
        plan: Plan,
        watch: Watch<'_>,
    ) -> Result<Option<Difference>, LabError> {
        let (mut rng, least) = (Rng::stream(plan.seed, "lockstep"), self.least(watch)?);
        let mut played = 0;
        while played < plan.accesses {
            // Four times as large a buffer with each fifth of what is played.
            let most = least << (2 * (1 + played * 5 / plan.accesses));
            let entries = rng.between(least as u64, most as u64) as usize;
            let pages = (entries as u64 + 1).max(rng.between(2, 6) * entries as u64) as u32;
            let shape = BufferShape { seed: rng.next_u64(), ..BufferShape::alone(entries, pages) };
            let count = (entries * 40).clamp(100, 20_000);
            let list = drawn(&mut rng, pages, count, plan.discards);
            played += list.len() as u64;
            if let Some((after, counted)) = self.first(shape, &list, watch)? {
                return self.shortened(shape, &list[..after], counted, watch).map(Some);
            }
        }
        Ok(None)
    }

    /// The same difference, or another, with fewer accesses.
    fn shortened(
        &self,
        shape: BufferShape,
        accesses: &[HitAccess],
        mut counted: [Counted; 2],
        watch: Watch<'_>,
    ) -> Result<Difference, LabError> {
        let (mut kept, mut played) = (accesses.to_vec(), 0);
        let mut part = kept.len() / 2;
        while part > 0 && played < SHORTENING {
            let mut start = 0;
            while start < kept.len() && played < SHORTENING {
                let mut fewer = kept.clone();
                fewer.drain(start..(start + part).min(kept.len()));
                tell_next_uses(&mut fewer, shape.pages);
                played += fewer.len();
                match self.first(shape, &fewer, watch)? {
                    Some((after, now)) => {
                        fewer.truncate(after);
                        (kept, counted) = (fewer, now);
                    }
                    None => start += part,
                }
            }
            part /= 2;
        }
        Ok(Difference { shape, accesses: kept, counted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(accesses: u64) -> Plan {
        Plan { accesses, seed: 1, discards: true }
    }

    #[test]
    fn a_policy_does_what_it_does() {
        for policy in ["lru", "sieve", "s3-fifo", "belady", "cflru", "bplru"] {
            let pair = Pair::new([policy, policy]).unwrap();
            let found = pair.first_difference(plan(50_000), Watch::nobody()).unwrap();
            assert!(found.is_none(), "{policy}: {found:?}");
        }
    }

    #[test]
    fn others_do_something_else_within_few_accesses() {
        for (one, other) in [("lru", "fifo"), ("clock", "sieve"), ("cflru", "cflru(window=75 %)")] {
            let pair = Pair::new([one, other]).unwrap();
            let found = pair.first_difference(plan(200_000), Watch::nobody()).unwrap();
            let found = found.unwrap_or_else(|| panic!("{one} and {other} do the same"));
            assert_ne!(found.counted[0], found.counted[1]);
            assert!(found.accesses.len() <= 24, "{one}, {other}: {found:?}");
            // Each access is needed.
            for without in 0..found.accesses.len() {
                let mut fewer = found.accesses.clone();
                fewer.remove(without);
                tell_next_uses(&mut fewer, found.shape.pages);
                let rest = pair.first(found.shape, &fewer, Watch::nobody()).unwrap();
                assert!(rest.is_none(), "{one}, {other}: {without} of {found:?}");
            }
            let again = pair.first(found.shape, &found.accesses, Watch::nobody()).unwrap();
            assert_eq!(again, Some((found.accesses.len(), found.counted)));
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        assert!(Pair::new(["lru", "zzz"]).is_err());
    }
}
