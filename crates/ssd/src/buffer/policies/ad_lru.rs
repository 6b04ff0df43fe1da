//! Adaptive double LRU: a cold and a hot list, each giving up its last clean page first.
//!
//! Invariants: classes 0 to 2 = cold, 3 to 5 = hot; bit 0 = passed over as the last dirty page,
//! cleared by a hit.

use super::common::check_held;
use crate::buffer::clean_first::{CleanFirst, Ranks};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, Policy, PolicyOption, Pool, Stream};
use crate::config::KeyKind;
use block::Op;

const PASSED: u8 = 0;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "ad-lru",
    aliases: &[],
    doc: "pages used once and pages used again; of each the last clean page goes first",
    source: "Jin et al., Data Knowl. Eng. 2012: the meaning of open code; the paper was not read",
    options: &[PolicyOption {
        name: "min_lc",
        kind: KeyKind::Share,
        default: "50 %",
        doc: "share of the cold list below which the hot list gives up pages (other code: 20 %)",
    }],
    clairvoyant: false,
    make: |setup| {
        let entries = setup.shape.entries;
        setup.buffer(AdLru {
            min_cold: setup.share_of_entries("min_lc"),
            cold: CleanFirst::new(0, entries),
            hot: CleanFirst::new(3, entries),
            ranks: Ranks::new(entries),
        })
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct AdLru {
    min_cold: usize,
    cold: CleanFirst,
    hot: CleanFirst,
    ranks: Ranks,
}

impl AdLru {
    fn unlink(&mut self, pool: &mut Pool, frame: Frame) {
        let cold = self.cold.holds(pool.class(frame));
        let list = if cold { &mut self.cold } else { &mut self.hot };
        list.unlink(&mut self.ranks, pool, frame);
    }
    /// Takes the victim out of the list whose turn it is.
    fn victim(&mut self, pool: &mut Pool) -> Option<Frame> {
        let cold = self.cold.len() > self.min_cold || self.hot.is_empty();
        let list = if cold { &mut self.cold } else { &mut self.hot };
        if let Some(clean) = list.last_clean(&self.ranks) {
            list.unlink(&mut self.ranks, pool, clean);
            return Some(clean);
        }
        loop {
            let last = list.last_dirty()?;
            list.unlink(&mut self.ranks, pool, last);
            if pool.bit(last, PASSED) {
                return Some(last);
            }
            pool.set_bit(last, PASSED, true);
            list.push(&mut self.ranks, pool, last, true);
        }
    }
}

impl Policy for AdLru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.unlink(pool, frame);
        pool.set_bit(frame, PASSED, false);
        let dirty = pool.is_dirty(frame) || a.op == Op::Write;
        self.hot.push(&mut self.ranks, pool, frame, dirty);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(victim) = self.victim(pool)
        {
            out.evict(victim, Stream::Other);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.cold.push(&mut self.ranks, pool, frame, a.op == Op::Write);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        self.unlink(pool, frame);
    }
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        let cold = self.cold.holds(pool.class(frame));
        let list = if cold { &mut self.cold } else { &mut self.hot };
        list.cleaned(&mut self.ranks, pool, frame);
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("cold", self.cold.len());
        each("hot", self.hot.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        self.cold.check(&self.ranks, pool)?;
        self.hot.check(&self.ranks, pool)?;
        check_held(pool, self.cold.len() + self.hot.len())
    }
}
