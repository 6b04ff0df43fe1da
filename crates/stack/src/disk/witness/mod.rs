//! A disk that is watched: what was durable when the power went has to be there when it is back.
//!
//! Invariants:
//! * it judges by what was asked and answered here, and by nothing that the stack below says of itself;
//! * of a block it keeps checksums, never bytes, and not more of them than so many;
//! * a block is compared with nothing changing what is known of it, so those who write meanwhile alarm nobody;
//! * what it cannot know (parts of blocks, transactions, who came first of two in flight together) it lets pass.

mod seen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::crc32c;

use self::seen::{BLOCK, Change, Seen};
use super::{Ask, Capabilities, Disk, DiskError, Done, Extent, Piece, Told, TransactError};
use crate::power::{Power, PowerError, PowerState, When};

/// Blocks named in one error.
const NAMED: usize = 4;

/// What is durable when it is answered is not before: a drive in real time has still to do it.
fn over(done: Done) -> Result<Done, DiskError> {
    done.wait().map(|()| Done::NOW)
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

    fn changed(
        &self,
        change: &Change,
        fua: bool,
        work: impl FnOnce(&dyn Disk) -> Result<Done, DiskError>,
    ) -> Result<Done, DiskError> {
        let begun = self.seen().begin(change);
        let result = work(&*self.below);
        let result = if fua { result.and_then(over) } else { result };
        self.seen().end(change, begun, result.is_ok(), fua);
        result
    }

    /// Compares every block with what it may hold, and remembers what it does hold: that stays. `since` is when the
    /// power came back; who writes meanwhile is not judged.
    fn compare(&self, since: u64) -> Result<(), DiskError> {
        let torn = u64::from(self.below.capabilities().atomic) < BLOCK;
        let (mut bytes, mut broken, mut named) = (vec![0; BLOCK as usize], 0, Vec::new());
        let blocks: Vec<u64> = self.seen().blocks.keys().copied().collect();
        for block in blocks {
            let mut seen = self.seen();
            let read = self.below.read(block * BLOCK, &mut bytes).and_then(Done::wait);
            if read.is_err() && !self.power.state().on {
                // It has gone again: the next power-on judges the rest.
                break;
            }
            let Some(kept) = seen.blocks.get_mut(&block) else { continue };
            let found = read.as_ref().ok().map(|()| crc32c(0, &bytes));
            let fits = match found {
                // What was under way may be torn where the device tears it.
                Some(found) => kept.may_be(found) || torn && kept.may_be_torn(),
                None => kept.may_be_anything(),
            };
            kept.came_back(found, since);
            drop(seen);
            if !fits {
                broken += 1;
                let how = match read {
                    Err(error) => error.to_string(),
                    Ok(()) if bytes.iter().all(|byte| *byte == 0) => "zeroes".to_string(),
                    Ok(()) => "other bytes".to_string(),
                };
                named.extend((named.len() < NAMED).then(|| format!("block {block}: {how}")));
            }
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
            let (change, begun) = &changes[i];
            self.seen().end(change, *begun, result.is_ok(), false);
            ended(i, result);
        });
    }
    fn flush(&self) -> Result<Done, DiskError> {
        let flush = self.seen().tick();
        let done = self.below.flush().and_then(over)?;
        self.seen().flushed(flush);
        Ok(done)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        let block = u64::from(self.below.capabilities().block).max(BLOCK);
        let start = at.checked_next_multiple_of(block).unwrap_or(at);
        let end = at.saturating_add(bytes) / block * block;
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
        let pages =
            |page: block::Lpn, count: u64| Change::zeroes(u64::from(page.0) * BLOCK, count * BLOCK);
        let forgotten = match &ask {
            Ask::Write(_, first, from) => vec![pages(*first, (from.len() as u64).div_ceil(BLOCK))],
            Ask::Trim(_, first, count) => vec![pages(*first, u64::from(*count))],
            Ask::Remap(pairs) => pairs.iter().map(|(to, _)| pages(*to, 1)).collect(),
            _ => Vec::new(),
        };
        forgotten.iter().for_each(|change| self.seen().forget(change));
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
    use std::collections::BTreeMap;

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
        witness.write(BLOCK, &[byte; BLOCK as usize], fua).unwrap().wait().unwrap();
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
        let flush = |witness: &Witness| witness.flush().unwrap().wait().unwrap();
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
            w.trim(BLOCK, BLOCK, false).unwrap().wait().unwrap();
        };
        assert_eq!(may_be(trimmed), [0, 1]);
        let forgotten = |w: &Witness| {
            trimmed(w);
            flush(w);
        };
        assert_eq!(may_be(forgotten), [0]);
        let part = |w: &Witness| {
            durable(w);
            w.zero(BLOCK + 512, 512, false, false).unwrap().wait().unwrap();
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
    fn what_was_not_read_once_is_not_known_by_what_was_read_before_it() {
        let (disk, witness) = watched();
        put(&witness, 1, true);
        disk.holds(1, UNREADABLE);
        witness.on().unwrap_err();
        disk.holds(1, 3);
        witness.on().expect("nothing is known of it since");
    }
}
