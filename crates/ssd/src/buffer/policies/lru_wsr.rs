//! LRU with write sequence reordering: a dirty page gets a second chance unless it is cold.
//!
//! Invariants: one list; bit 0 = cold, set only when a dirty page was passed over, cleared by a
//! hit. So a walk for a victim passes a page over at most once between two hits of it.

use super::common::check_lists;
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

const COLD: u8 = 0;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "lru-wsr",
    aliases: &["wsr"],
    doc: "LRU that passes a dirty page over once",
    source: "Jung et al., IEEE TCE 2008: the meaning of open code; the paper was not read",
    options: &[],
    clairvoyant: false,
    make: |setup| setup.buffer(LruWsr::default()),
};

/// See the module.
#[derive(Clone, Debug, Default)]
struct LruWsr {
    list: List,
}

impl Policy for LruWsr {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.set_bit(frame, COLD, false);
        pool.to_front(&mut self.list, frame);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0 {
            while let Some(last) = self.list.back() {
                if !pool.is_dirty(last) || pool.bit(last, COLD) {
                    pool.unlink(&mut self.list, last);
                    out.evict(last, Stream::Other);
                    break;
                }
                pool.set_bit(last, COLD, true);
                pool.to_front(&mut self.list, last);
            }
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.list, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.list, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("lru", self.list.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        check_lists(pool, &[(0, &self.list)])
    }
}
