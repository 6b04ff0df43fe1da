//! The log of commits as a ring: where the next record goes, and what a scan finds in it.
//!
//! Invariants:
//! * the records of an epoch begin at the ring's first byte and follow each other; an epoch is over when
//!   its pages are on the device, and only then is the ring written from its beginning again;
//! * nothing is appended behind what a power-on has found, or in an epoch that the last close has sealed: whoever
//!   writes first begins an epoch of his own;
//! * the records of an epoch unpack to no more than [`Ring::most_raw`]: whoever opens a store that was killed waits for that;
//! * what is written together was durable before anything behind it is written, and says how many before it were
//!   durable: where one of these does not count, that is damage and no power cut.

use std::sync::Arc;

use block::{
    CommitLog, Data, DeviceError, Lba, LogSink, Lpn, Request, SECTOR_BYTES, Sectors, Time,
};
use live::Damage;

use super::device::Device;
use super::record::{Draft, Grain, HEADER, MAGIC, MOST, Place, Record};
use super::table::{LogPlace, PAGE};

/// Where the next record of a store goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ring {
    store: u64,
    epoch: u64,
    bytes: u64,
    grain: Grain,
    /// Records of the epoch, the end of the last one and its checksum.
    records: u64,
    end: u64,
    before: u32,
    /// The end of those that have no place yet, but room, and what all of them unpack to.
    reserved: u64,
    raw: u64,
    /// Whether this epoch began here: records may be appended.
    open: bool,
    /// Whether a commit has gone to the device as pages since the epoch was found.
    passed: bool,
}

impl Ring {
    /// In an epoch that others may have left records of.
    pub(super) fn found(store: u64, epoch: u64, bytes: u64, grain: Grain) -> Ring {
        let (records, end, before, reserved, raw) = (0, 0, 0, 0, 0);
        let (open, passed) = (false, false);
        Ring { store, epoch, bytes, grain, records, end, before, reserved, raw, open, passed }
    }

    pub(super) fn store(&self) -> u64 {
        self.store
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn grain(&self) -> Grain {
        self.grain
    }

    /// Records of this epoch.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// A commit goes to the device as pages, before an epoch has begun here: whether it is not the first one.
    pub(super) fn pass(&mut self) -> bool {
        std::mem::replace(&mut self.passed, true)
    }

    /// Bytes of the records of this epoch.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.end
    }

    /// Whether a record ever goes into the ring: two of them must, and it must be read again.
    pub(super) fn takes(&self, draft: &Draft) -> bool {
        draft.takes() <= self.bytes / 2 && draft.raw() <= MOST as u64
    }

    /// Whether there is room for it in this epoch.
    pub(super) fn has_room(&self, draft: &Draft) -> bool {
        self.reserved + draft.takes() <= self.bytes && self.raw + draft.raw() <= self.most_raw()
    }

    /// What the records of an epoch unpack to at most.
    pub(super) fn most_raw(&self) -> u64 {
        (16 * self.bytes).max(2 * MOST as u64)
    }

    /// Gives it room behind those that have some.
    pub(super) fn reserve(&mut self, draft: &Draft) {
        self.reserved += draft.takes();
        self.raw += draft.raw();
    }

    /// The next epoch begins: what the ring holds is void.
    pub(super) fn begin(&mut self) {
        let epoch = self.epoch + 1;
        *self =
            Ring { epoch, open: true, ..Ring::found(self.store, epoch, self.bytes, self.grain) };
    }

    /// The next epoch begins, and nothing will be appended to it.
    pub(super) fn seal(&mut self) {
        *self = Ring::found(self.store, self.epoch + 1, self.bytes, self.grain);
    }

    /// The bytes of the next record and where they go; `settled`: records before it that are durable.
    pub(super) fn append(&mut self, draft: Draft, settled: u64) -> (u64, Vec<u8>) {
        let (store, epoch, at) = (self.store, self.epoch, self.end);
        let place = Place { store, epoch, number: self.records + 1, before: self.before };
        let (bytes, crc) = draft.seal(place, settled);
        self.records += 1;
        self.end += bytes.len() as u64;
        self.reserved = self.reserved.max(self.end);
        self.before = crc;
        (at, bytes)
    }

    /// A planted bug: the ring is written from its beginning while its records still count.
    pub(super) fn wrap(&mut self) {
        (self.end, self.reserved, self.raw) = (0, 0, 0);
    }

    /// A planted bug: goes on behind what was found, and a little further if that was torn.
    pub(super) fn go_on(&mut self, scan: &Scan) {
        self.records = scan.records.len() as u64;
        self.end = scan.end + if scan.torn { PAGE as u64 } else { 0 };
        self.reserved = self.end;
        self.before = scan.records.last().map_or(0, |record| record.crc);
        self.open = true;
    }
}

/// What is left out of a scan: planted bugs.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Blind {
    pub(super) chain: bool,
    pub(super) crc: bool,
}

/// The records of an epoch.
#[derive(Default, Debug)]
pub(super) struct Scan {
    pub(super) records: Vec<Record>,
    /// Where each of them begins.
    pub(super) starts: Vec<usize>,
    /// Where the last one ends.
    pub(super) end: u64,
    /// Something begins there that is no record of this epoch that counts.
    pub(super) torn: bool,
}

/// Reads the records of `epoch` from the bytes of a ring; `start`: where it begins in what holds it.
pub(super) fn scan(
    log: &[u8],
    start: u64,
    store: u64,
    epoch: u64,
    blind: Blind,
) -> Result<Scan, Damage> {
    let (mut found, mut before) = (Scan::default(), 0);
    while let Some(record) = Record::read(&log[found.end as usize..], blind.crc) {
        let number = found.records.len() as u64 + 1;
        let chained = record.place == Place { store, epoch, number, before };
        let listed =
            (record.place.store, record.place.epoch, record.place.number) == (store, epoch, number);
        if !(chained || blind.chain && listed) {
            break;
        }
        before = record.crc;
        found.starts.push(found.end as usize);
        found.end = (found.end + record.takes as u64).min(log.len() as u64);
        found.records.push(record);
    }
    let rest = &log[found.end as usize..];
    found.torn = rest.starts_with(MAGIC);
    let missing = found.records.len() as u64 + 1;
    // Records begin at multiples of the finer grain.
    for at in (0..rest.len().saturating_sub(HEADER - 1)).step_by(Grain::Sector as usize) {
        if !rest[at..].starts_with(MAGIC) {
            continue;
        }
        let later = Record::read(&rest[at..], false);
        let Some(later) = later.filter(|r| (r.place.store, r.place.epoch) == (store, epoch)) else {
            continue;
        };
        if later.settled >= missing && !blind.chain {
            let what = format!(
                "commit {missing} of epoch {epoch} in the log of commits is damaged or missing; \
                 expected it, for it was durable when commit {} was written",
                later.place.number
            );
            return Err(Damage { at: start + found.end, what });
        }
    }
    Ok(found)
}

/// A log on pages of the device itself.
struct OnPages<'a> {
    device: &'a mut dyn Device,
    first: u32,
    pages: u32,
}

impl OnPages<'_> {
    fn lba(&self, offset: u64) -> Lba {
        Lba(u64::from(self.first) * (PAGE as u64 / SECTOR_BYTES) + offset / SECTOR_BYTES)
    }
}

const PAGE_SECTORS: Sectors = Sectors(PAGE as u64 / SECTOR_BYTES);

impl CommitLog for OnPages<'_> {
    fn log_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE as u64
    }

    fn log_grain(&self) -> u32 {
        PAGE as u32
    }

    fn log_start(&self) -> u64 {
        u64::from(self.first) * PAGE as u64
    }

    fn log_append(&mut self, at: Time, offset: u64, bytes: &[u8]) -> Result<Time, DeviceError> {
        let mut written = at;
        for (page, bytes) in (offset..).step_by(PAGE).zip(bytes.chunks(PAGE)) {
            let request = Request::write(self.lba(page), PAGE_SECTORS).with(Data::Write(bytes));
            written = written.max(self.device.submit(at, request)?);
        }
        self.device.submit(written, Request::flush())
    }

    fn log_read(&mut self, at: Time, offset: u64, out: &mut [u8]) -> Result<Time, DeviceError> {
        let mut now = at;
        for (page, out) in (offset..).step_by(PAGE).zip(out.chunks_mut(PAGE)) {
            let request = Request::read(self.lba(page), PAGE_SECTORS).with(Data::Read(out));
            now = self.device.submit(now, request)?;
        }
        Ok(now)
    }

    fn log_sink(&self) -> Option<Arc<dyn LogSink>> {
        self.device.log_on_pages(Lpn(self.first))
    }
}

/// Works on the log of a store, wherever it lies.
pub(super) fn with_log<T>(
    device: &mut dyn Device,
    place: LogPlace,
    first: u32,
    body: impl FnOnce(&mut dyn CommitLog) -> Result<T, DeviceError>,
) -> Result<T, DeviceError> {
    let none =
        DeviceError::Unsupported("the store has a log of commits, which its device does not give");
    match place {
        LogPlace::None => Err(none),
        LogPlace::Device => body(device.commit_log().ok_or(none)?),
        LogPlace::Pages(pages) => body(&mut OnPages { device, first, pages }),
    }
}

#[cfg(test)]
mod tests;
