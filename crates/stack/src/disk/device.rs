//! A stack's disk as the block device below a file system, in real time: what is answered is done.

use std::sync::Arc;

use block::{BlockDevice, Data, DeviceError, Lba, Op, Request, SECTOR_BYTES, Sectors, Time};

use super::{Disk, DiskError, Done};

/// A disk as a block device. Time does not pass in it: a request is done when it returns.
#[derive(Clone, Debug)]
pub struct DiskDevice(pub Arc<dyn Disk>);

fn refused(error: DiskError, lba: Lba, sectors: Sectors) -> DeviceError {
    match error {
        DiskError::Range { size, .. } => {
            DeviceError::OutOfRange { lba, sectors, capacity: Sectors(size / SECTOR_BYTES) }
        }
        DiskError::ReadOnly => DeviceError::ReadOnly("the disk may only be read"),
        DiskError::PowerOff => DeviceError::PowerOff,
        full if full.is_full() => DeviceError::NoSpace("the disk below has none left"),
        other => DeviceError::Io(other.to_string()),
    }
}

impl BlockDevice for DiskDevice {
    fn capacity(&self) -> Sectors {
        Sectors(self.0.capabilities().size / SECTOR_BYTES)
    }
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(u64::from(self.0.capabilities().atomic))
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors) = (request.lba, request.sectors);
        let byte = lba.0.checked_mul(SECTOR_BYTES);
        let bytes = sectors.0.checked_mul(SECTOR_BYTES);
        let (Some(byte), Some(bytes)) = (byte, bytes) else {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity: self.capacity() });
        };
        let done = match (request.op, request.data) {
            (Op::Read, Data::Read(out)) => self.0.read(byte, out),
            (Op::Write, Data::Write(from)) => self.0.write(byte, from, request.fua),
            (Op::Flush, _) => self.0.flush(),
            (Op::Discard, _) => self.0.trim(byte, bytes, request.fua),
            _ => return Err(DeviceError::Unsupported("a request without its data")),
        };
        done.and_then(Done::wait).map_err(|error| refused(error, lba, sectors))?;
        Ok(at)
    }
}
