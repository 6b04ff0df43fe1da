//! Memory as a disk, and as a medium for whatever keeps its bytes on one.
//!
//! The disk is cut into chunks; each belongs to one of a fixed number of locks, held while one
//! chunk is copied and never across two. A chunk takes memory from its first write on, and gives
//! it back when all of it is trimmed: to a spare heap first, which is bounded, because a log above
//! trims and writes chunks in turn, and memory new from the system costs a page fault for each page.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use block::Medium;

use super::{Capabilities, Disk, DiskError, Done, Extent, inside};

/// Bytes of a chunk.
const CHUNK: usize = 64 << 10;
/// Locks; chunks that follow each other have different ones.
const SHARDS: usize = 1024;
/// What a table of chunks is kept for.
const MOST: u64 = 1 << 44;
/// Chunks that are kept without content at most; of a smaller disk an eighth of it.
const SPARE: usize = 4096;

type Chunk = Box<[u8; CHUNK]>;

/// A disk in memory. Nothing is ever lost of it while the process lives.
pub struct RamDisk {
    size: u64,
    /// What it says that a power cut leaves whole.
    atomic: u32,
    /// Chunk `n` is number `n / SHARDS` of shard `n % SHARDS`.
    shards: Box<[Mutex<Vec<Option<Chunk>>>]>,
    /// Chunks nobody has, with old bytes in them. Its lock is taken inside a shard's, never around.
    spare: Mutex<Vec<Chunk>>,
}

impl fmt::Debug for RamDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RamDisk").field("size", &self.size).finish_non_exhaustive()
    }
}

fn blank() -> Chunk {
    match vec![0; CHUNK].into_boxed_slice().try_into() {
        Ok(chunk) => chunk,
        Err(_) => Box::new([0; CHUNK]),
    }
}

impl RamDisk {
    /// A disk of `size` bytes, all zero.
    ///
    /// # Errors
    /// More than 16 TiB.
    pub fn new(size: u64) -> Result<RamDisk, DiskError> {
        if size > MOST {
            return Err(DiskError::NoSpace(format!("{size} bytes; a RAM disk has at most {MOST}")));
        }
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Ok(RamDisk { size, atomic: 4096, shards, spare: Mutex::default() })
    }

    /// It says that a power cut leaves so many bytes of a write whole: a stand-in for a drive of which that is so.
    #[must_use]
    pub fn tearing(self, atomic: u32) -> RamDisk {
        RamDisk { atomic, ..self }
    }

    /// Bytes of memory that content takes.
    pub fn taken(&self) -> u64 {
        let chunks = |shard: &Mutex<Vec<Option<Chunk>>>| {
            lock(shard).iter().filter(|chunk| chunk.is_some()).count() as u64
        };
        self.shards.iter().map(chunks).sum::<u64>() * CHUNK as u64
    }

    fn shard(&self, chunk: u64) -> (MutexGuard<'_, Vec<Option<Chunk>>>, usize) {
        let shards = SHARDS as u64;
        (lock(&self.shards[(chunk % shards) as usize]), (chunk / shards) as usize)
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        for (chunk, inner, outer) in pieces(at, into.len() as u64) {
            let (shard, slot) = self.shard(chunk);
            match shard.get(slot).and_then(Option::as_ref) {
                Some(bytes) => into[outer].copy_from_slice(&bytes[inner]),
                None => into[outer].fill(0),
            }
        }
    }

    fn put(&self, at: u64, from: &[u8]) {
        for (chunk, inner, outer) in pieces(at, from.len() as u64) {
            let (mut shard, slot) = self.shard(chunk);
            if shard.len() <= slot {
                shard.resize_with(slot + 1, || None);
            }
            let bytes = shard[slot].get_or_insert_with(|| self.fresh(&inner));
            bytes[inner].copy_from_slice(&from[outer]);
        }
    }

    /// A chunk that is zero but for what is about to be `written`.
    fn fresh(&self, written: &Range<usize>) -> Chunk {
        let Some(mut chunk) = lock(&self.spare).pop() else { return blank() };
        chunk[..written.start].fill(0);
        chunk[written.end..].fill(0);
        chunk
    }

    fn retire(&self, chunk: Chunk) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE.min(self.size as usize / CHUNK / 8) {
            spare.push(chunk);
        }
    }

    fn forget(&self, at: u64, bytes: u64) {
        // Chunks that were never written cost a look each: a whole disk is trimmed by shard.
        if at == 0 && bytes == self.size {
            self.shards.iter().for_each(|shard| *lock(shard) = Vec::new());
            return *lock(&self.spare) = Vec::new();
        }
        for (chunk, inner, _) in pieces(at, bytes) {
            let (mut shard, slot) = self.shard(chunk);
            match shard.get_mut(slot) {
                Some(place) if inner.len() == CHUNK => {
                    place.take().into_iter().for_each(|chunk| self.retire(chunk));
                }
                Some(Some(bytes)) => bytes[inner].fill(0),
                _ => {}
            }
        }
    }

    fn has(&self, chunk: u64) -> bool {
        let (shard, slot) = self.shard(chunk);
        shard.get(slot).is_some_and(Option::is_some)
    }

    fn admit(&self, at: u64, bytes: u64) -> Result<(), DiskError> {
        inside(at, bytes, self.size)
    }
}

/// Copies do not panic, so that what a lock holds is always whole.
fn lock<T>(chunks: &Mutex<T>) -> MutexGuard<'_, T> {
    chunks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A range by chunk: its number, the bytes inside it, and where they are in the request.
fn pieces(at: u64, bytes: u64) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let (size, end) = (CHUNK as u64, at + bytes);
    let mut next = at;
    std::iter::from_fn(move || {
        let (chunk, start) = (next / size, next);
        next = ((chunk + 1) * size).min(end);
        (start < end).then(|| {
            let inner = (start - chunk * size) as usize..(next - chunk * size) as usize;
            (chunk, inner, (start - at) as usize..(next - at) as usize)
        })
    })
}

impl Disk for RamDisk {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: self.size,
            block: 1,
            atomic: self.atomic,
            volatile: false,
            trim: true,
            read_only: false,
        }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.admit(at, into.len() as u64)?;
        self.get(at, into);
        Ok(Done::NOW)
    }
    fn write(&self, at: u64, from: &[u8], _fua: bool) -> Result<Done, DiskError> {
        self.admit(at, from.len() as u64)?;
        self.put(at, from);
        Ok(Done::NOW)
    }
    fn flush(&self) -> Result<Done, DiskError> {
        Ok(Done::NOW)
    }
    fn trim(&self, at: u64, bytes: u64, _fua: bool) -> Result<Done, DiskError> {
        self.admit(at, bytes)?;
        self.forget(at, bytes);
        Ok(Done::NOW)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, _fua: bool) -> Result<Done, DiskError> {
        self.admit(at, bytes)?;
        match keep {
            false => self.forget(at, bytes),
            true => block::write_zeroes(self, at, bytes)?,
        }
        Ok(Done::NOW)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        !keep && at.is_multiple_of(CHUNK as u64) && bytes.is_multiple_of(CHUNK as u64)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.admit(at, bytes)?;
        let mut found: Vec<Extent> = Vec::new();
        for (chunk, inner, _) in pieces(at, bytes) {
            let (hole, bytes, count) = (!self.has(chunk), inner.len() as u64, found.len());
            match found.last_mut() {
                Some(last) if last.hole == hole => last.bytes += bytes,
                _ if count == most => break,
                _ => found.push(Extent { bytes, hole }),
            }
        }
        Ok(found)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("ram_bytes", self.taken())]
    }
}

impl Medium for RamDisk {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.admit(at, out.len() as u64).map_err(io::Error::other)?;
        self.get(at, out);
        Ok(())
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.admit(at, bytes.len() as u64).map_err(io::Error::other)?;
        self.put(at, bytes);
        Ok(())
    }
    fn write_parts(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.admit(at, bytes).map_err(io::Error::other)?;
        parts.iter().fold(at, |at, part| {
            self.put(at, part);
            at + part.len() as u64
        });
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.admit(at, bytes).map_err(io::Error::other)?;
        self.forget(at, bytes);
        Ok(())
    }
    fn discard_is_fast(&self) -> bool {
        true
    }
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let size = CHUNK as u64;
        let chunks = at / size..self.size.div_ceil(size);
        let Some(first) = chunks.clone().find(|chunk| self.has(*chunk)) else { return Ok(None) };
        let end = (first..chunks.end).find(|chunk| !self.has(*chunk)).unwrap_or(chunks.end);
        Ok(Some(at.max(first * size)..(end * size).min(self.size)))
    }
}
