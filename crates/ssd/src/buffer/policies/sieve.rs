//! SIEVE: a queue whose hand takes out what was not hit and leaves the rest in place.
//!
//! Invariants: every entry is in the one queue; the hand is at an entry of it, or nowhere, which
//! means at the oldest; entries never move.

use super::lists;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

/// The entry was hit since the hand last passed.
const HIT: u8 = 0;

/// A queue and the hand, which moves from old to new.
#[derive(Clone, Debug, Default)]
pub(super) struct Sieve {
    queue: List,
    hand: Option<Frame>,
}

impl Sieve {
    fn take(&mut self, pool: &mut Pool, frame: Frame) {
        self.hand = pool.towards_front(frame);
        pool.unlink(&mut self.queue, frame);
    }
}

impl Policy for Sieve {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.set_bit(frame, HIT, true);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() > 0 {
            return Admission::Admit(0);
        }
        while let Some(frame) = self.hand.or(self.queue.back()) {
            if !pool.bit(frame, HIT) {
                self.take(pool, frame);
                out.evict(frame, Stream::Other);
                break;
            }
            pool.set_bit(frame, HIT, false);
            self.hand = pool.towards_front(frame);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.queue, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        if self.hand == Some(frame) {
            self.take(pool, frame);
        } else {
            pool.unlink(&mut self.queue, frame);
        }
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("queue", self.queue.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        lists::check(pool, &[("the queue", &self.queue)], |_| 0)?;
        match self.hand {
            Some(hand) if !pool.iter(&self.queue).any(|frame| frame == hand) => {
                Err("the hand is at no entry of the queue".to_string())
            }
            _ => Ok(()),
        }
    }
}
