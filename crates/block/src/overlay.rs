//! A device over one that is only read: what is written stays in memory, and goes with it.

use std::collections::BTreeMap;

use crate::{BlockDevice, Bytes, Data, DeviceError, Op, Request, SECTOR_BYTES, Sectors, Time};

const SECTOR: usize = SECTOR_BYTES as usize;

/// What a device would be after writes that it never gets.
#[derive(Debug)]
pub struct Overlay<D> {
    below: D,
    /// Sectors that were written, or discarded.
    written: BTreeMap<u64, Box<[u8; SECTOR]>>,
}

impl<D: BlockDevice> Overlay<D> {
    /// Over `below`, which nothing is written to.
    pub fn new(below: D) -> Overlay<D> {
        Overlay { below, written: BTreeMap::new() }
    }
}

impl<D: BlockDevice> BlockDevice for Overlay<D> {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }

    fn atomic_unit(&self) -> Bytes {
        self.below.atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.below.flush_covers_submitted()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        let end = lba.0.checked_add(sectors.0).filter(|end| *end <= capacity.0);
        let range = lba.0..end.ok_or(DeviceError::OutOfRange { lba, sectors, capacity })?;
        match (request.op, request.data) {
            (Op::Read, Data::Read(out)) if out.len() as u64 == sectors.bytes().0 => {
                let below = Request::read(lba, sectors).with(Data::Read(&mut *out));
                let done = self.below.submit(at, below)?;
                for (number, sector) in self.written.range(range) {
                    let from = (number - lba.0) as usize * SECTOR;
                    out[from..from + SECTOR].copy_from_slice(&sector[..]);
                }
                Ok(done)
            }
            (Op::Write, Data::Write(data)) if data.len() as u64 == sectors.bytes().0 => {
                let (all, _) = data.as_chunks::<SECTOR>();
                self.written.extend(range.zip(all).map(|(n, bytes)| (n, Box::new(*bytes))));
                Ok(at)
            }
            (Op::Discard, _) => {
                self.written.extend(range.map(|number| (number, Box::new([0; SECTOR]))));
                Ok(at)
            }
            (Op::Flush, _) => Ok(at),
            _ => Err(DeviceError::Unsupported("payload does not fit the request")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lba, RamDevice};

    #[test]
    fn what_is_written_is_read_and_goes_no_further() {
        let mut ram = RamDevice::new(Sectors(16));
        let put = |device: &mut dyn BlockDevice, at: u64, value: u8| {
            let data = [value; 2 * SECTOR];
            let request = Request::write(Lba(at), Sectors(2)).with(Data::Write(&data));
            device.submit(Time::ZERO, request)
        };
        put(&mut ram, 3, 1).unwrap();
        let mut over = Overlay::new(ram);
        put(&mut over, 4, 2).unwrap();
        over.submit(Time::ZERO, Request::flush()).unwrap();
        over.submit(Time::ZERO, Request::discard(Lba(5), Sectors(1))).unwrap();
        assert!(put(&mut over, 15, 2).is_err(), "beyond the end");
        let read = |device: &mut dyn BlockDevice| {
            let mut out = [9; 16 * SECTOR];
            let request = Request::read(Lba(0), Sectors(16)).with(Data::Read(&mut out));
            device.submit(Time::ZERO, request).unwrap();
            let (sectors, _) = out.as_chunks::<SECTOR>();
            sectors.iter().map(|sector| sector[7]).collect::<Vec<u8>>()
        };
        assert_eq!(read(&mut over)[2..7], [0, 1, 2, 0, 0]);
        assert_eq!(read(&mut over.below)[2..7], [0, 1, 1, 0, 0]);
    }
}
