//! A device of plain memory: the baseline of every comparison and the simplest reference.

use crate::{BlockDevice, Data, DeviceError, Op, Request, SECTOR_BYTES, Sectors, Time};

/// A RAM disk: every request is done at once, everything is durable, discards zero.
pub struct RamDevice {
    bytes: Vec<u8>,
}

impl RamDevice {
    /// A device of `sectors` zeroed sectors.
    pub fn new(sectors: Sectors) -> RamDevice {
        RamDevice { bytes: vec![0; sectors.bytes().index()] }
    }
}

impl BlockDevice for RamDevice {
    fn capacity(&self) -> Sectors {
        Sectors(self.bytes.len() as u64 / SECTOR_BYTES)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        let start = lba.bytes().index();
        let place = &mut self.bytes[start..start + sectors.bytes().index()];
        match (request.op, request.data) {
            (Op::Flush, _) | (Op::Read | Op::Write, Data::None) => {}
            (Op::Discard, _) => place.fill(0),
            (Op::Read, Data::Read(out)) if out.len() == place.len() => out.copy_from_slice(place),
            (Op::Write, Data::Write(data)) if data.len() == place.len() => {
                place.copy_from_slice(data);
            }
            _ => return Err(DeviceError::Unsupported("payload does not fit the request")),
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lba;

    #[test]
    fn keeps_what_is_written_and_refuses_what_lies_outside() {
        let mut ram = RamDevice::new(Sectors(16));
        let data = [7u8; 1024];
        ram.submit(Time::ZERO, Request::write(Lba(3), Sectors(2)).with(Data::Write(&data)))
            .unwrap();
        let mut back = [0u8; 1024];
        ram.submit(Time::ZERO, Request::read(Lba(3), Sectors(2)).with(Data::Read(&mut back)))
            .unwrap();
        assert_eq!(back, data);
        let beyond = ram.submit(Time::ZERO, Request::read(Lba(15), Sectors(2)));
        assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })));
        let wraps = ram.submit(Time::ZERO, Request::read(Lba(u64::MAX), Sectors(2)));
        assert!(matches!(wraps, Err(DeviceError::OutOfRange { .. })));
    }
}
