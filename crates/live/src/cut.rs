//! A medium that fails on command: the power of the machine below an image.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Rng;

use crate::layout::SECTOR;
use block::Medium;

/// What one sector held back takes: its bytes, and its place in the table.
const COST: usize = SECTOR + 64;

/// A discard of more bytes is not held back: what is not synced may have reached the medium.
const HELD_DISCARD: u64 = 1 << 20;

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
    /// Sectors written and not synced.
    pub pending: u64,
    /// Those of them that are as they were at the last sync.
    pub lost: u64,
}

/// Keeps what is not synced from the medium below it. When the power goes, each sector written
/// since the last sync is left as it was, or as any of the versions written since; nothing works
/// from then on.
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
        let state = State { pending, held: 0, operations: 0, armed: None, rng, off: None };
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
        let pending = state.pending.len() as u64;
        let mut left = Left { operation: state.operations, pending, lost: 0 };
        state.off = Some(left);
        state.held = 0;
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

    /// Writes the newest version of all that is held back.
    fn settle(&self, state: &mut State) -> io::Result<()> {
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
            state.pending.entry(number).or_default().push(sector);
            state.held += 1;
        }
        match state.held > self.limit {
            true => self.settle(state),
            false => Ok(()),
        }
    }

    fn sector(&self, state: &State, number: u64) -> io::Result<[u8; SECTOR]> {
        if let Some(newest) = state.pending.get(&number).and_then(|versions| versions.last()) {
            return Ok(*newest);
        }
        let mut bytes = [0; SECTOR];
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

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, false)?;
        if bytes <= HELD_DISCARD {
            return self.hold(&mut state, at, &vec![0; bytes as usize]);
        }
        self.settle(&mut state)?;
        self.inner.discard(at, bytes)
    }

    /// It happens or does not; what lay there is nobody's.
    fn cut(&self, at: u64) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state, false)?;
        let gone = state.pending.split_off(&at.div_ceil(SECTOR as u64));
        state.held -= gone.values().map(Vec::len).sum::<usize>();
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
