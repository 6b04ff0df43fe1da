//! Remapping over a device that has none: a second map above it.
//!
//! The destination gets the source's place and the source the destination's, whose old page is
//! discarded: what remains on flash is what remapping leaves. The records that make it durable are
//! charged as pages of their own, 200 pairs each, behind the renamed pages.

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Op, Remap, Request, SECTOR_BYTES, Sectors, Time,
    Transactional, TxError, TxId, TxLimits, UNIT_BYTES,
};

const SECTORS: u64 = UNIT_BYTES / SECTOR_BYTES;
/// Pairs of one remap record.
const PAIRS: usize = 200;
/// Pages the records take turns in.
const RECORDS: u32 = 64;

/// A device below a map of names. Requests are of whole pages.
#[derive(Clone, Debug)]
pub struct Renamed<D> {
    below: D,
    /// Where the pages that may be renamed lie; all behind them are where they are.
    names: Vec<u32>,
    records: u32,
}

impl<D: Transactional> Renamed<D> {
    /// The first `pages` pages may be renamed; the [`RECORDS`] behind them hold records.
    pub fn new(below: D, pages: u32) -> Renamed<D> {
        Renamed { below, names: (0..pages).collect(), records: 0 }
    }

    /// The device below.
    pub fn below(&self) -> &D {
        &self.below
    }

    /// Pages that must be there: those that may be renamed, and the records.
    pub fn needs(pages: u32) -> u32 {
        pages + RECORDS
    }

    fn place(&self, page: Lpn) -> Lpn {
        self.names.get(page.index()).map_or(page, |place| Lpn(*place))
    }
}

impl<D: Transactional> BlockDevice for Renamed<D> {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        if request.op == Op::Flush {
            return self.below.submit(at, request);
        }
        if !request.lba.0.is_multiple_of(SECTORS) || request.sectors.0 != SECTORS {
            return Err(DeviceError::Unsupported("a renamed page is read and written whole"));
        }
        let place = self.place(Lpn((request.lba.0 / SECTORS) as u32));
        let lba = Lba(u64::from(place.0) * SECTORS);
        self.below.submit(at, Request { lba, ..request })
    }
}

impl<D: Transactional> Transactional for Renamed<D> {
    fn tx_limits(&self) -> TxLimits {
        self.below.tx_limits()
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.below.tx_begin()
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
        last: bool,
    ) -> Result<Time, TxError> {
        self.below.tx_write(at, tid, self.place(page), data, last)
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        let mut end = at;
        for page in first.0..first.0 + count {
            end = end.max(self.below.tx_trim(at, tid, self.place(Lpn(page)), 1)?);
        }
        Ok(end)
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.below.tx_read(at, tid, self.place(page), data)
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.below.tx_commit(at, tids)
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.below.tx_abort(at, tid)
    }
}

impl<D: Transactional> Remap for Renamed<D> {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        let mut end = at;
        for chunk in pairs.chunks(PAIRS) {
            for (to, from) in chunk {
                let sectors = Sectors(SECTORS);
                let old = Lba(u64::from(self.place(*to).0) * SECTORS);
                end = end.max(self.below.submit(at, Request::discard(old, sectors))?);
                if to.index().max(from.index()) >= self.names.len() {
                    return Err(DeviceError::Unsupported("a page that has no name").into());
                }
                self.names.swap(to.index(), from.index());
            }
            let page = self.names.len() as u64 + u64::from(self.records % RECORDS);
            self.records = (self.records + 1) % RECORDS;
            let record = Request::write(Lba(page * SECTORS), Sectors(SECTORS)).with_fua();
            end = end.max(self.below.submit(at, record)?);
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use block::{RamDevice, Rng};

    use super::*;

    /// Against the RAM device's own remapping: the same bytes under every name.
    #[test]
    fn a_second_map_reads_as_remapping_does() {
        let pages = 40u32;
        let sectors = Sectors(u64::from(Renamed::<RamDevice>::needs(pages)) * SECTORS);
        let mut plain = RamDevice::new(sectors);
        let mut named = Renamed::new(RamDevice::new(sectors), pages);
        let mut rng = Rng::new(3);
        let at = |page: u32| Lba(u64::from(page) * SECTORS);
        for round in 0..500u64 {
            let page = rng.below(pages.into()) as u32;
            if rng.ratio(1, 3) {
                let other = (page + 1 + rng.below(u64::from(pages) - 1) as u32) % pages;
                let pairs = [(Lpn(page), Lpn(other))];
                plain.remap(Time::ZERO, &pairs).unwrap();
                named.remap(Time::ZERO, &pairs).unwrap();
            } else {
                let data = [round as u8; 4096];
                for device in [&mut plain as &mut dyn BlockDevice, &mut named] {
                    let write = Request::write(at(page), Sectors(SECTORS));
                    device.submit(Time::ZERO, write.with(Data::Write(&data))).unwrap();
                }
            }
            for page in 0..pages {
                let (mut a, mut b) = ([0; 4096], [1; 4096]);
                let read = || Request::read(at(page), Sectors(SECTORS));
                plain.submit(Time::ZERO, read().with(Data::Read(&mut a))).unwrap();
                named.submit(Time::ZERO, read().with(Data::Read(&mut b))).unwrap();
                assert_eq!(a, b, "page {page} in round {round}");
            }
        }
    }
}
