//! A device that keeps no zeroes: what a file system writes for itself is kept, the zeroes that a
//! load writes as its data are not, and of an inode of a small file its few hundred bytes, so that a
//! large volume needs little memory. (A log writes a node somewhere else each time: most of what is kept is
//! of no use any more, and only being written over frees it.)
//!
//! Invariants: what is read is what was written last (never written: zeroes); the device below sees
//! every request, without its data, and says how long it takes.

use block::{BlockDevice, Data, DeviceError, Op, Request, Sectors, Time, UNIT_BYTES};

const UNIT: usize = UNIT_BYTES as usize;
const SECTORS: u64 = UNIT_BYTES / block::SECTOR_BYTES;

/// Bytes that are kept, or not, together: a bit each in a word.
const PIECE: usize = UNIT / u64::BITS as usize;
/// Bytes of that word.
const WORD: usize = 8;

/// A block without its pieces of zeroes: which it has, then they; none of a block of zeroes.
fn pack(block: &[u8]) -> Option<Box<[u8]>> {
    let (mut has, mut count) = (0_u64, 0);
    for (i, piece) in block.chunks_exact(PIECE).enumerate() {
        if piece != [0; PIECE] {
            has |= 1 << i;
            count += 1;
        }
    }
    if has == 0 {
        return None;
    }
    let mut kept = Vec::with_capacity(WORD + count * PIECE);
    kept.extend_from_slice(&has.to_le_bytes());
    for (i, piece) in block.chunks_exact(PIECE).enumerate() {
        if has >> i & 1 == 1 {
            kept.extend_from_slice(piece);
        }
    }
    Some(kept.into())
}

/// The block again.
fn unpack(kept: &[u8], block: &mut [u8]) {
    let (word, pieces) = kept.split_at(WORD);
    let has = word.iter().rev().fold(0_u64, |has, byte| has << 8 | u64::from(*byte));
    let mut pieces = pieces.chunks_exact(PIECE);
    for (i, piece) in block.chunks_exact_mut(PIECE).enumerate() {
        match (has >> i & 1 == 1).then(|| pieces.next()).flatten() {
            Some(bytes) => piece.copy_from_slice(bytes),
            None => piece.fill(0),
        }
    }
}

/// A device above one that keeps no data.
pub struct Sparse<D> {
    below: D,
    capacity: Sectors,
    /// Blocks that are not all zeroes, packed.
    kept: Vec<Option<Box<[u8]>>>,
}

impl<D: BlockDevice> Sparse<D> {
    /// The first `capacity` of `below`, in whole 4 KiB blocks; all zeroes.
    pub fn new(below: D, capacity: Sectors) -> Sparse<D> {
        let capacity = Sectors(capacity.0.min(below.capacity().0) / SECTORS * SECTORS);
        let kept = (0..capacity.0 / SECTORS).map(|_| None).collect();
        Sparse { below, capacity, kept }
    }

    /// The device below.
    pub fn below(&self) -> &D {
        &self.below
    }
    /// The device below, to be told something.
    pub fn below_mut(&mut self) -> &mut D {
        &mut self.below
    }
}

impl<D: BlockDevice> BlockDevice for Sparse<D> {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.below.atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.below.flush_covers_submitted()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let Request { op, lba, sectors, fua, hint, data } = request;
        let (lba_in, capacity) = (lba, self.capacity);
        if lba.0 + sectors.0 > capacity.0 {
            return Err(DeviceError::OutOfRange { lba: lba_in, sectors, capacity });
        }
        if !lba.0.is_multiple_of(SECTORS) || !sectors.0.is_multiple_of(SECTORS) {
            return Err(DeviceError::Unsupported("requests of parts of 4 KiB blocks"));
        }
        let below = Request { op, lba, sectors, fua, hint, data: Data::None };
        let done = self.below.submit(at, below)?;
        let first = (lba.0 / SECTORS) as usize;
        match (op, data) {
            (Op::Write, Data::Write(bytes)) => {
                for (i, block) in bytes.chunks_exact(UNIT).enumerate() {
                    self.kept[first + i] = pack(block);
                }
            }
            (Op::Read, Data::Read(out)) => {
                for (i, block) in out.chunks_exact_mut(UNIT).enumerate() {
                    match &self.kept[first + i] {
                        Some(kept) => unpack(kept, block),
                        None => block.fill(0),
                    }
                }
            }
            (Op::Discard, _) => {
                let end = first + (sectors.0 / SECTORS) as usize;
                self.kept[first..end].fill(None);
            }
            (Op::Flush, _) | (Op::Read, Data::None) => {}
            _ => return Err(DeviceError::Unsupported("data of another kind than bytes")),
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_read_and_zeroes_take_nothing() {
        assert_eq!(pack(&[0; UNIT]), None);
        let mut rng = block::Rng::new(1);
        for pieces in [1, 2, 9, 63, 64] {
            let mut block = [0; UNIT];
            for _ in 0..pieces {
                let at = rng.below(UNIT as u64) as usize;
                block[at] = rng.between(1, 255) as u8;
            }
            // The first and the last byte of a block count, too.
            (block[0], block[UNIT - 1]) = (1, (pieces % 2) as u8);
            let kept = pack(&block).unwrap();
            assert!(kept.len() <= WORD + (pieces + 2) * PIECE, "{} bytes", kept.len());
            let mut again = [0xFF; UNIT];
            unpack(&kept, &mut again);
            assert_eq!(block, again);
        }
    }
}
