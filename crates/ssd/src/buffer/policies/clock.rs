//! CLOCK: first in, first out with a second chance.
//!
//! Invariant: every entry is in the one queue; its bit says that it was hit since it last entered
//! at the front.

use super::lists;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

/// The entry was hit.
const HIT: u8 = 0;

/// One queue; the hand is at its back.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    queue: List,
}

impl Policy for Clock {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.set_bit(frame, HIT, true);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() > 0 {
            return Admission::Admit(0);
        }
        while let Some(frame) = self.queue.back() {
            if !pool.bit(frame, HIT) {
                pool.unlink(&mut self.queue, frame);
                out.evict(frame, Stream::Other);
                break;
            }
            pool.set_bit(frame, HIT, false);
            pool.to_front(&mut self.queue, frame);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.queue, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.queue, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("queue", self.queue.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        lists::check(pool, &[("the queue", &self.queue)], |_| 0)
    }
}
