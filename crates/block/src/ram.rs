//! A device of plain memory: the baseline of every comparison and the simplest reference.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    BlockDevice, Data, DeviceError, Lpn, Op, Remap, Request, SECTOR_BYTES, Sectors, Time,
    Transactional, TxError, TxId, TxLimits, UNIT_BYTES,
};

const PAGE: usize = UNIT_BYTES as usize;
const PAGE_SECTORS: u64 = UNIT_BYTES / SECTOR_BYTES;
const LIMITS: TxLimits = TxLimits { max_open: 64, pages: 10_000, span: 16_384, next: TxId(1) };

/// A RAM disk: every request is done at once, everything is durable, discards zero. Its
/// transactions are overlays: the simplest thing that keeps contract C4.
#[derive(Clone)]
pub struct RamDevice {
    bytes: Vec<u8>,
    limits: TxLimits,
    open: BTreeSet<TxId>,
    /// Pages of open transactions: whose, and what they hold.
    overlay: BTreeMap<Lpn, (TxId, Box<[u8]>)>,
}

impl RamDevice {
    /// A device of `sectors` zeroed sectors.
    pub fn new(sectors: Sectors) -> RamDevice {
        RamDevice {
            bytes: vec![0; sectors.bytes().index()],
            limits: LIMITS,
            open: BTreeSet::new(),
            overlay: BTreeMap::new(),
        }
    }

    /// The same device with other limits: a test wants to meet them.
    pub fn with_limits(mut self, limits: TxLimits) -> RamDevice {
        self.limits = limits;
        self
    }

    fn page(&self, page: Lpn) -> Result<std::ops::Range<usize>, DeviceError> {
        let start = page.index() * PAGE;
        if start + PAGE > self.bytes.len() {
            let lba = crate::Lba(u64::from(page.0) * PAGE_SECTORS);
            let capacity = self.capacity();
            return Err(DeviceError::OutOfRange { lba, sectors: Sectors(PAGE_SECTORS), capacity });
        }
        Ok(start..start + PAGE)
    }

    /// Whether `tid` may write a page: it is open (or opened by this), and nobody else has it.
    fn admit(&mut self, tid: TxId, page: Lpn) -> Result<(), TxError> {
        self.page(page)?;
        if let Some((owner, _)) = self.overlay.get(&page) {
            let owner = *owner;
            return if owner == tid { Ok(()) } else { Err(TxError::Conflict { page, owner }) };
        }
        if !self.open.contains(&tid) && tid < self.limits.next {
            return Err(TxError::Unknown(tid));
        }
        if self.overlay.len() >= self.limits.pages as usize {
            return Err(TxError::Full(self.limits.pages));
        }
        if !self.open.contains(&tid) {
            self.open_new(tid)?;
        }
        Ok(())
    }

    fn open_new(&mut self, tid: TxId) -> Result<(), TxError> {
        if self.open.len() >= self.limits.max_open as usize {
            return Err(TxError::TooManyOpen(self.limits.max_open));
        }
        if let Some(oldest) = self.open.first()
            && tid.0 - oldest.0 >= self.limits.span
        {
            return Err(TxError::Span { oldest: *oldest, span: self.limits.span });
        }
        self.open.insert(tid);
        self.limits.next = TxId(tid.0 + 1);
        Ok(())
    }

    fn owned(&self, lba: u64, sectors: u64) -> Option<Lpn> {
        let first = Lpn((lba / PAGE_SECTORS) as u32);
        let end = Lpn((lba + sectors).div_ceil(PAGE_SECTORS) as u32);
        self.overlay.range(first..end).next().map(|(page, _)| *page)
    }
}

impl Transactional for RamDevice {
    fn tx_limits(&self) -> TxLimits {
        self.limits
    }

    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        let tid = self.limits.next;
        self.open_new(tid)?;
        Ok(tid)
    }

    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        let bytes: Box<[u8]> = match data {
            Data::Write(bytes) if bytes.len() == PAGE => bytes.into(),
            Data::None => vec![0; PAGE].into(),
            _ => return Err(DeviceError::Unsupported("payload does not fit the request").into()),
        };
        self.admit(tid, page)?;
        self.overlay.insert(page, (tid, bytes));
        Ok(at)
    }

    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        let pages = || (first.0..first.0.saturating_add(count)).map(Lpn);
        for page in pages() {
            self.admit(tid, page)?;
        }
        let free = self.limits.pages as usize - self.overlay.len();
        if pages().filter(|page| !self.overlay.contains_key(page)).count() > free {
            return Err(TxError::Full(self.limits.pages));
        }
        for page in pages() {
            self.overlay.insert(page, (tid, vec![0; PAGE].into()));
        }
        Ok(at)
    }

    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        let place = self.page(page)?;
        if !self.open.contains(&tid) {
            return Err(TxError::Unknown(tid));
        }
        let bytes = match self.overlay.get(&page) {
            Some((owner, bytes)) if *owner == tid => bytes,
            _ => &self.bytes[place],
        };
        match data {
            Data::None => {}
            Data::Read(out) if out.len() == PAGE => out.copy_from_slice(bytes),
            _ => return Err(DeviceError::Unsupported("payload does not fit the request").into()),
        }
        Ok(at)
    }

    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        if let Some(tid) = tids.iter().find(|tid| !self.open.contains(tid)) {
            return Err(TxError::Unknown(*tid));
        }
        for (page, (tid, bytes)) in &self.overlay {
            if tids.contains(tid) {
                let start = page.index() * PAGE;
                self.bytes[start..start + PAGE].copy_from_slice(bytes);
            }
        }
        self.overlay.retain(|_, (tid, _)| !tids.contains(tid));
        self.open.retain(|tid| !tids.contains(tid));
        Ok(at)
    }

    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.overlay.retain(|_, (owner, _)| *owner != tid);
        self.open.remove(&tid);
        Ok(at)
    }
}

impl Remap for RamDevice {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        for (to, from) in pairs {
            for page in [*to, *from] {
                self.page(page)?;
                if let Some((owner, _)) = self.overlay.get(&page) {
                    return Err(TxError::Conflict { page, owner: *owner });
                }
            }
        }
        for (to, from) in pairs {
            let place = self.page(*from)?;
            self.bytes.copy_within(place.clone(), to.index() * PAGE);
            self.bytes[place].fill(0);
        }
        Ok(at)
    }
}

impl BlockDevice for RamDevice {
    fn capacity(&self) -> Sectors {
        Sectors(self.bytes.len() as u64 / SECTOR_BYTES)
    }
    /// A loss of power leaves nothing of it, torn or whole.
    fn atomic_unit(&self) -> crate::Bytes {
        crate::Bytes(crate::UNIT_BYTES)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        if matches!(request.op, Op::Write | Op::Discard)
            && let Some(page) = self.owned(lba.0, sectors.0)
        {
            return Err(DeviceError::InTransaction(crate::Lba(u64::from(page.0) * PAGE_SECTORS)));
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

    #[test]
    fn a_transaction_is_seen_by_itself_until_it_commits() {
        let mut ram = RamDevice::new(Sectors(32));
        let (old, new, at) = ([1u8; PAGE], [2u8; PAGE], Time::ZERO);
        let all = |data| Request::write(crate::Lba(8), Sectors(8)).with(data);
        ram.submit(at, all(Data::Write(&old))).unwrap();
        let tid = ram.tx_begin().unwrap();
        ram.tx_write(at, tid, Lpn(1), Data::Write(&new)).unwrap();
        let mut seen = [0; PAGE];
        ram.tx_read(at, tid, Lpn(1), Data::Read(&mut seen)).unwrap();
        assert_eq!(seen, new);
        ram.submit(at, Request::read(crate::Lba(8), Sectors(8)).with(Data::Read(&mut seen)))
            .unwrap();
        assert_eq!(seen, old);
        let plain = ram.submit(at, all(Data::Write(&old)));
        assert_eq!(plain, Err(DeviceError::InTransaction(crate::Lba(8))));
        let other = ram.tx_begin().unwrap();
        let stolen = ram.tx_write(at, other, Lpn(1), Data::Write(&old));
        assert_eq!(stolen, Err(TxError::Conflict { page: Lpn(1), owner: tid }));
        ram.tx_trim(at, other, Lpn(2), 2).unwrap();
        ram.tx_commit(at, &[tid, other]).unwrap();
        ram.submit(at, Request::read(crate::Lba(8), Sectors(8)).with(Data::Read(&mut seen)))
            .unwrap();
        assert_eq!(seen, new);
        assert_eq!(ram.tx_commit(at, &[tid]), Err(TxError::Unknown(tid)));
        ram.remap(at, &[(Lpn(3), Lpn(1))]).unwrap();
        ram.submit(at, Request::read(crate::Lba(24), Sectors(8)).with(Data::Read(&mut seen)))
            .unwrap();
        assert_eq!(seen, new);
    }
}
