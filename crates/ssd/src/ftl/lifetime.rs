//! Placement by lifetime: data that is likely to die at the same time shares a line.
//!
//! A page that the host writes again is expected to live as long as the version that it replaces
//! did; a page that cleaning copies has proved to live longer than it has lived. The unit of age is
//! a version of the host (a sequence number), so that cleaning does not make data older.
//!
//! | head | gets |
//! | --- | --- |
//! | host 0, hot | what replaces a version that lived less than `life` |
//! | host 1 | everything else |
//! | cleaning 0 | what is copied out of a hot line |
//! | cleaning 1, 2, 3 | what is copied out of another, younger than 4, than 16 lives, or older |
//!
//! | what | promise |
//! | --- | --- |
//! | life | running mean (1/16 each) of how long hot lines lasted, from opening to collection; at least a line's slots, which no line can last less than; begins at an eighth of the drive |
//! | written | of drives that keep no records: the low half of each slot's sequence number. Ages above 2^32 versions look young: once in 16 TiB of writes a page goes to another head |
//!
//! It decides where data lies, never what it is: a power-on begins with no ages of lines and the
//! first life again.

use crate::config::{OobMode, Params, Streams};

/// Heads of the host.
pub(super) const HOST: u32 = 2;
/// Heads of cleaning.
pub(super) const CLEANING: u32 = 4;

/// Host head of what is rewritten soon; its lines are the hot ones.
pub(super) const HOT: u8 = 0;
const COLD: usize = 1;

/// See above; empty where nobody asks.
#[derive(Clone, Debug)]
pub(super) struct Lifetime {
    /// Sixteen lives: what the running mean is kept in.
    lives: u64,
    least: u64,
    written: Vec<u32>,
}

impl Lifetime {
    /// For `slots` logical slots on lines of `line` slots.
    pub fn new(p: &Params, slots: usize, line: u32) -> Lifetime {
        let least = u64::from(line.max(1));
        let lean = p.streams == Streams::Lifetime && p.oob == OobMode::Lean;
        Lifetime {
            lives: 16 * (slots as u64 / 8).max(least),
            least,
            written: vec![0; if lean { slots } else { 0 }],
        }
    }

    /// How long hot data lives, in versions of the host.
    pub fn life(&self) -> u64 {
        (self.lives / 16).max(self.least)
    }

    /// The host head of a page whose last version was written so long ago; `None`: there is none,
    /// or nobody knows.
    pub fn of_host(&self, age: Option<u64>) -> usize {
        if age.is_some_and(|age| age < self.life()) { usize::from(HOT) } else { COLD }
    }

    /// The cleaning head, of four, of a page that is copied.
    pub fn of_copy(&self, from_hot: bool, age: u64) -> usize {
        match age / self.life() {
            _ if from_hot => 0,
            0..4 => 1,
            4..16 => 2,
            _ => 3,
        }
    }

    /// A hot line is collected that was opened so long ago.
    pub fn lasted(&mut self, span: u64) {
        self.lives = self.lives - self.lives / 16 + span;
    }

    /// A slot gets a version of this number.
    #[inline]
    pub fn wrote(&mut self, slot: u32, seq: u64) {
        if let Some(written) = self.written.get_mut(slot as usize) {
            *written = seq as u32;
        }
    }

    /// The age of a slot's version at number `now`, where no records are kept.
    pub fn age(&self, slot: u32, now: u64) -> Option<u64> {
        let written = self.written.get(slot as usize)?;
        Some(u64::from((now as u32).wrapping_sub(*written)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn lifetime(slots: usize) -> Lifetime {
        let mut config = Config::default();
        for pair in ["capacity=16 MiB", "op=100 %", "streams.policy=lifetime"] {
            config.set_pair(pair).unwrap();
        }
        Lifetime::new(&config.resolve().unwrap(), slots, 64)
    }

    #[test]
    fn what_replaces_young_data_is_hot_and_copies_are_told_apart_by_age() {
        let l = lifetime(8000);
        assert_eq!(l.life(), 1000);
        let host = [None, Some(0), Some(999), Some(1000)].map(|age| l.of_host(age));
        assert_eq!(host, [1, 0, 0, 1]);
        let copies = [0, 3999, 4000, 15_999, 16_000].map(|age| l.of_copy(false, age));
        assert_eq!(copies, [1, 1, 2, 2, 3]);
        assert_eq!(l.of_copy(true, 1 << 40), 0);
    }

    #[test]
    fn life_follows_the_hot_lines_but_never_below_a_line() {
        let mut l = lifetime(8000);
        for _ in 0..400 {
            l.lasted(2000);
        }
        assert!((1999..=2001).contains(&l.life()), "{}", l.life());
        for _ in 0..400 {
            l.lasted(1);
        }
        assert_eq!(l.life(), 64);
    }

    #[test]
    fn ages_survive_the_turn_of_the_low_half() {
        let mut l = lifetime(16);
        let written = (1 << 32) - 5;
        l.wrote(3, written);
        assert_eq!(l.age(3, written + 12), Some(12));
    }
}
