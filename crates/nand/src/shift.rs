//! What a read moved on its die, so that whoever noted a booking can move it too.
//!
//! Invariants:
//! * what had ended at `at` stays where it is; all later programs and erases of the die move, by
//!   `first` or, from a gap in the bookings on that took some of it up, by less;
//! * an operation that was under way at `at` is moved only if the read interrupts it, and then its
//!   end alone;
//! * operations keep their order, and those that did not overlap do not.

use block::{Span, Time};

/// See above.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shift {
    pub die: u32,
    pub at: Time,
    /// Something was under way at `at`, and goes on later. Otherwise what begins at `at` moves too.
    pub interrupts: bool,
    first: Span,
    /// Delays of what was to begin at a time or later: each less than the one before.
    less: Vec<(Time, Span)>,
}

impl Shift {
    /// All that had not ended at `at` moves by `first`.
    pub fn new(die: u32, at: Time, interrupts: bool, first: Span) -> Shift {
        Shift { die, at, interrupts, first, less: Vec::new() }
    }
    /// What was to begin at `from` or later moves by `delay` only.
    pub fn less_from(&mut self, from: Time, delay: Span) {
        self.less.push((from, delay));
    }
    /// By how much the last operations of the die move.
    pub fn last(&self) -> Span {
        self.less.last().map_or(self.first, |(_, delay)| *delay)
    }
    /// By how much an operation moves that was to end at `end`.
    pub fn delay(&self, end: Time) -> Span {
        let later = self.less.iter().rev().find(|(from, _)| *from < end);
        later.map_or(self.first, |(_, delay)| *delay)
    }
    /// Whether an operation that was to begin at `start` moves as a whole.
    pub fn moves_start(&self, start: Time) -> bool {
        start > self.at || start == self.at && !self.interrupts
    }
    /// The start and end of an operation of the die after the move.
    pub fn apply(&self, start: &mut Time, end: &mut Time) {
        if *end > self.at {
            let delay = self.delay(*end);
            if self.moves_start(*start) {
                *start += delay;
            }
            *end += delay;
        }
    }
}
