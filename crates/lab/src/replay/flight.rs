//! Requests in flight: when does the next place become free?

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::Time;

/// The ends of at most `limit` requests in flight. Its memory is fixed when it is made.
#[derive(Debug)]
pub(super) struct InFlight {
    ends: BinaryHeap<Reverse<Time>>,
    limit: usize,
}

impl InFlight {
    /// None in flight; `limit` is at least 1.
    pub(super) fn new(limit: u32) -> InFlight {
        let limit = limit.max(1) as usize;
        InFlight { ends: BinaryHeap::with_capacity(limit), limit }
    }

    /// The first moment from `at` on with a free place.
    pub(super) fn free_at(&self, at: Time) -> Time {
        match self.ends.peek() {
            Some(Reverse(end)) if self.ends.len() == self.limit => at.max(*end),
            _ => at,
        }
    }

    /// Takes a place for a request that ends at `end`; the caller waited until
    /// [`InFlight::free_at`], so if all places are taken the first to end is over by now.
    pub(super) fn take(&mut self, end: Time) {
        if self.ends.len() == self.limit {
            // One sift instead of a pop and a push.
            if let Some(mut first) = self.ends.peek_mut() {
                *first = Reverse(end);
            }
        } else {
            self.ends.push(Reverse(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_first_to_end_is_the_next_free_one() {
        let t = Time::from_us;
        let mut flight = InFlight::new(2);
        assert_eq!(flight.free_at(t(5)), t(5));
        flight.take(t(30));
        assert_eq!(flight.free_at(t(5)), t(5));
        flight.take(t(20));
        assert_eq!(flight.free_at(t(5)), t(20));
        assert_eq!(flight.free_at(t(25)), t(25));
        flight.take(t(40));
        assert_eq!(flight.free_at(t(25)), t(30));
    }
}
