//! For how long something that may do several things at a time was busy: the length of the union
//! of spans, which come in any order.

use std::collections::VecDeque;

use block::{Span, Time};

use crate::shift::Shift;

/// Disjoint spans that do not touch, in order; what ended before the request being served is
/// forgotten.
///
/// Invariant: nothing is counted twice. A span that begins before what was forgotten ended counts
/// from there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    spans: VecDeque<(Time, Time)>,
    forgotten: Time,
}

impl Busy {
    /// Adds a span; what of it was not busy before. Nothing before `now` will be added.
    pub fn add(&mut self, now: Time, start: Time, end: Time) -> Span {
        while let Some((_, last)) = self.spans.front().copied().filter(|(_, last)| *last <= now) {
            self.forgotten = last;
            self.spans.pop_front();
        }
        let start = start.max(self.forgotten);
        if start >= end {
            return Span::ZERO;
        }
        let first = self.spans.partition_point(|(_, last)| *last < start);
        let (mut from, mut to, mut new) = (start, end, end - start);
        while let Some((a, b)) = self.spans.get(first).copied().filter(|(a, _)| *a <= end) {
            new = Span::from_ps(new.as_ps() - b.min(end).since(a.max(start)).as_ps());
            (from, to) = (from.min(a), to.max(b));
            self.spans.remove(first);
        }
        self.spans.insert(first, (from, to));
        new
    }

    /// Opens a gap where a read goes first: all that is later than the shift's time moves.
    pub fn open(&mut self, shift: &Shift) {
        let cut = |(start, _): &(Time, Time)| *start < shift.at;
        let Some(at) = self.spans.iter().position(|(_, end)| *end > shift.at) else { return };
        if cut(&self.spans[at]) {
            let (start, end) = self.spans[at];
            self.spans[at] = (shift.at, end);
            self.spans.insert(at, (start, shift.at));
        }
        for (start, end) in self.spans.iter_mut().filter(|(_, end)| *end > shift.at) {
            let delay = shift.delay(*end);
            *start += delay;
            *end += delay;
        }
    }

    /// Moves spans: an operation that was under way is interrupted.
    pub fn change(&mut self, change: impl Fn(&mut Time, &mut Time)) {
        for (start, end) in &mut self.spans {
            change(start, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    /// Against a moment-by-moment account.
    #[test]
    fn the_union_is_counted_in_whatever_order_its_parts_come() {
        for seed in 0..50 {
            let (mut rng, mut busy) = (Rng::new(seed), Busy::default());
            let (mut moments, mut sum) = ([false; 4_000], 0);
            for now in 0..600_u64 {
                let now = 5 * now;
                let start = now + rng.below(60);
                let end = start + rng.below(40);
                let at = |n| Time::ZERO + Span::from_ps(n);
                sum += busy.add(at(now), at(start), at(end)).as_ps();
                moments[start as usize..end as usize].fill(true);
                let counted = moments.iter().filter(|moment| **moment).count() as u64;
                assert_eq!(sum, counted, "seed {seed} at {now}");
            }
            assert!(busy.spans.len() < 40, "what is over is forgotten");
        }
    }
}
