//! The bytes of a disk without power: blocks shared between copies until one of them writes.
//!
//! Invariant: a copy costs one reference per [`CHUNK`] blocks, never the contents.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{DeviceError, Lba, SECTOR_BYTES, Sectors, UNIT_BYTES};

pub(super) const BLOCK: usize = UNIT_BYTES as usize;
pub(super) const SECTOR: usize = SECTOR_BYTES as usize;
/// Sectors of a block.
pub(super) const PER_BLOCK: u64 = UNIT_BYTES / SECTOR_BYTES;
/// Blocks that are shared together.
const CHUNK: usize = 32;

/// The contents of one 4 KiB block.
pub(super) type Block = [u8; BLOCK];
type Chunk = [Option<Arc<Block>>; CHUNK];

/// One block's share of a write or discard.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) block: u64,
    /// Bit i: sector i of the block.
    pub(super) mask: u8,
    /// None: zeroes.
    pub(super) data: Option<Arc<Block>>,
}

/// What a disk holds while it has no power. Cheap to copy.
#[derive(Clone, Debug)]
pub struct DiskImage {
    sectors: Sectors,
    chunks: Vec<Arc<Chunk>>,
    /// Sectors that answer with an error until they are written again.
    bad: BTreeSet<u64>,
}

impl DiskImage {
    pub(super) fn new(sectors: Sectors) -> DiskImage {
        let blocks = sectors.0.div_ceil(PER_BLOCK) as usize;
        let blank: Arc<Chunk> = Arc::new([const { None }; CHUNK]);
        DiskImage { sectors, chunks: vec![blank; blocks.div_ceil(CHUNK)], bad: BTreeSet::new() }
    }

    /// Size of the disk.
    pub fn sectors(&self) -> Sectors {
        self.sectors
    }

    pub(super) fn block(&self, block: u64) -> Option<&Arc<Block>> {
        self.chunks[block as usize / CHUNK][block as usize % CHUNK].as_ref()
    }

    fn set(&mut self, block: u64, data: Option<Arc<Block>>) {
        Arc::make_mut(&mut self.chunks[block as usize / CHUNK])[block as usize % CHUNK] = data;
    }

    pub(super) fn apply(&mut self, piece: &Piece) {
        if piece.mask == u8::MAX {
            self.set(piece.block, piece.data.clone());
        } else {
            let mut bytes = self.block(piece.block).map_or([0; BLOCK], |old| **old);
            for i in (0..PER_BLOCK as usize).filter(|i| piece.mask >> i & 1 == 1) {
                let at = i * SECTOR..(i + 1) * SECTOR;
                match &piece.data {
                    Some(data) => bytes[at.clone()].copy_from_slice(&data[at]),
                    None => bytes[at].fill(0),
                }
            }
            self.set(piece.block, Some(Arc::new(bytes)));
        }
        if !self.bad.is_empty() {
            for i in (0..PER_BLOCK).filter(|i| piece.mask >> i & 1 == 1) {
                self.bad.remove(&(piece.block * PER_BLOCK + i));
            }
        }
    }

    /// Makes a sector unreadable.
    pub(super) fn spoil(&mut self, sector: u64) {
        self.bad.insert(sector);
    }

    /// Reads whole sectors.
    ///
    /// # Errors
    /// The first sector that cannot be read.
    pub fn read_at(&self, lba: Lba, out: &mut [u8]) -> Result<(), DeviceError> {
        let sectors = Sectors((out.len() / SECTOR) as u64);
        let capacity = self.sectors;
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        self.read(lba.0, out).map_err(DeviceError::Unreadable)
    }

    /// Fills `out` from a sector on, or names the first sector that cannot be read.
    pub(super) fn read(&self, first: u64, out: &mut [u8]) -> Result<(), Lba> {
        let end = first + (out.len() / SECTOR) as u64;
        if let Some(bad) = self.bad.range(first..end).next() {
            return Err(Lba(*bad));
        }
        let (mut sector, mut out) = (first, out);
        while !out.is_empty() {
            let skip = (sector % PER_BLOCK) as usize * SECTOR;
            let (part, rest) = out.split_at_mut((BLOCK - skip).min(out.len()));
            match self.block(sector / PER_BLOCK) {
                Some(data) => part.copy_from_slice(&data[skip..skip + part.len()]),
                None => part.fill(0),
            }
            sector += (part.len() / SECTOR) as u64;
            out = rest;
        }
        Ok(())
    }
}

/// A range of sectors as shares of blocks; `data` is their bytes, or none for zeroes.
pub(super) fn pieces(first: u64, count: u64, data: Option<&[u8]>) -> Vec<Piece> {
    let end = first + count;
    let (from, to) = (first / PER_BLOCK, end.div_ceil(PER_BLOCK));
    let mut pieces = Vec::with_capacity((to - from) as usize);
    for block in from..to {
        let low = first.max(block * PER_BLOCK);
        let high = end.min((block + 1) * PER_BLOCK);
        let mask = (low..high).fold(0, |mask, sector| mask | 1 << (sector % PER_BLOCK));
        let data = data.map(|data| {
            let bytes = &data[(low - first) as usize * SECTOR..(high - first) as usize * SECTOR];
            let mut whole = [0; BLOCK];
            let skip = (low % PER_BLOCK) as usize * SECTOR;
            whole[skip..skip + bytes.len()].copy_from_slice(bytes);
            Arc::new(whole)
        });
        pieces.push(Piece { block, mask, data });
    }
    pieces
}
