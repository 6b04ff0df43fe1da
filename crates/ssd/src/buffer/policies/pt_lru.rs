//! Probabilistic triplicate LRU: cold clean, cold dirty, and pages that were hit.
//!
//! Invariants: class 0 = cold clean, 1 = cold dirty, others = hit; an entry of the first list is
//! clean and one of the second is dirty. Draws come from the policy's own stream, one for each
//! victim that is sought while nothing is cold and clean but something is cold and dirty.

use super::common::{check_held, walk_lists};
use crate::buffer::clean_first::{CleanFirst, Ranks};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, PolicyOption, Pool, Stream};
use crate::config::KeyKind;
use block::{Op, Rng};

const CLEAN: u8 = 0;
const DIRTY: u8 = 1;
const HIT: u8 = 2;
const MILLION: u64 = 1_000_000;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "pt-lru",
    aliases: &[],
    doc: "cold clean pages go first, then by chance cold dirty ones or pages that were hit",
    source: "Cui et al., IEEE TCE 2014: its abstract and the prose of Jeong et al., IEEE Access \
             2021; a write that misses enters the dirty list, and p, which neither states, is \
             our reading",
    options: &[PolicyOption {
        name: "p",
        kind: KeyKind::Share,
        default: "90 %",
        doc: "chance that a cold dirty page goes before pages that were hit",
    }],
    clairvoyant: false,
    make: |setup| {
        let entries = setup.shape.entries;
        setup.buffer(PtLru {
            p: setup.share("p").min(MILLION),
            rng: Rng::stream(setup.shape.seed, "buffer/pt-lru"),
            clean: List::default(),
            dirty: List::default(),
            hit: CleanFirst::new(HIT, entries),
            ranks: Ranks::new(entries),
        })
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct PtLru {
    p: u64,
    rng: Rng,
    clean: List,
    dirty: List,
    hit: CleanFirst,
    ranks: Ranks,
}

impl PtLru {
    #[inline]
    fn unlink(&mut self, pool: &mut Pool, frame: Frame) {
        match pool.class(frame) {
            CLEAN => pool.unlink(&mut self.clean, frame),
            DIRTY => pool.unlink(&mut self.dirty, frame),
            _ => self.hit.unlink(&mut self.ranks, pool, frame),
        }
    }
    fn victim(&mut self) -> Option<Frame> {
        if let Some(clean) = self.clean.back() {
            return Some(clean);
        }
        if let Some(dirty) = self.dirty.back()
            && (self.rng.ratio(self.p, MILLION) || self.hit.is_empty())
        {
            return Some(dirty);
        }
        // Without a clean page among them, the last dirty one is the last of all.
        self.hit.last_clean(&self.ranks).or(self.hit.last_dirty())
    }
}

impl Policy for PtLru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.unlink(pool, frame);
        let dirty = pool.is_dirty(frame) || a.op == Op::Write;
        self.hit.push(&mut self.ranks, pool, frame, dirty);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(victim) = self.victim()
        {
            self.unlink(pool, victim);
            out.evict(victim, Stream::Other);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        if a.op == Op::Write {
            pool.push_front(&mut self.dirty, frame);
            pool.set_class(frame, DIRTY);
        } else {
            pool.push_front(&mut self.clean, frame);
            pool.set_class(frame, CLEAN);
        }
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        self.unlink(pool, frame);
    }
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        if pool.class(frame) == DIRTY {
            pool.unlink(&mut self.dirty, frame);
            pool.push_front(&mut self.clean, frame);
            pool.set_class(frame, CLEAN);
        } else {
            self.hit.cleaned(&mut self.ranks, pool, frame);
        }
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("cold-clean", self.clean.len());
        each("cold-dirty", self.dirty.len());
        each("hit", self.hit.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        self.hit.check(&self.ranks, pool)?;
        for (list, dirty) in [(&self.clean, false), (&self.dirty, true)] {
            if let Some(frame) = pool.iter(list).find(|f| pool.is_dirty(*f) != dirty) {
                return Err(format!("page {} is in the wrong list", pool.page(frame).0));
            }
        }
        let cold = walk_lists(pool, &[(CLEAN, &self.clean), (DIRTY, &self.dirty)])?;
        check_held(pool, cold + self.hit.len())
    }
}
