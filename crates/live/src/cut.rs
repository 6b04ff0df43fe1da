//! A medium that fails on command: the power of the machine below an image.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Rng;

use crate::layout::SECTOR;
use crate::ranges::Ranges;
use block::Medium;

/// What one sector held back takes: its bytes, and its place in the table.
const COST: usize = SECTOR + 64;

/// A discard of more bytes is held back as a range, of whose pieces each happens or does not; below, each sector by itself.
const LONG_DISCARD: u64 = 1 << 20;
/// Pieces of such a range.
const PIECES: u64 = 256;

/// When the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Armed {
    /// At this operation.
    Operation(u64),
    /// At the next sync.
    Sync,
}

/// What a power cut left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// The operation that did not happen.
    pub operation: u64,
    /// Sectors written or discarded, and not synced.
    pub pending: u64,
    /// Those of them that are as they were at the last sync.
    pub lost: u64,
}

/// Keeps what is not synced from the medium below it. When the power goes, each sector written
/// since the last sync is left as it was, or as any of the versions written since; nothing works
/// from then on. A durable write says nothing of what was written before: that stays pending.
#[derive(Debug)]
pub struct CutMedium {
    inner: Arc<dyn Medium>,
    /// Versions held back at most: what is beyond reaches the medium as it would in any drive.
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Versions of each sector since the last sync, oldest first.
    pending: BTreeMap<u64, Vec<[u8; SECTOR]>>,
    /// Versions held in `pending`.
    held: usize,
    /// Sectors that were discarded since, from the first of a run to the one behind it; those in `pending` are what
    /// is said there.
    discarded: Ranges,
    /// Writes, discards and syncs so far.
    operations: u64,
    armed: Option<Armed>,
    rng: Rng,
    off: Option<Left>,
}

fn off() -> io::Error {
    io::Error::other("power cut")
}

impl CutMedium {
    /// Over `inner`; what survives is drawn from `seed`. It holds back whatever is not synced.
    pub fn new(inner: Arc<dyn Medium>, seed: u64) -> CutMedium {
        CutMedium::bounded(inner, seed, usize::MAX)
    }

    /// The same, and it takes at most about so many bytes of memory.
    pub fn bounded(inner: Arc<dyn Medium>, seed: u64, bytes: usize) -> CutMedium {
        let rng = Rng::stream(seed, "live/cut");
        let pending = BTreeMap::new();
        let discarded = Ranges::default();
        let state =
            State { pending, held: 0, discarded, operations: 0, armed: None, rng, off: None };
        CutMedium { inner, limit: bytes / COST, state: Mutex::new(state) }
    }

    /// Lets the power go at the `calls`-th write, discard, shortening or sync from here.
    pub fn cut_after(&self, calls: u64) {
        let mut state = self.lock();
        state.armed = Some(Armed::Operation(state.operations + calls.max(1)));
    }
    /// Lets the power go at the next sync.
    pub fn cut_at_sync(&self) {
        self.lock().armed = Some(Armed::Sync);
    }
    /// The power goes now.
    ///
    /// # Errors
    /// The medium fails while what survives is written.
    pub fn cut_now(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.off.is_some() {
            return Ok(());
        }
        state.operations += 1;
        self.leave(&mut state)
    }
    /// Writes, discards and syncs so far; the one the power went with is the last.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }
    /// What the cut left, if the power is off.
    pub fn left(&self) -> Option<Left> {
        self.lock().off
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; the power may go with it.
    fn step(&self, state: &mut State, sync: bool) -> io::Result<()> {
        if state.off.is_some() {
            return Err(off());
        }
        state.operations += 1;
        let goes = match state.armed {
            Some(Armed::Operation(at)) => state.operations >= at,
            Some(Armed::Sync) => sync,
            None => false,
        };
        if goes {
            self.leave(state)?;
            return Err(off());
        }
        Ok(())
    }

    /// Writes what the power cut leaves. Nothing and everything are drawn as well: the usual cuts.
    fn leave(&self, state: &mut State) -> io::Result<()> {
        let kind = state.rng.below(4);
        let alone = |state: &State, from: u64, to: u64| {
            to - from - state.pending.range(from..to).count() as u64
        };
        let runs: Vec<(u64, u64)> = state.discarded.runs().collect();
        let discarded: u64 = runs.iter().map(|(from, to)| alone(state, *from, *to)).sum();
        let pending = state.pending.len() as u64 + discarded;
        let mut left = Left { operation: state.operations, pending, lost: 0 };
        state.off = Some(left);
        state.held = 0;
        state.discarded = Ranges::default();
        // Before what was written: of a sector that has versions one of them is left, or what was there then.
        for (from, to) in runs {
            let piece = (to - from).div_ceil(PIECES);
            for first in (from..to).step_by(piece as usize) {
                let end = (first + piece).min(to);
                let happens = match kind {
                    0 => false,
                    1 => true,
                    _ => state.rng.ratio(1, 2),
                };
                match happens {
                    true => self.forget(state, first, end)?,
                    false => left.lost += alone(state, first, end),
                }
            }
        }
        for (sector, versions) in std::mem::take(&mut state.pending) {
            let pick = match kind {
                0 => 0,
                1 => versions.len() as u64,
                _ => state.rng.below(versions.len() as u64 + 1),
            };
            match pick {
                0 => left.lost += 1,
                n => self.inner.write(sector * SECTOR as u64, &versions[n as usize - 1])?,
            }
        }
        state.off = Some(left);
        self.inner.sync()
    }

    /// Discards sectors below that have no versions of their own.
    fn forget(&self, state: &State, from: u64, to: u64) -> io::Result<()> {
        let size = SECTOR as u64;
        let mut next = from;
        for end in state.pending.range(from..to).map(|(number, _)| *number).chain([to]) {
            if end > next {
                self.inner.discard(next * size, (end - next) * size)?;
            }
            next = end + 1;
        }
        Ok(())
    }

    /// Writes the newest version of all that is held back.
    fn settle(&self, state: &mut State) -> io::Result<()> {
        for (from, to) in std::mem::take(&mut state.discarded).runs() {
            // What was discarded last is discarded below, too, and not a sector of zeroes there.
            let last = |versions: &Vec<_>| versions.last() == Some(&[0; SECTOR]);
            let gone = state.pending.range(from..to).filter(|(_, versions)| last(versions));
            for number in gone.map(|(number, _)| *number).collect::<Vec<u64>>() {
                state.pending.remove(&number);
            }
            self.forget(state, from, to)?;
        }
        state.held = 0;
        for (number, versions) in std::mem::take(&mut state.pending) {
            self.inner.write(number * SECTOR as u64, &versions[versions.len() - 1])?;
        }
        Ok(())
    }

    fn hold(&self, state: &mut State, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (size, end) = (SECTOR as u64, at + bytes.len() as u64);
        for number in at / size..end.div_ceil(size) {
            let start = number * size;
            let (from, to) = (start.max(at), (start + size).min(end));
            let mut sector = match to - from == size {
                true => [0; SECTOR],
                false => self.sector(state, number)?,
            };
            sector[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            let versions = state.pending.entry(number).or_default();
            // It was discarded before, by what is held as a range.
            if versions.is_empty() && state.discarded.has(number) {
                versions.push([0; SECTOR]);
                state.held += 1;
            }
            versions.push(sector);
            state.held += 1;
        }
        self.bound(state)
    }

    /// What is beyond the memory that it may take reaches the medium.
    fn bound(&self, state: &mut State) -> io::Result<()> {
        match state.held + state.discarded.len() > self.limit {
            true => self.settle(state),
            false => Ok(()),
        }
    }

    /// Makes the newest version of sectors that are held durable, and nothing else.
    fn settle_own(&self, state: &mut State, from: u64, to: u64) -> io::Result<()> {
        let mut bytes = Vec::with_capacity((to - from) as usize * SECTOR);
        for number in from..to {
            bytes.extend_from_slice(&self.sector(state, number)?);
            let versions = state.pending.remove(&number);
            state.held -= versions.map_or(0, |versions| versions.len());
        }
        state.discarded.remove(from, to);
        self.inner.write_durable(from * SECTOR as u64, &bytes)
    }

    /// Holds back a long discard.
    fn hold_range(&self, state: &mut State, from: u64, to: u64) -> io::Result<()> {
        for (_, versions) in state.pending.range_mut(from..to) {
            versions.push([0; SECTOR]);
            state.held += 1;
        }
        state.discarded.insert(from, to);
        self.bound(state)
    }

    fn sector(&self, state: &State, number: u64) -> io::Result<[u8; SECTOR]> {
        if let Some(newest) = state.pending.get(&number).and_then(|versions| versions.last()) {
            return Ok(*newest);
        }
        let mut bytes = [0; SECTOR];
        if state.discarded.has(number) {
            return Ok(bytes);
        }
        self.inner.read(number * SECTOR as u64, &mut bytes)?;
        Ok(bytes)
    }
}

impl Medium for CutMedium {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        if state.off.is_some() {
            return Err(off());
        }
        self.inner.read(at, out)?;
        let (size, end) = (SECTOR as u64, at + out.len() as u64);
        for (from, to) in state.discarded.within(at / size, end.div_ceil(size)) {
            let (from, to) = ((from * size).max(at), (to * size).min(end));
            out[(from - at) as usize..(to - at) as usize].fill(0);
        }
        for (number, versions) in state.pending.range(at / size..end.div_ceil(size)) {
            let (start, newest) = (number * size, &versions[versions.len() - 1]);
            let (from, to) = (start.max(at), (start + size).min(end));
            out[(from - at) as usize..(to - at) as usize]
                .copy_from_slice(&newest[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, false)?;
        self.hold(&mut state, at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, true)?;
        self.settle(&mut state)?;
        self.inner.sync()
    }

    /// A write, and the moment in which it becomes durable: the power may go with either.
    fn write_durable(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, false)?;
        self.hold(&mut state, at, bytes)?;
        self.step(&mut state, true)?;
        let (size, end) = (SECTOR as u64, at + bytes.len() as u64);
        match bytes.is_empty() {
            true => Ok(()),
            false => self.settle_own(&mut state, at / size, end.div_ceil(size)),
        }
    }

    fn grain(&self) -> u32 {
        self.inner.grain()
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, false)?;
        if bytes <= LONG_DISCARD {
            return self.hold(&mut state, at, &vec![0; bytes as usize]);
        }
        let (size, end) = (SECTOR as u64, at + bytes);
        let (first, last) = (at.next_multiple_of(size), end / size * size);
        self.hold(&mut state, at, &vec![0; (first - at) as usize])?;
        self.hold(&mut state, last, &vec![0; (end - last) as usize])?;
        self.hold_range(&mut state, first / size, last / size)
    }

    /// It happens or does not; what lay there is nobody's.
    fn cut(&self, at: u64) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, false)?;
        let gone = state.pending.split_off(&at.div_ceil(SECTOR as u64));
        state.held -= gone.values().map(Vec::len).sum::<usize>();
        state.discarded.remove(at.div_ceil(SECTOR as u64), u64::MAX);
        self.inner.cut(at)
    }

    fn discard_is_fast(&self) -> bool {
        self.inner.discard_is_fast()
    }

    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let state = self.lock();
        if state.off.is_some() {
            return Err(off());
        }
        let below = self.inner.data_from(at)?;
        let size = SECTOR as u64;
        let held = state.pending.range(at / size..).next().map(|(number, _)| {
            let start = (number * size).max(at);
            start..start.max((number + 1) * size)
        });
        Ok(match (below, held) {
            (Some(below), Some(held)) if held.start < below.start => Some(held),
            (Some(below), _) => Some(below),
            (None, held) => held,
        })
    }
}
