//! A resource that serves one booking at a time and fills its idle gaps.

use block::{Span, Time};

const GAPS: usize = 32;

/// A bus, a link, a DRAM port. A booking takes the first gap that fits, else the end. A read
/// books the bus after its sense time; another die may need the bus before that, which is what
/// the gaps are for.
///
/// Bookings are disjoint; `busy` is their exact sum.
#[derive(Clone, Debug)]
pub struct Timeline {
    free_from: Time,
    gaps: [(Time, Time); GAPS],
    count: usize,
    busy: Span,
    dropped: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            free_from: Time::ZERO,
            gaps: [(Time::ZERO, Time::ZERO); GAPS],
            count: 0,
            busy: Span::ZERO,
            dropped: 0,
        }
    }
}

impl Timeline {
    /// Books `length` not before `at` and returns the start. `now` is the time of the request
    /// being served: idle time before it can never be used again.
    #[inline]
    pub fn book(&mut self, now: Time, at: Time, length: Span) -> Time {
        self.busy += length;
        if at >= self.free_from {
            let idle_from = self.free_from.max(now);
            if idle_from < at {
                self.push_gap(now, idle_from, at);
            }
            self.free_from = at + length;
            return at;
        }
        if self.count > 0
            && let Some(start) = self.fill_gap(now, at, length)
        {
            return start;
        }
        let start = self.free_from;
        self.free_from = start + length;
        start
    }

    /// Restarts `busy` and `dropped`.
    pub fn reset_stats(&mut self) {
        self.busy = Span::ZERO;
        self.dropped = 0;
    }
    /// The end of the last booking.
    pub fn free_from(&self) -> Time {
        self.free_from
    }
    /// The sum of all bookings.
    pub fn busy(&self) -> Span {
        self.busy
    }
    /// Gaps forgotten because the ring was full; 0 means every booking was exact.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn forget_before(&mut self, now: Time) {
        let stale = self.gaps[..self.count].iter().take_while(|gap| gap.1 <= now).count();
        if stale > 0 {
            self.gaps.copy_within(stale..self.count, 0);
            self.count -= stale;
        }
    }

    fn push_gap(&mut self, now: Time, from: Time, to: Time) {
        self.forget_before(now);
        if self.count == GAPS {
            self.gaps.copy_within(1.., 0);
            self.count -= 1;
            self.dropped += 1;
        }
        self.gaps[self.count] = (from, to);
        self.count += 1;
    }

    fn fill_gap(&mut self, now: Time, at: Time, length: Span) -> Option<Time> {
        self.forget_before(now);
        for i in 0..self.count {
            let (from, to) = self.gaps[i];
            let start = from.max(at);
            let end = start + length;
            if end > to {
                continue;
            }
            match (from < start, end < to) {
                (false, false) => {
                    self.gaps.copy_within(i + 1..self.count, i);
                    self.count -= 1;
                }
                (false, true) => self.gaps[i] = (end, to),
                (true, false) => self.gaps[i] = (from, start),
                (true, true) => {
                    self.gaps[i] = (from, start);
                    if self.count == GAPS {
                        self.dropped += 1;
                    } else {
                        self.gaps.copy_within(i + 1..self.count, i + 2);
                        self.gaps[i + 1] = (end, to);
                        self.count += 1;
                    }
                }
            }
            return Some(start);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Rng;

    #[test]
    fn bookings_never_overlap_and_gaps_are_used() {
        let mut rng = Rng::new(11);
        for _ in 0..200 {
            let (mut line, mut booked, mut now) = (Timeline::default(), Vec::new(), 0);
            let mut sum = 0;
            for _ in 0..200 {
                now += rng.below(20);
                let at = now + rng.below(60);
                let length = 1 + rng.below(9);
                let start =
                    line.book(Time::from_ps(now), Time::from_ps(at), Span::from_ps(length)).as_ps();
                assert!(start >= at);
                booked.push((start, start + length));
                sum += length;
            }
            assert_eq!(line.busy().as_ps(), sum);
            booked.sort_unstable();
            assert!(booked.windows(2).all(|w| w[0].1 <= w[1].0), "{booked:?}");
        }
    }

    #[test]
    fn a_booking_takes_the_first_gap_that_fits() {
        let (ps, at) = (Span::from_ps, Time::from_ps);
        let mut line = Timeline::default();
        assert_eq!(line.book(at(0), at(100), ps(10)), at(100));
        assert_eq!(line.book(at(0), at(20), ps(30)), at(20));
        assert_eq!(line.book(at(0), at(0), ps(60)), at(110));
        assert_eq!(line.book(at(0), at(0), ps(20)), at(0));
        assert_eq!(line.book(at(0), at(0), ps(50)), at(50));
        assert_eq!(line.dropped(), 0);
    }
}
