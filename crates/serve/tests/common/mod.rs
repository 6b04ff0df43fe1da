//! A disk that forgets what was not flushed, on command, and counts what arrives.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use stack::disk::{Capabilities, Disk, DiskError, Done, Extent};

const BLOCK: usize = 4096;

/// What arrived, for tests that want to see it arrive.
#[derive(Debug, Default)]
pub struct Seen {
    pub flushes: AtomicU64,
    pub forced: AtomicU64,
    pub zeroed: AtomicU64,
    pub kept: AtomicU64,
}

#[derive(Debug)]
struct Blocks {
    bytes: Vec<u8>,
    /// Blocks that hold something.
    there: Vec<bool>,
}

/// A disk of memory: `now` is what reads see, `safe` what a power cut leaves.
#[derive(Debug)]
pub struct Forgetful {
    now: Mutex<Blocks>,
    safe: Mutex<Blocks>,
    size: u64,
    off: AtomicBool,
    pub fails: AtomicBool,
    pub seen: Seen,
}

impl Forgetful {
    pub fn new(blocks: usize) -> Forgetful {
        let empty =
            || Mutex::new(Blocks { bytes: vec![0; blocks * BLOCK], there: vec![false; blocks] });
        Forgetful {
            now: empty(),
            safe: empty(),
            size: (blocks * BLOCK) as u64,
            off: AtomicBool::new(false),
            fails: AtomicBool::new(false),
            seen: Seen::default(),
        }
    }

    pub fn command(&self, line: &str) -> Result<String, String> {
        match line {
            "power-cut" => {
                self.off.store(true, Ordering::SeqCst);
                copy(&self.safe, &self.now);
                Ok("the power is off".to_string())
            }
            "power-on" => {
                self.off.store(false, Ordering::SeqCst);
                Ok("the power is on".to_string())
            }
            _ => Err(format!("{line}: expected power-cut or power-on")),
        }
    }

    fn admit(&self, at: u64, bytes: u64) -> Result<(), DiskError> {
        if self.off.load(Ordering::SeqCst) {
            return Err(DiskError::PowerOff);
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err(DiskError::Stopped("asked to fail".to_string().into()));
        }
        let end = at.checked_add(bytes);
        if end.is_none_or(|end| end > self.size) {
            return Err(DiskError::Range { at, bytes, size: self.size });
        }
        Ok(())
    }
}

fn copy(from: &Mutex<Blocks>, to: &Mutex<Blocks>) {
    let from = from.lock().unwrap_or_else(PoisonError::into_inner);
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    to.bytes.copy_from_slice(&from.bytes);
    to.there.copy_from_slice(&from.there);
}

impl Disk for Forgetful {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: self.size,
            block: BLOCK as u32,
            atomic: BLOCK as u32,
            volatile: true,
            trim: true,
            read_only: false,
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.admit(at, into.len() as u64)?;
        let now = self.now.lock().unwrap();
        into.copy_from_slice(&now.bytes[at as usize..][..into.len()]);
        Ok(Done::NOW)
    }

    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.admit(at, from.len() as u64)?;
        let at = at as usize;
        let mut now = self.now.lock().unwrap();
        now.bytes[at..at + from.len()].copy_from_slice(from);
        now.there[at / BLOCK..(at + from.len()).div_ceil(BLOCK)].fill(true);
        drop(now);
        if fua {
            self.seen.forced.fetch_add(1, Ordering::SeqCst);
            copy(&self.now, &self.safe);
        }
        Ok(Done::NOW)
    }

    fn flush(&self) -> Result<Done, DiskError> {
        self.seen.flushes.fetch_add(1, Ordering::SeqCst);
        self.admit(0, 0)?;
        copy(&self.now, &self.safe);
        Ok(Done::NOW)
    }

    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.zero(at, bytes, false, fua)
    }

    fn zero(&self, at: u64, bytes: u64, keep: bool, _: bool) -> Result<Done, DiskError> {
        self.admit(at, bytes)?;
        let seen = if keep { &self.seen.kept } else { &self.seen.zeroed };
        seen.fetch_add(bytes, Ordering::SeqCst);
        let (from, to) = (at as usize, (at + bytes) as usize);
        let mut now = self.now.lock().unwrap();
        now.bytes[from..to].fill(0);
        for block in from.div_ceil(BLOCK)..to / BLOCK {
            now.there[block] = keep;
        }
        Ok(Done::NOW)
    }

    fn zero_is_fast(&self, _: u64, _: u64, keep: bool) -> bool {
        !keep
    }

    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.admit(at, bytes)?;
        let now = self.now.lock().unwrap();
        let mut found: Vec<Extent> = Vec::new();
        let mut from = at;
        while from < at + bytes {
            let block = from as usize / BLOCK;
            let to = ((block + 1) * BLOCK) as u64;
            let bytes = to.min(at + bytes) - from;
            let hole = !now.there[block];
            let full = found.len() == most;
            match found.last_mut() {
                Some(last) if last.hole == hole => last.bytes += bytes,
                _ if full => break,
                _ => found.push(Extent { bytes, hole }),
            }
            from += bytes;
        }
        Ok(found)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("flushes", self.seen.flushes.load(Ordering::SeqCst))]
    }
}
