//! A host log without data: its device keeps blocks of metadata only, so that one of hundreds of
//! gigabytes fits in memory. What planning and opening cost is measured on it.

use std::collections::BTreeMap;

use block::{Bytes, DeviceError, Lpn, Plant, Rng};
use remap::{
    BLOCK, Engine, Form, HeadKind, LogError, LogOptions, Occasion, Pba, Seg, Sink, Store, Work,
    checkpoint_store, format_store,
};

/// Share of the device that the client may use, in per cent.
const FILL: u64 = 85;
/// Blocks of one write while it is filled.
const PIECE: u32 = 256;

/// The device: blocks that were kept; all others read as zeroes.
#[derive(Debug)]
pub struct BareStore {
    blocks: u64,
    kept: BTreeMap<u32, Box<[u8]>>,
    /// What is written is kept.
    pub keep: bool,
    /// Requests to read so far.
    pub requests: u64,
    /// Bytes read so far.
    pub read: u64,
}

impl Store for BareStore {
    fn blocks(&self) -> u64 {
        self.blocks
    }
    fn read(&mut self, at: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        self.requests += 1;
        self.read += out.len() as u64;
        for (i, block) in (0..).zip(out.chunks_exact_mut(BLOCK)) {
            match self.kept.get(&(at.0 + i)) {
                Some(kept) => block.copy_from_slice(kept),
                None => block.fill(0),
            }
        }
        Ok(())
    }
    fn read_stamps(&mut self, _: Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("blocks carry no stamps here"))
    }
    fn write(&mut self, at: Pba, bytes: &[u8]) -> Result<(), DeviceError> {
        for (i, block) in (0..).zip(bytes.chunks_exact(BLOCK)).filter(|_| self.keep) {
            self.kept.insert(at.0 + i, block.into());
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Keeps headers, drops data.
struct Headers<'a>(&'a mut BareStore);

impl Sink for Headers<'_> {
    fn data(&mut self, _: HeadKind, _: Pba, _: u32, _: u32) {}
    fn header(&mut self, _: HeadKind, pba: Pba, block: &[u8; BLOCK]) {
        if self.0.keep {
            self.0.kept.insert(pba.0, block[..].into());
        }
    }
}

/// A log on such a device.
#[derive(Debug)]
pub struct BareLog {
    /// What decides and books.
    pub engine: Engine,
    /// What it was made with.
    pub options: LogOptions,
    store: BareStore,
    freed: Vec<Seg>,
}

impl BareLog {
    /// A log that offers `mapped` bytes, written once in order, with a checkpoint after them.
    ///
    /// # Errors
    /// No log can be that large.
    pub fn filled(mapped: Bytes) -> Result<BareLog, LogError> {
        let options = LogOptions { capacity: mapped, ..LogOptions::default() };
        let blocks = mapped.0 / BLOCK as u64 * 100 / FILL;
        let kept = BTreeMap::new();
        let mut store = BareStore { blocks, kept, keep: true, requests: 0, read: 0 };
        let engine = format_store(&mut store, &options, Plant::default())?;
        let logical = engine.geometry().logical;
        // Headers before the checkpoint are read by nobody.
        store.keep = false;
        let mut log = BareLog { engine, options, store, freed: Vec::new() };
        for lpn in (0..logical).step_by(PIECE as usize) {
            log.write(Lpn(lpn), (logical - lpn).min(PIECE));
        }
        log.store.keep = true;
        log.engine.seal_all(&mut Headers(&mut log.store));
        checkpoint_store(&mut log.engine, &mut log.store)?;
        Ok(log)
    }

    /// Writes blocks and does what is due then, but for checkpoints and copies; flushes take no time.
    /// Returns what is left to do.
    fn write(&mut self, lpn: Lpn, count: u32) -> Work {
        let mut sink = Headers(&mut self.store);
        self.engine.write(lpn, count, Form::Nothing, |_| 0, &mut sink);
        loop {
            match self.engine.next(Occasion::Request) {
                Work::Seal => self.engine.seal_old(&mut sink),
                Work::Flush => {
                    let seq = self.engine.flush_begin(&mut sink);
                    self.engine.flush_end(seq, &mut self.freed);
                }
                rest => return rest,
            }
        }
    }

    /// Writes one block at random; returns what is left to do, [`Work::Full`] if there is no room for
    /// another.
    pub fn overwrite(&mut self, rng: &mut Rng) -> Work {
        let rest = self.write(Lpn(rng.below(u64::from(self.engine.geometry().logical)) as u32), 1);
        if self.engine.room(1) { rest } else { Work::Full }
    }

    /// Nothing of what is written from now on is kept.
    pub fn forget(&mut self) {
        self.store.keep = false;
    }

    /// Overwrites blocks at random until the next checkpoint is due, and stops without closing.
    /// Returns what was left on the device, its counters at 0, and the blocks written since the
    /// checkpoint.
    pub fn left_behind(mut self, rng: &mut Rng) -> (BareStore, u64) {
        let mut since = 0;
        loop {
            match self.overwrite(rng) {
                Work::Full => break,
                rest => {
                    since += 1;
                    if rest == Work::Checkpoint {
                        break;
                    }
                }
            }
        }
        self.engine.seal_all(&mut Headers(&mut self.store));
        (BareStore { requests: 0, read: 0, ..self.store }, since)
    }
}
