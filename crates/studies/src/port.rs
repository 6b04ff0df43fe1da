//! A client's part of a shared drive: addresses from 0, requests in virtual time.

use std::sync::Arc;

use block::{
    AppId, BlockDevice, Data, DeviceError, Lba, Lpn, Op, Remap, Request, Sectors, Time,
    Transactional, TxError, TxId, TxLimits,
};
use sqlite::host::{Below, Flash};

use crate::turnstile::Turnstile;

const SECTORS: u64 = block::UNIT_BYTES / block::SECTOR_BYTES;

/// A part of a drive.
pub struct Port<D> {
    below: Arc<Turnstile<D>>,
    client: usize,
    first: u32,
    pages: u32,
    app: AppId,
    discards: bool,
}

impl<D: BlockDevice> Port<D> {
    /// The pages from `first` on.
    pub fn new(below: &Arc<Turnstile<D>>, first: u32, pages: u32) -> Port<D> {
        Port {
            client: below.enter(),
            below: Arc::clone(below),
            first,
            pages,
            app: AppId(0),
            discards: true,
        }
    }

    /// The same client of a drive that is never told what is no longer needed: discards are answered and
    /// go no further.
    #[must_use]
    pub fn without_discards(mut self) -> Port<D> {
        self.discards = false;
        self
    }

    /// The same client; the drive counts its requests as this application's.
    #[must_use]
    pub fn for_app(mut self, app: AppId) -> Port<D> {
        self.app = app;
        self
    }

    /// A page of the drive below.
    fn page(&self, page: Lpn) -> Result<Lpn, DeviceError> {
        self.pages_from(page, 1)
    }

    /// The first of so many pages of the drive below: all of them are this client's.
    fn pages_from(&self, first: Lpn, count: u32) -> Result<Lpn, DeviceError> {
        match first.0.checked_add(count) {
            Some(end) if end <= self.pages => Ok(Lpn(self.first + first.0)),
            _ => Err(DeviceError::OutOfRange {
                lba: Lba(u64::from(first.0) * SECTORS),
                sectors: Sectors(u64::from(count) * SECTORS),
                capacity: self.capacity(),
            }),
        }
    }
}

impl<D> Drop for Port<D> {
    fn drop(&mut self) {
        self.below.leave(self.client);
    }
}

impl<D: BlockDevice> BlockDevice for Port<D> {
    fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.pages) * SECTORS)
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.below.look(|device| device.atomic_unit())
    }
    fn flush_covers_submitted(&self) -> bool {
        self.below.look(|device| device.flush_covers_submitted())
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let Request { op, lba, sectors, fua, mut hint, data } = request;
        hint.app = self.app;
        let capacity = self.capacity();
        if op != Op::Flush && lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        if op == Op::Discard && !self.discards {
            return Ok(at);
        }
        let lba = match op {
            Op::Flush => lba,
            _ => Lba(lba.0 + u64::from(self.first) * SECTORS),
        };
        let request = Request { op, lba, sectors, fua, hint, data };
        self.below.pass(self.client, at, |drive, at| drive.submit(at, request))
    }
}

impl<D: Transactional> Transactional for Port<D> {
    fn tx_limits(&self) -> TxLimits {
        self.below.look(|drive| drive.tx_limits())
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        // Takes no time: who begins first has the lower number, and only one client has any.
        self.below.look(Transactional::tx_begin)
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        let page = self.page(page)?;
        self.below.pass(self.client, at, |drive, at| drive.tx_write(at, tid, page, data))
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        let first = self.pages_from(first, count)?;
        if !self.discards {
            return Ok(at);
        }
        self.below.pass(self.client, at, |drive, at| drive.tx_trim(at, tid, first, count))
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        let page = self.page(page)?;
        self.below.pass(self.client, at, |drive, at| drive.tx_read(at, tid, page, data))
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.below.pass(self.client, at, |drive, at| drive.tx_commit(at, tids))
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.below.pass(self.client, at, |drive, at| drive.tx_abort(at, tid))
    }
}

impl<D: Remap> Remap for Port<D> {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        let moved = |(from, to): &(Lpn, Lpn)| Ok((self.page(*from)?, self.page(*to)?));
        let pairs = pairs.iter().map(moved).collect::<Result<Vec<_>, DeviceError>>()?;
        self.below.pass(self.client, at, |drive, at| drive.remap(at, &pairs))
    }
}

impl<D: Transactional + Remap> Below for Port<D> {
    /// The flash is everybody's: it is counted for the whole run.
    fn flash(&self) -> Option<Flash> {
        None
    }
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use block::RamDevice;

    use super::*;

    #[test]
    fn a_part_begins_at_zero_and_ends_where_it_ends() {
        let shared = Arc::new(Turnstile::new(RamDevice::new(Sectors(64))));
        let mut second = Port::new(&shared, 2, 2);
        let bytes = [9u8; 4096];
        let write = Request::write(Lba(8), Sectors(8)).with(Data::Write(&bytes));
        second.submit(Time::ZERO, write).unwrap();
        let beyond = second.submit(Time::ZERO, Request::discard(Lba(16), Sectors(8)));
        assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })));
        for (first, count) in [(1, 1), (0, 3), (2, 1), (0, u32::MAX)] {
            let fits = second.pages_from(Lpn(first), count);
            assert_eq!(fits.ok(), (first + count.min(9) <= 2).then_some(Lpn(2 + first)));
        }
        drop(second);
        let mut out = [0u8; 4096];
        let read = Request::read(Lba(24), Sectors(8)).with(Data::Read(&mut out));
        shared.look(|ram| ram.submit(Time::ZERO, read)).unwrap();
        assert_eq!(out, bytes);
    }
}
