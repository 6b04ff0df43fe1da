//! What is known of each block: checksums of what it may hold, and what of that is durable.
//!
//! Invariants:
//! * what a block holds is among what it may hold, in any order that requests in flight together took effect in;
//! * a version leaves only when one that began after it was over is durable;
//! * versions of a block are at most [`MOST`]: of more than that nothing is known, and anything is let pass.

use std::collections::{BTreeMap, BTreeSet};

use block::crc32c;

/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;
const IN_FLIGHT: u64 = u64::MAX;
/// Versions of a block that are kept.
const MOST: usize = 64;

/// A checksum; none where any bytes are right.
type Sum = Option<u32>;

/// What somebody wrote, and when, in ticks of [`Seen`]: before its answer it may be there or not.
#[derive(Clone, Copy, Debug)]
struct Version {
    sum: Sum,
    begun: u64,
    ended: u64,
    /// It was refused: the block holds it or does not, and nothing before it is gone.
    refused: bool,
}

impl Version {
    fn there(sum: Sum, since: u64) -> Version {
        Version { sum, begun: since, ended: since, refused: false }
    }
}

/// A block: what it may hold if all since is lost, and what was written since.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    durable: Vec<Version>,
    since: Vec<Version>,
}

impl Default for Kept {
    /// Nobody knows what.
    fn default() -> Kept {
        Kept { durable: vec![Version::there(None, 0)], since: Vec::new() }
    }
}

impl Kept {
    fn begin(&mut self, sum: Sum, begun: u64) {
        self.since.push(Version { sum, begun, ended: IN_FLIGHT, refused: false });
        if self.since.len() > MOST {
            // It is written over and over, and nobody flushes.
            self.since.retain(|version| version.ended == IN_FLIGHT);
            self.durable = vec![Version::there(None, begun)];
        }
    }

    /// A forced write that begun then was answered: it is durable, and nothing else is by it.
    fn forced(&mut self, begun: u64) {
        self.durable.retain(|version| version.ended >= begun);
        let own = self.since.iter().position(|version| version.begun == begun);
        self.durable.extend(own.map(|at| self.since.remove(at)));
        self.since.retain(|version| version.ended >= begun);
    }

    /// A flush that was asked for at `flush` was answered.
    fn flushed(&mut self, flush: u64) {
        let over = |version: &&Version| version.ended < flush;
        let there = || self.durable.iter().chain(self.since.iter().filter(over));
        let done = there().filter(|version| !version.refused);
        let last = done.map(|version| version.begun).max().unwrap_or(0);
        // Those that were over when the last one began are gone; others may have come after it.
        let durable: Vec<_> = there().filter(|version| version.ended >= last).copied().collect();
        self.durable = match durable.len() {
            0..=MOST => durable,
            _ => vec![Version::there(None, last)],
        };
        self.since.retain(|version| version.ended >= flush);
    }

    /// The power is back since `on`, and the block holds this; who has written since then is another matter.
    pub(super) fn came_back(&mut self, found: Sum, on: u64) {
        let (new, old): (Vec<Version>, Vec<Version>) =
            self.since.drain(..).partition(|version| version.begun > on);
        if new.is_empty() {
            self.durable = vec![Version::there(found, on)];
        } else {
            // It may be the new one already, and that is not durable.
            self.durable.extend(old.iter().map(|version| Version { ended: on, ..*version }));
        }
        self.since = new;
    }

    /// Whether nothing is known of what is durable.
    pub(super) fn may_be_anything(&self) -> bool {
        self.durable.iter().any(|version| version.sum.is_none())
    }

    pub(super) fn may_be(&self, found: u32) -> bool {
        let is = |version: &Version| version.sum.is_none_or(|sum| sum == found);
        self.durable.iter().any(is) || self.since.iter().any(is)
    }

    /// Whether something was written and is not durable.
    fn is_open(&self) -> bool {
        !self.since.is_empty()
    }

    /// Whether parts of what was written may be there, on a device that tears blocks.
    pub(super) fn may_be_torn(&self) -> bool {
        self.is_open() || self.durable.iter().any(|version| version.refused)
    }
}

/// All blocks that were ever changed.
#[derive(Default, Debug)]
pub(super) struct Seen {
    clock: u64,
    pub(super) blocks: BTreeMap<u64, Kept>,
    /// Blocks with something that is not durable.
    open: BTreeSet<u64>,
}

impl Seen {
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn begin(&mut self, change: &Change) -> u64 {
        let begun = self.tick();
        for (block, sum) in &change.0 {
            self.blocks.entry(*block).or_default().begin(*sum, begun);
            self.open.insert(*block);
        }
        begun
    }

    /// What begun then was answered, or refused; forced if it was to be durable.
    pub(super) fn end(&mut self, change: &Change, begun: u64, answered: bool, forced: bool) {
        let ended = self.tick();
        for (block, _) in &change.0 {
            let Some(kept) = self.blocks.get_mut(block) else { continue };
            for version in kept.since.iter_mut().filter(|version| version.begun == begun) {
                (version.ended, version.refused) = (ended, !answered);
            }
            if answered && forced {
                kept.forced(begun);
            }
        }
    }

    /// Of these blocks nothing is known any more.
    pub(super) fn forget(&mut self, change: &Change) {
        for (block, _) in &change.0 {
            self.blocks.insert(*block, Kept::default());
            self.open.remove(block);
        }
    }

    pub(super) fn flushed(&mut self, flush: u64) {
        let blocks = &mut self.blocks;
        self.open.retain(|block| {
            let Some(kept) = blocks.get_mut(block) else { return false };
            kept.flushed(flush);
            kept.is_open()
        });
    }
}

/// Blocks that a request changes, with what they hold then; none of a request that ends beyond all numbers.
#[derive(Debug)]
pub(super) struct Change(Vec<(u64, Sum)>);

impl Change {
    /// Whole blocks of these bytes, and those of which it is a part.
    pub(super) fn bytes(at: u64, from: &[u8]) -> Change {
        Change::each(at, from.len() as u64, |start| {
            crc32c(0, &from[(start - at) as usize..][..BLOCK as usize])
        })
    }

    pub(super) fn zeroes(at: u64, bytes: u64) -> Change {
        let sum = crc32c(0, &[0; BLOCK as usize]);
        Change::each(at, bytes, |_| sum)
    }

    fn each(at: u64, bytes: u64, sum: impl Fn(u64) -> u32) -> Change {
        let end = at.checked_add(bytes).filter(|_| bytes > 0);
        let blocks = end.map(|end| at / BLOCK..end.div_ceil(BLOCK));
        let whole = |block: u64| block * BLOCK >= at && (block + 1) * BLOCK <= at + bytes;
        let one = |block: u64| (block, whole(block).then(|| sum(block * BLOCK)));
        Change(blocks.into_iter().flatten().map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(byte: u8) -> u32 {
        crc32c(0, &[byte; BLOCK as usize])
    }

    fn of(byte: u8) -> Change {
        Change(vec![(1, Some(sum(byte)))])
    }

    fn allowed(seen: &Seen) -> Vec<u8> {
        (1..=3).filter(|byte| seen.blocks[&1].may_be(sum(*byte))).collect()
    }

    fn done(seen: &mut Seen, byte: u8, forced: bool) {
        let begun = seen.begin(&of(byte));
        seen.end(&of(byte), begun, true, forced);
    }

    fn flush(seen: &mut Seen) {
        let flush = seen.tick();
        seen.flushed(flush);
    }

    #[test]
    fn what_was_under_way_at_a_flush_is_not_durable_by_it() {
        let mut seen = Seen::default();
        done(&mut seen, 1, false);
        let second = seen.begin(&of(2));
        let asked = seen.tick();
        seen.end(&of(2), second, true, false);
        seen.flushed(asked);
        assert_eq!(allowed(&seen), [1, 2]);
        flush(&mut seen);
        assert_eq!(allowed(&seen), [2]);
        assert!(seen.open.is_empty());
    }

    #[test]
    fn of_two_in_flight_together_either_may_have_come_last() {
        let mut seen = Seen::default();
        for forced in [false, true] {
            let (first, second) = (seen.begin(&of(1)), seen.begin(&of(2)));
            seen.end(&of(2), second, true, forced);
            seen.end(&of(1), first, true, false);
            flush(&mut seen);
            assert_eq!(allowed(&seen), [1, 2], "one of them forced: {forced}");
        }
    }

    /// Around a forced write come two more, one after the other: without a flush the first may be all that is left.
    #[test]
    fn a_forced_write_makes_no_other_one_durable() {
        let mut seen = Seen::default();
        let forced = seen.begin(&of(1));
        done(&mut seen, 2, false);
        done(&mut seen, 3, false);
        seen.end(&of(1), forced, true, true);
        assert_eq!(allowed(&seen), [1, 2, 3]);
        flush(&mut seen);
        assert_eq!(allowed(&seen), [1, 3]);
    }

    #[test]
    fn what_was_refused_may_be_there_and_takes_nothing_away() {
        let mut seen = Seen::default();
        done(&mut seen, 1, true);
        for forced in [false, true] {
            let begun = seen.begin(&of(2));
            seen.end(&of(2), begun, false, forced);
            flush(&mut seen);
            assert_eq!(allowed(&seen), [1, 2]);
            assert!(seen.blocks[&1].may_be_torn());
        }
        assert!(seen.open.is_empty(), "it is over");
        done(&mut seen, 3, true);
        assert_eq!(allowed(&seen), [3]);
        assert!(!seen.blocks[&1].may_be_torn());
    }

    #[test]
    fn a_full_disk_that_refuses_for_ever_takes_no_memory() {
        let mut seen = Seen::default();
        done(&mut seen, 1, true);
        for answered in [false, true] {
            for number in 0..1000 {
                let change = Change(vec![(1, Some(number))]);
                let begun = seen.begin(&change);
                seen.end(&change, begun, answered, false);
                if number % 10 == 0 && !answered {
                    flush(&mut seen);
                }
                let kept = &seen.blocks[&1];
                assert!(kept.durable.len() + kept.since.len() <= 2 * MOST + 1);
            }
            assert_eq!(allowed(&seen), [1, 2, 3], "nothing is known");
            done(&mut seen, 2, true);
            assert_eq!(allowed(&seen), [2], "until it is written and durable");
        }
    }

    #[test]
    fn who_writes_while_the_power_comes_back_is_not_judged_by_what_was_there() {
        let mut seen = Seen::default();
        done(&mut seen, 1, true);
        done(&mut seen, 2, false);
        let on = seen.tick();
        let begun = seen.begin(&of(3));
        seen.blocks.get_mut(&1).unwrap().came_back(Some(sum(3)), on);
        assert_eq!(allowed(&seen), [1, 2, 3]);
        seen.end(&of(3), begun, true, true);
        assert_eq!(allowed(&seen), [3]);
    }

    #[test]
    fn parts_of_blocks_and_requests_beyond_all_numbers_are_understood() {
        let of = |at, bytes| {
            let change = Change::zeroes(at, bytes);
            change.0.into_iter().map(|(block, sum)| (block, sum.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(of(4096, 4096), [(1, true)]);
        assert_eq!(of(4095, 4098), [(0, false), (1, true), (2, false)]);
        assert_eq!(of(512, 512), [(0, false)]);
        assert_eq!((of(4096, 0), of(u64::MAX - 4096, 8192)), (vec![], vec![]));
    }
}
