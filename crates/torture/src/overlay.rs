//! The drive of one state: read from the log, what is written is kept apart and thrown away. No image is
//! copied. Another state is put in when nobody uses the drive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use stack::datalog::SECTOR;
use stack::disk::{Capabilities, Disk, DiskError, Done, Extent, inside};

use crate::history::History;

/// Bytes of what is kept of a write.
const CHUNK: u64 = 4096;
/// Where every file system has its superblock: nobody mounts one without reading there.
const HEAD: u64 = 128 << 10;

/// The drive of a state.
#[derive(Debug)]
pub struct StateDisk {
    history: Arc<History>,
    atomic: u64,
    now: RwLock<Now>,
    /// The head of this state was read.
    read: AtomicBool,
}

#[derive(Debug, Default)]
struct Now {
    sectors: Vec<u32>,
    written: BTreeMap<u64, Box<[u8; CHUNK as usize]>>,
    /// Flushes do nothing that could be seen; they are counted.
    flushes: u64,
}

impl StateDisk {
    /// A blank drive that keeps so many bytes whole.
    pub fn new(history: Arc<History>, atomic: u64) -> StateDisk {
        let sectors = vec![0; (history.size() / SECTOR) as usize];
        let now = RwLock::new(Now { sectors, ..Now::default() });
        StateDisk { history, atomic, now, read: AtomicBool::new(false) }
    }

    /// Puts another state in; what was written to the last is gone.
    pub fn put(&self, sectors: Vec<u32>) {
        assert_eq!(sectors.len() as u64, self.history.size() / SECTOR, "a state of this drive");
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        *now = Now { sectors, ..Now::default() };
        self.read.store(false, Ordering::SeqCst);
    }

    /// Whether anybody read the head of the state that is in. Whoever mounted it and did not knew another.
    pub fn was_read(&self) -> bool {
        self.read.load(Ordering::SeqCst)
    }

    fn look<R>(&self, look: impl FnOnce(&Now) -> R) -> R {
        look(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(&self, now: &Now, at: u64, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let place = at + done as u64;
            let (chunk, in_chunk) = (place / CHUNK, (place % CHUNK) as usize);
            if let Some(bytes) = now.written.get(&chunk) {
                let count = (CHUNK as usize - in_chunk).min(into.len() - done);
                into[done..done + count].copy_from_slice(&bytes[in_chunk..in_chunk + count]);
                done += count;
                continue;
            }
            let (sector, inner) = (place / SECTOR, (place % SECTOR) as usize);
            let count = (SECTOR as usize - inner).min(into.len() - done);
            let out = &mut into[done..done + count];
            match self.history.sector(now.sectors[sector as usize]) {
                Some(bytes) => out.copy_from_slice(&bytes[inner..inner + count]),
                None => out.fill(0),
            }
            done += count;
        }
    }

    fn set(&self, at: u64, bytes: u64, from: Option<&[u8]>) -> Result<Done, DiskError> {
        inside(at, bytes, self.history.size())?;
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let end = at + bytes;
        let mut place = at;
        while place < end {
            let chunk = place / CHUNK;
            let next = ((chunk + 1) * CHUNK).min(end);
            let mut kept = match now.written.remove(&chunk) {
                Some(kept) => kept,
                None => {
                    let mut kept = Box::new([0; CHUNK as usize]);
                    let size = (self.history.size() - chunk * CHUNK).min(CHUNK) as usize;
                    self.get(&now, chunk * CHUNK, &mut kept[..size]);
                    kept
                }
            };
            let inner = (place % CHUNK) as usize..(place % CHUNK + next - place) as usize;
            match from {
                Some(from) => {
                    kept[inner].copy_from_slice(&from[(place - at) as usize..(next - at) as usize])
                }
                None => kept[inner].fill(0),
            }
            now.written.insert(chunk, kept);
            place = next;
        }
        Ok(Done::NOW)
    }
}

impl Disk for StateDisk {
    /// Those of the drive that was recorded: a file system that was made on that one is mounted on this one.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: self.history.size(),
            block: 1,
            atomic: self.atomic as u32,
            volatile: true,
            trim: true,
            read_only: false,
        }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        inside(at, into.len() as u64, self.history.size())?;
        self.look(|now| {
            self.get(now, at, into);
            self.read.fetch_or(at < HEAD, Ordering::SeqCst);
        });
        Ok(Done::NOW)
    }
    fn write(&self, at: u64, from: &[u8], _fua: bool) -> Result<Done, DiskError> {
        self.set(at, from.len() as u64, Some(from))
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.now.write().unwrap_or_else(PoisonError::into_inner).flushes += 1;
        Ok(Done::NOW)
    }
    fn trim(&self, at: u64, bytes: u64, _fua: bool) -> Result<Done, DiskError> {
        inside(at, bytes, self.history.size())?;
        let (start, end) = (at.next_multiple_of(CHUNK), (at + bytes) / CHUNK * CHUNK);
        self.set(start.min(end), end.saturating_sub(start), None)
    }
    fn zero(&self, at: u64, bytes: u64, _keep: bool, _fua: bool) -> Result<Done, DiskError> {
        self.set(at, bytes, None)
    }
    fn zero_is_fast(&self, _at: u64, _bytes: u64, keep: bool) -> bool {
        !keep
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        inside(at, bytes, self.history.size())?;
        let mut found: Vec<Extent> = Vec::new();
        self.look(|now| {
            let mut place = at;
            while place < at + bytes {
                let chunk = place / CHUNK;
                let next = ((chunk + 1) * CHUNK).min(at + bytes);
                let sectors = place / SECTOR..next.div_ceil(SECTOR);
                let blank = |sector: u64| now.sectors[sector as usize] == 0;
                let hole = !now.written.contains_key(&chunk) && sectors.clone().all(blank);
                let full = found.len() == most;
                match found.last_mut() {
                    Some(last) if last.hole == hole => last.bytes += next - place,
                    _ if full => break,
                    _ => found.push(Extent { bytes: next - place, hole }),
                }
                place = next;
            }
        });
        Ok(found)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.look(|now| vec![("written", now.written.len() as u64), ("flushes", now.flushes)])
    }
}
