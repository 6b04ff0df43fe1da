//! What flushes cover.
//!
//! Invariants:
//! * blocks are counted in the order in which they were handed over, forced ones not: they are durable by
//!   themselves; a [`Mark`] stands between two;
//! * a flush covers what was *answered* when it was submitted (all that NVMe promises), which of the
//!   order above is the longest beginning without an unanswered block;
//! * what is covered is durable when the flush is answered, not before; one flush that nobody waits
//!   for is under way at most.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use block::Time;

/// All that was handed over so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(NonZeroU64);

impl Mark {
    /// Behind so many blocks. One more is kept: that there is none of a file takes no room of its own.
    pub(crate) fn behind(blocks: u64) -> Mark {
        Mark(NonZeroU64::MIN.saturating_add(blocks))
    }
    fn blocks(self) -> u64 {
        self.0.get() - 1
    }
}

/// A flush that nobody waits for.
#[derive(Clone, Copy)]
struct Behind {
    covers: u64,
    done: Time,
}

/// See above.
#[derive(Default)]
pub(super) struct Flushes {
    /// Blocks handed over.
    handed: u64,
    /// Of them, those that the device has.
    sent: u64,
    /// Of them, in order, those that are durable.
    durable: u64,
    /// Up to which block all are answered when.
    answers: VecDeque<(u64, Time)>,
    behind: Option<Behind>,
    /// A flush counts for what was submitted, answered or not: a planted bug.
    pub(super) early: bool,
}

impl Flushes {
    /// Blocks are handed over.
    pub(super) fn hand(&mut self, blocks: u64) {
        self.handed += blocks;
    }

    /// All that was handed over is with the device, at `now`; the last of it is answered at `done`.
    pub(super) fn sent(&mut self, now: Time, done: Time) {
        self.sent = self.handed;
        let last = self.answers.back().map_or(done, |(_, by)| done.max(*by));
        self.answers.push_back((self.sent, last));
        // What was answered by now, every flush to come covers.
        while self.answers.get(1).is_some_and(|(_, by)| *by <= now) {
            self.answers.pop_front();
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark::behind(self.handed)
    }

    /// Whether some of it was not sent yet.
    pub(super) fn waits(&self, mark: Mark) -> bool {
        self.sent < mark.blocks()
    }

    /// A flush is done that covers all before a mark.
    pub(super) fn cover(&mut self, mark: Mark) {
        self.durable = self.durable.max(mark.blocks());
        while self.answers.front().is_some_and(|(to, _)| *to <= self.durable) {
            self.answers.pop_front();
        }
    }

    /// A flush that waited for everything is answered.
    pub(super) fn flushed(&mut self) {
        self.behind = None;
        self.cover(Mark::behind(self.sent));
    }

    /// A flush is submitted at `now` that is answered at `done`; none is under way.
    pub(super) fn submitted(&mut self, now: Time, done: Time) {
        self.settle(now);
        let answered = self.answers.iter().take_while(|(_, by)| *by <= now).last();
        let covers = if self.early { self.sent } else { answered.map_or(self.durable, |a| a.0) };
        self.behind = Some(Behind { covers, done });
    }

    /// Whether all of it is durable at `now`.
    pub(super) fn is_durable(&mut self, now: Time, mark: Mark) -> bool {
        self.settle(now);
        self.durable >= mark.blocks()
    }

    fn settle(&mut self, now: Time) {
        if let Some(behind) = self.behind.take_if(|behind| behind.done <= now) {
            self.cover(Mark::behind(behind.covers));
        }
    }

    /// Whether a flush is under way at `now`.
    pub(super) fn is_busy(&self, now: Time) -> bool {
        self.behind.is_some_and(|behind| behind.done > now)
    }

    /// When all of it is answered.
    pub(super) fn answered(&self, mark: Mark) -> Option<Time> {
        self.answers.iter().find(|(to, _)| *to >= mark.blocks()).map(|(_, by)| *by)
    }

    /// When something happens that this waits for: a flush under way is answered, or a flush that
    /// would cover it may be submitted. None: it was not sent, or is durable.
    pub(super) fn due(&self, now: Time, mark: Mark) -> Option<Time> {
        match self.behind.filter(|behind| behind.done > now) {
            Some(behind) => Some(behind.done),
            None => self.answered(mark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::from_us(n)
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it() {
        let mut all = Flushes::default();
        all.hand(3);
        all.sent(us(0), us(50));
        let first = all.mark();
        all.hand(2);
        // Answered earlier than what was sent before it: it counts from then on.
        all.sent(us(1), us(20));
        let second = all.mark();
        assert_eq!((all.answered(first), all.answered(second)), (Some(us(50)), Some(us(50))));
        all.submitted(us(30), us(60));
        assert!(all.is_busy(us(59)) && !all.is_durable(us(60), first), "nothing was answered then");
        all.submitted(us(60), us(90));
        assert!(!all.is_durable(us(89), first));
        assert!(all.is_durable(us(90), first) && all.is_durable(us(90), second));
        all.hand(1);
        let third = all.mark();
        assert!(all.waits(third) && !all.is_durable(us(1000), third));
        all.sent(us(95), us(99));
        all.flushed();
        assert!(all.is_durable(us(100), third));
    }

    #[test]
    fn answers_are_not_kept_for_ever() {
        let mut all = Flushes::default();
        for n in 0..1_000 {
            all.hand(64);
            all.sent(us(10 * n), us(10 * n + 15));
        }
        assert!(all.answers.len() < 5, "{}", all.answers.len());
    }
}
