//! Cold-clean-first LRU: pages read once go first; dirty pages get a second chance.
//!
//! Invariants: class 0 = mixed, 1 = cold and clean; bit 0 = cold. Entries of the second list are
//! clean. A page of the mixed list is cold only if it was dirty when passed over, and a hit clears
//! that, so a walk passes a page over at most once between two hits of it.

use super::common::check_lists;
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};
use block::Op;

const COLD: u8 = 0;
const COLD_CLEAN: u8 = 1;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "ccf-lru",
    aliases: &[],
    doc: "pages read once go first, dirty pages get a second chance",
    source: "Li et al., IEEE TCE 2009: the meaning of open code; the paper was not read",
    options: &[],
    clairvoyant: false,
    make: |setup| setup.buffer(CcfLru::default()),
};

/// See the module.
#[derive(Clone, Debug, Default)]
struct CcfLru {
    mixed: List,
    cold_clean: List,
}

impl CcfLru {
    fn list(&mut self, class: u8) -> &mut List {
        if class == COLD_CLEAN { &mut self.cold_clean } else { &mut self.mixed }
    }
    /// Walks the mixed list up to a cold page. Clean pages move to the other list; if nothing else
    /// is left, the victim is there.
    fn walk(&mut self, pool: &mut Pool) -> Option<Frame> {
        while let Some(last) = self.mixed.back() {
            if pool.bit(last, COLD) {
                return Some(last);
            }
            if pool.is_dirty(last) {
                pool.set_bit(last, COLD, true);
                pool.to_front(&mut self.mixed, last);
            } else {
                pool.unlink(&mut self.mixed, last);
                pool.push_front(&mut self.cold_clean, last);
                pool.set_class(last, COLD_CLEAN);
            }
        }
        self.cold_clean.back()
    }
}

impl Policy for CcfLru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.set_bit(frame, COLD, false);
        if pool.class(frame) == COLD_CLEAN {
            pool.unlink(&mut self.cold_clean, frame);
            pool.push_front(&mut self.mixed, frame);
            pool.set_class(frame, 0);
        } else {
            pool.to_front(&mut self.mixed, frame);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(victim) = self.cold_clean.back().or_else(|| self.walk(pool))
        {
            pool.unlink(self.list(pool.class(victim)), victim);
            out.evict(victim, Stream::Other);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        let class = if a.op == Op::Write { 0 } else { COLD_CLEAN };
        pool.push_front(self.list(class), frame);
        pool.set_class(frame, class);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(self.list(pool.class(frame)), frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("mixed", self.mixed.len());
        each("cold-clean", self.cold_clean.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        if let Some(frame) = pool.iter(&self.cold_clean).find(|f| pool.is_dirty(*f)) {
            return Err(format!("page {} is dirty among the clean", pool.page(frame).0));
        }
        check_lists(pool, &[(0, &self.mixed), (COLD_CLEAN, &self.cold_clean)])
    }
}
