//! A device that keeps no zeroes: what a file system writes for itself is kept, the zeroes that a
//! load writes as its data are not, so that a large volume needs little memory.
//!
//! Invariants: what is read is what was written last (never written: zeroes); the device below sees
//! every request, without its data, and says how long it takes.

use block::{BlockDevice, Data, DeviceError, Op, Request, Sectors, Time, UNIT_BYTES};

const UNIT: usize = UNIT_BYTES as usize;
const SECTORS: u64 = UNIT_BYTES / block::SECTOR_BYTES;

/// A device above one that keeps no data.
pub struct Sparse<D> {
    below: D,
    capacity: Sectors,
    /// Blocks that are not all zeroes.
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
                    let zeroes = block.iter().all(|byte| *byte == 0);
                    self.kept[first + i] = (!zeroes).then(|| block.into());
                }
            }
            (Op::Read, Data::Read(out)) => {
                for (i, block) in out.chunks_exact_mut(UNIT).enumerate() {
                    match &self.kept[first + i] {
                        Some(bytes) => block.copy_from_slice(bytes),
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
