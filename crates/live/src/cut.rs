//! A medium that fails on command: the power of the machine below an image.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Rng;

use crate::layout::SECTOR;
use crate::medium::Medium;

/// Keeps what is not synced from the medium below it. When the power goes, each sector written
/// since the last sync is left as it was, or as any of the versions written since; nothing works
/// from then on.
#[derive(Debug)]
pub struct CutMedium {
    inner: Arc<dyn Medium>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Versions of each sector since the last sync, oldest first.
    pending: BTreeMap<u64, Vec<[u8; SECTOR]>>,
    /// Writes and syncs left before the power goes.
    left: Option<u64>,
    rng: Rng,
    off: bool,
}

fn off() -> io::Error {
    io::Error::other("power cut")
}

impl CutMedium {
    /// Over `inner`; what survives is drawn from `seed`.
    pub fn new(inner: Arc<dyn Medium>, seed: u64) -> CutMedium {
        let rng = Rng::stream(seed, "live/cut");
        let state = State { pending: BTreeMap::new(), left: None, rng, off: false };
        CutMedium { inner, state: Mutex::new(state) }
    }

    /// Lets the power go at the `calls`-th write or sync from here.
    pub fn cut_after(&self, calls: u64) {
        self.lock().left = Some(calls);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; the power may go with it.
    fn step(&self, state: &mut State) -> io::Result<()> {
        if state.off {
            return Err(off());
        }
        if let Some(left) = &mut state.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                state.off = true;
                self.leave(state)?;
                return Err(off());
            }
        }
        Ok(())
    }

    /// Writes what the power cut leaves. Nothing and everything are drawn as well: the usual cuts.
    fn leave(&self, state: &mut State) -> io::Result<()> {
        let kind = state.rng.below(4);
        for (sector, versions) in std::mem::take(&mut state.pending) {
            let pick = match kind {
                0 => 0,
                1 => versions.len() as u64,
                _ => state.rng.below(versions.len() as u64 + 1),
            };
            if pick > 0 {
                self.inner.write(sector * SECTOR as u64, &versions[pick as usize - 1])?;
            }
        }
        self.inner.sync()
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
        if state.off {
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
        self.step(&mut state)?;
        let (size, end) = (SECTOR as u64, at + bytes.len() as u64);
        for number in at / size..end.div_ceil(size) {
            let start = number * size;
            let (from, to) = (start.max(at), (start + size).min(end));
            let mut sector = match to - from == size {
                true => [0; SECTOR],
                false => self.sector(&state, number)?,
            };
            sector[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            state.pending.entry(number).or_default().push(sector);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        self.step(&mut state)?;
        for (number, versions) in std::mem::take(&mut state.pending) {
            self.inner.write(number * SECTOR as u64, &versions[versions.len() - 1])?;
        }
        self.inner.sync()
    }
}
