//! Bookings of the host's side of the drive, noted beside it: firmware, link, memory.

use std::collections::BTreeMap;

use block::Time;
use nand::Spent;

/// A booking of the host's side of the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub at: Time,
    pub spent: Spent,
    pub request: u64,
}

/// The bookings of the host's side that end after the submission of the current request; of those
/// that end at one moment, the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    ends: BTreeMap<Time, Step>,
    request: u64,
}

impl Steps {
    /// Notes that something which could begin at `at` is over at `end`.
    pub fn note(&mut self, at: Time, end: Time, spent: Spent) {
        if end > at {
            self.ends.insert(end, Step { at, spent, request: self.request });
        }
    }

    /// Bookings from here on are for request `number`, submitted at `at`.
    pub fn begin(&mut self, number: u64, at: Time) {
        self.request = number;
        while self.ends.first_key_value().is_some_and(|(end, _)| *end <= at) {
            self.ends.pop_first();
        }
    }

    /// What ends at `end`, if anything does.
    pub fn ending(&self, end: Time) -> Option<&Step> {
        self.ends.get(&end)
    }

    /// The last moment before `end` at which something ended.
    pub fn before(&self, end: Time) -> Option<Time> {
        self.ends.range(..end).next_back().map(|(end, _)| *end)
    }
}
