//! A disk that is watched: what was durable when the power went has to be there when it is back.
//!
//! Invariants:
//! * it judges by what was asked and answered here, and by nothing that the stack below says of itself;
//! * of a block it keeps checksums, never bytes: some 100 bytes for each block that was ever written;
//! * what it cannot know (parts of blocks, transactions, who came first of two in flight together) it lets pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::crc32c;

use super::{Ask, Capabilities, Disk, DiskError, Done, Extent, Piece, Told, TransactError};
use crate::power::{Power, PowerError, PowerState, When};

const BLOCK: u64 = 4096;
const IN_FLIGHT: u64 = u64::MAX;
/// Blocks named in one error.
const NAMED: usize = 4;

/// A checksum; none where any bytes are right.
type Sum = Option<u32>;

/// What somebody wrote, and when: before its answer it may be there or not.
#[derive(Clone, Copy, Debug)]
struct Version {
    sum: Sum,
    begun: u64,
    ended: u64,
}

/// A block: what it may hold, of which something is durable, and what was written since.
#[derive(Clone, Debug)]
struct Kept {
    durable: Vec<Version>,
    since: Vec<Version>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { durable: vec![Version { sum: None, begun: 0, ended: 0 }], since: Vec::new() }
    }
}

impl Kept {
    /// A flush that was asked for at `flush` was answered.
    fn flushed(&mut self, flush: u64) {
        let over = |version: &&Version| version.ended < flush;
        let there = || self.durable.iter().chain(self.since.iter().filter(over));
        let last = there().map(|version| version.begun).max().unwrap_or(0);
        // Those that were over when the last one began are gone; others may have come after it.
        let durable = there().filter(|version| version.ended >= last).copied().collect();
        self.durable = durable;
        self.since.retain(|version| version.ended >= flush);
    }

    /// The power is back since `on`, and the block holds this.
    fn came_back(&mut self, found: u32, on: u64) {
        let (new, old): (Vec<Version>, Vec<Version>) =
            self.since.drain(..).partition(|version| version.begun > on);
        if new.is_empty() {
            self.durable = vec![Version { sum: Some(found), begun: on, ended: on }];
        } else {
            // It may be the new one already, and that is not durable.
            self.durable.extend(old.iter().map(|version| Version { ended: on, ..*version }));
        }
        self.since = new;
    }

    fn may_be(&self, found: u32) -> bool {
        let any = |version: &Version| version.sum.is_none_or(|sum| sum == found);
        self.durable.iter().any(any) || self.since.iter().any(any)
    }
}

#[derive(Default, Debug)]
struct Seen {
    clock: u64,
    blocks: BTreeMap<u64, Kept>,
    /// Blocks with something that is not durable.
    open: BTreeSet<u64>,
}

impl Seen {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn begin(&mut self, change: &Change) -> u64 {
        let begun = self.tick();
        for (block, sum) in &change.0 {
            let kept = self.blocks.entry(*block).or_default();
            kept.since.push(Version { sum: *sum, begun, ended: IN_FLIGHT });
            self.open.insert(*block);
        }
        begun
    }

    /// What begun then was answered; a failed one may be there for ever after, or until something newer is.
    fn end(&mut self, change: &Change, begun: u64, fua: bool) {
        let ended = self.tick();
        for (block, _) in &change.0 {
            let Some(kept) = self.blocks.get_mut(block) else { continue };
            for version in kept.since.iter_mut().filter(|version| version.begun == begun) {
                version.ended = ended;
            }
            if fua {
                // It alone: what came before it on this block is over, and nothing else is durable by it.
                kept.flushed(ended + 1);
            }
        }
    }

    fn flushed(&mut self, flush: u64) {
        let blocks = &mut self.blocks;
        self.open.retain(|block| {
            let Some(kept) = blocks.get_mut(block) else { return false };
            kept.flushed(flush);
            !kept.since.is_empty()
        });
    }
}

/// Blocks that a request changes, with what they hold then.
struct Change(Vec<(u64, Sum)>);

impl Change {
    /// Whole blocks of these bytes, and those of which it is a part.
    fn bytes(at: u64, from: &[u8]) -> Change {
        Change::each(at, from.len() as u64, |start| {
            let bytes = &from[(start - at) as usize..][..BLOCK as usize];
            crc32c(0, bytes)
        })
    }

    fn zeroes(at: u64, bytes: u64) -> Change {
        let sum = crc32c(0, &[0; BLOCK as usize]);
        Change::each(at, bytes, |_| sum)
    }

    /// Nobody knows what.
    fn anything(at: u64, bytes: u64) -> Change {
        let mut change = Change::each(at, bytes, |_| 0);
        change.0.iter_mut().for_each(|(_, sum)| *sum = None);
        change
    }

    fn each(at: u64, bytes: u64, sum: impl Fn(u64) -> u32) -> Change {
        let blocks = at / BLOCK..(at + bytes).div_ceil(BLOCK);
        let whole = |block: u64| block * BLOCK >= at && (block + 1) * BLOCK <= at + bytes;
        let one = |block: u64| (block, whole(block).then(|| sum(block * BLOCK)));
        Change(if bytes == 0 { Vec::new() } else { blocks.map(one).collect() })
    }
}

/// A disk, with its switch, and what is known of it.
#[derive(Debug)]
pub struct Witness {
    below: Arc<dyn Disk>,
    power: Arc<dyn Power>,
    seen: Mutex<Seen>,
}

impl Witness {
    /// Watches `below`, whose power `power` switches.
    pub fn new(below: Arc<dyn Disk>, power: Arc<dyn Power>) -> Witness {
        Witness { below, power, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed<R, E>(
        &self,
        change: &Change,
        fua: bool,
        work: impl FnOnce(&dyn Disk) -> Result<R, E>,
    ) -> Result<R, E> {
        let begun = self.seen().begin(change);
        let result = work(&*self.below);
        if result.is_ok() {
            self.seen().end(change, begun, fua);
        }
        result
    }

    /// Compares every block with what it may hold, and remembers what it does hold: that stays. `since` is when the
    /// power came back; who writes meanwhile is not judged.
    fn compare(&self, since: u64) -> Result<(), DiskError> {
        let torn = u64::from(self.below.capabilities().atomic) < BLOCK;
        let (mut bytes, mut broken, mut named) = (vec![0; BLOCK as usize], 0, Vec::new());
        let blocks: Vec<u64> = self.seen().blocks.keys().copied().collect();
        for block in blocks {
            let read = self.below.read(block * BLOCK, &mut bytes).map(Done::wait);
            if read.is_err() && !self.power.state().on {
                // It has gone again: the next power-on judges the rest.
                break;
            }
            let found = crc32c(0, &bytes);
            let mut seen = self.seen();
            let Some(kept) = seen.blocks.get_mut(&block) else { continue };
            // What was under way may be torn where the device tears it.
            let fits = match &read {
                Ok(()) => kept.may_be(found) || torn && !kept.since.is_empty(),
                Err(_) => kept.durable.iter().any(|version| version.sum.is_none()),
            };
            if !fits {
                broken += 1;
                let how = match read {
                    Err(error) => error.to_string(),
                    Ok(()) if bytes.iter().all(|byte| *byte == 0) => "zeroes".to_string(),
                    Ok(()) => "other bytes".to_string(),
                };
                named.extend((named.len() < NAMED).then(|| format!("block {block}: {how}")));
            }
            kept.came_back(found, since);
        }
        match broken {
            0 => Ok(()),
            n => Err(DiskError::Damaged(format!(
                "the power is on, and {n} blocks of {BLOCK} bytes are not what was durable ({})",
                named.join("; ")
            ))),
        }
    }
}

impl Power for Witness {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        self.power.cut(when)
    }
    fn on(&self) -> Result<(), PowerError> {
        let since = self.seen().tick();
        self.power.on()?;
        Ok(self.compare(since)?)
    }
    fn state(&self) -> PowerState {
        self.power.state()
    }
}

impl Disk for Witness {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.below.read(at, into)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.changed(&Change::bytes(at, from), fua, |below| below.write(at, from, fua))
    }
    fn joins_writes(&self) -> bool {
        self.below.joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        let changes: Vec<(Change, u64)> = pieces
            .iter()
            .map(|piece| {
                let change = Change::bytes(piece.at, piece.bytes);
                let begun = self.seen().begin(&change);
                (change, begun)
            })
            .collect();
        self.below.write_each(pieces, &mut |i, result| {
            if result.is_ok() {
                self.seen().end(&changes[i].0, changes[i].1, false);
            }
            ended(i, result);
        });
    }
    fn flush(&self) -> Result<Done, DiskError> {
        let flush = self.seen().tick();
        let done = self.below.flush()?;
        self.seen().flushed(flush);
        Ok(done)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        let block = u64::from(self.below.capabilities().block).max(BLOCK);
        let (start, end) = (at.next_multiple_of(block), (at + bytes) / block * block);
        let change = Change::zeroes(start, end.saturating_sub(start));
        self.changed(&change, fua, |below| below.trim(at, bytes, fua))
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.changed(&Change::zeroes(at, bytes), fua, |below| below.zero(at, bytes, keep, fua))
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.below.extents(at, bytes, most)
    }
    /// A commit changes blocks that are named before it: from then on anything may be in them, until they are
    /// written again.
    fn transact(&self, ask: Ask<'_>) -> Result<Told, TransactError> {
        let changed = match &ask {
            Ask::Write(_, first, from) => Some((first.0, from.len() as u64)),
            Ask::Trim(_, first, count) => Some((first.0, u64::from(*count) * BLOCK)),
            _ => None,
        };
        let remapped = match &ask {
            Ask::Remap(pairs) => pairs.iter().map(|(to, _)| to.0).collect(),
            _ => Vec::new(),
        };
        let mut seen = self.seen();
        let ranges = changed.into_iter().chain(remapped.into_iter().map(|page| (page, BLOCK)));
        for (page, bytes) in ranges {
            let change = Change::anything(u64::from(page) * BLOCK, bytes);
            for (block, _) in change.0 {
                seen.blocks.insert(block, Kept::default());
                seen.open.remove(&block);
            }
        }
        drop(seen);
        self.below.transact(ask)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.below.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.below.counters();
        all.push(("witnessed_blocks", self.seen().blocks.len() as u64));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: [u8; 3] = [1, 2, 3];
    /// A block of these is not read.
    const UNREADABLE: u8 = 9;

    /// A disk in memory that loses what somebody takes from it, and a switch that does nothing.
    #[derive(Default, Debug)]
    struct Careless(Mutex<BTreeMap<u64, u8>>);

    impl Careless {
        fn holds(&self, block: u64, byte: u8) {
            self.0.lock().unwrap().insert(block, byte);
        }
    }

    impl Disk for Careless {
        fn capabilities(&self) -> Capabilities {
            let (size, block, atomic) = (1 << 20, 4096, 4096);
            Capabilities { size, block, atomic, volatile: true, trim: true, read_only: false }
        }
        fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
            into.fill(self.0.lock().unwrap().get(&(at / BLOCK)).copied().unwrap_or(0));
            if into[0] == UNREADABLE { Err(DiskError::PowerOff) } else { Ok(Done::NOW) }
        }
        fn write(&self, at: u64, from: &[u8], _: bool) -> Result<Done, DiskError> {
            self.holds(at / BLOCK, from[0]);
            Ok(Done::NOW)
        }
        fn flush(&self) -> Result<Done, DiskError> {
            Ok(Done::NOW)
        }
        fn trim(&self, at: u64, _: u64, _: bool) -> Result<Done, DiskError> {
            self.holds(at / BLOCK, 0);
            Ok(Done::NOW)
        }
        fn zero(&self, at: u64, _: u64, _: bool, _: bool) -> Result<Done, DiskError> {
            self.holds(at / BLOCK, 0);
            Ok(Done::NOW)
        }
        fn zero_is_fast(&self, _: u64, _: u64, _: bool) -> bool {
            true
        }
        fn extents(&self, _: u64, bytes: u64, _: usize) -> Result<Vec<Extent>, DiskError> {
            Ok(vec![Extent { bytes, hole: false }])
        }
        fn counters(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    /// Whether it is on.
    #[derive(Debug)]
    struct Still(bool);

    impl Power for Still {
        fn cut(&self, _: When) -> Result<(), PowerError> {
            Ok(())
        }
        fn on(&self) -> Result<(), PowerError> {
            Ok(())
        }
        fn state(&self) -> PowerState {
            PowerState { on: self.0, operations: 0, cuts: 0, last: None }
        }
    }

    fn watched() -> (Arc<Careless>, Witness) {
        let disk = Arc::new(Careless::default());
        (Arc::clone(&disk), Witness::new(disk, Arc::new(Still(true))))
    }

    fn put(witness: &Witness, byte: u8, fua: bool) {
        witness.write(BLOCK, &[byte; BLOCK as usize], fua).unwrap().wait();
    }

    /// Which of the bytes 0 to 3 may be in block 1 when the power is back.
    fn may_be(make: impl Fn(&Witness)) -> Vec<u8> {
        let fits = |byte: &u8| {
            let (disk, witness) = watched();
            make(&witness);
            disk.holds(1, *byte);
            witness.on().is_ok()
        };
        (0..=3).filter(fits).collect()
    }

    #[test]
    fn what_was_durable_is_there_and_what_was_not_may_be() {
        let flush = |witness: &Witness| witness.flush().unwrap().wait();
        assert_eq!(
            may_be(|w| put(w, 1, false)),
            [0, 1, 2, 3],
            "what was there before is not known"
        );
        let durable = |w: &Witness| {
            put(w, 1, false);
            flush(w);
        };
        assert_eq!(may_be(durable), [1]);
        assert_eq!(may_be(|w| put(w, 1, true)), [1], "forced");
        let rewritten = |w: &Witness| {
            durable(w);
            put(w, 2, false);
            put(w, 3, false);
        };
        assert_eq!(may_be(rewritten), FULL, "what was durable, or any since");
        let forced = |w: &Witness| {
            rewritten(w);
            put(w, 2, true);
        };
        assert_eq!(may_be(forced), [2], "what a forced write came after is gone");
        let trimmed = |w: &Witness| {
            durable(w);
            w.trim(BLOCK, BLOCK, false).unwrap().wait();
        };
        assert_eq!(may_be(trimmed), [0, 1]);
        let forgotten = |w: &Witness| {
            trimmed(w);
            flush(w);
        };
        assert_eq!(may_be(forgotten), [0]);
        let part = |w: &Witness| {
            durable(w);
            w.zero(BLOCK + 512, 512, false, false).unwrap().wait();
        };
        assert_eq!(may_be(part), [0, 1, 2, 3], "parts of blocks are let pass");
        // What came back stays.
        let twice = |w: &Witness| {
            rewritten(w);
            w.on().unwrap();
        };
        assert_eq!(may_be(twice), [3]);
    }

    #[test]
    fn what_is_not_read_is_lost_unless_the_power_has_gone_again() {
        let (disk, witness) = watched();
        put(&witness, 1, true);
        disk.holds(1, UNREADABLE);
        assert!(witness.on().unwrap_err().to_string().contains("block 1: the power is off"));
        let disk = Arc::new(Careless::default());
        let witness = Witness::new(Arc::<Careless>::clone(&disk), Arc::new(Still(false)));
        put(&witness, 1, true);
        disk.holds(1, UNREADABLE);
        witness.on().expect("nothing is known yet");
        disk.holds(1, 2);
        assert!(witness.on().is_err(), "the next time it is");
    }

    #[test]
    fn what_was_under_way_at_a_flush_is_not_durable_by_it() {
        let sum = |byte: u8| crc32c(0, &[byte; BLOCK as usize]);
        let (one, two) = (Change(vec![(1, Some(sum(1)))]), Change(vec![(1, Some(sum(2)))]));
        let mut seen = Seen::default();
        let first = seen.begin(&one);
        seen.end(&one, first, false);
        let second = seen.begin(&two);
        let flush = seen.tick();
        seen.end(&two, second, false);
        seen.flushed(flush);
        let allowed = |seen: &Seen| {
            let kept = &seen.blocks[&1];
            (1..=3).filter(|byte| kept.may_be(sum(*byte))).collect::<Vec<u8>>()
        };
        assert_eq!(allowed(&seen), [1, 2]);
        let flush = seen.tick();
        seen.flushed(flush);
        assert_eq!(allowed(&seen), [2]);
        assert!(seen.open.is_empty());
        // Of two in flight together either may have come last.
        let (first, second) = (seen.begin(&one), seen.begin(&two));
        seen.end(&two, second, false);
        seen.end(&one, first, false);
        let flush = seen.tick();
        seen.flushed(flush);
        assert_eq!(allowed(&seen), [1, 2]);
        // Nor is one that was under way when a forced one came and went.
        let first = seen.begin(&one);
        let forced = seen.begin(&two);
        seen.end(&two, forced, true);
        seen.end(&one, first, false);
        let flush = seen.tick();
        seen.flushed(flush);
        assert_eq!(allowed(&seen), [1, 2]);
        // Who writes while the power comes back is not judged by what was there.
        let on = seen.tick();
        let new = Change(vec![(1, Some(sum(3)))]);
        let begun = seen.begin(&new);
        seen.blocks.get_mut(&1).unwrap().came_back(sum(3), on);
        assert_eq!(allowed(&seen), FULL);
        seen.end(&new, begun, true);
        assert_eq!(allowed(&seen), [3]);
    }
}
