//! The log of commits as a ring: where the next record goes, and what a scan finds in it.
//!
//! Invariants:
//! * the records of an epoch begin at the ring's first byte and follow each other; an epoch is over when
//!   its pages are on the device, and only then is the ring written from its beginning again;
//! * nothing is appended behind what a power-on has found, or in an epoch that the last close has sealed: whoever
//!   writes first begins an epoch of his own;
//! * what is written together was durable before anything behind it is written, and says how many before it were
//!   durable: where one of these does not count, that is damage and no power cut.

use std::sync::Arc;

use block::{
    CommitLog, Data, DeviceError, Lba, LogSink, Lpn, Request, SECTOR_BYTES, Sectors, Time,
};
use live::Damage;

use super::device::Device;
use super::record::{Draft, Grain, HEADER, MAGIC, Place, Record};
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
    /// The end of those that have no place yet, but room.
    reserved: u64,
    /// Whether this epoch began here: records may be appended.
    open: bool,
    /// Whether a commit has gone to the device as pages since the epoch was found.
    passed: bool,
}

impl Ring {
    /// In an epoch that others may have left records of.
    pub(super) fn found(store: u64, epoch: u64, bytes: u64, grain: Grain) -> Ring {
        let (records, end, before, reserved) = (0, 0, 0, 0);
        let (open, passed) = (false, false);
        Ring { store, epoch, bytes, grain, records, end, before, reserved, open, passed }
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

    /// Whether a record of so many bytes ever goes into the ring: two of them must.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        bytes <= self.bytes / 2
    }

    /// Whether there is room for it in this epoch.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.reserved + bytes <= self.bytes
    }

    /// Gives it room behind those that have some.
    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
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
        (self.end, self.reserved) = (0, 0);
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
mod tests {
    use block::Rng;

    use super::super::record::{Body, Packer};
    use super::*;

    const BYTES: usize = 64 << 10;

    /// A commit with so many bytes of changes.
    fn draft(seed: u64, bytes: usize, grain: Grain) -> Draft {
        let mut rng = Rng::new(seed);
        let mut body = Body::default();
        let old = vec![0; PAGE];
        for (page, left) in (0..bytes.div_ceil(1_000)).zip((0..=bytes).rev().step_by(1_000)) {
            let mut new = old.clone();
            new[7..7 + left.min(1_000)].fill_with(|| rng.below(255) as u8 + 1);
            body.page(3, page as u32, Some(&old), &new);
        }
        body.meta(3, &[seed as u8 + 1; 40]);
        body.finish(grain, &mut Packer::default())
    }

    /// A ring with commits in it: the bytes, and what it knows.
    fn filled(grain: Grain, commits: &[(u64, usize)]) -> (Vec<u8>, Ring) {
        let (mut log, mut ring) = (vec![0; BYTES], Ring::found(77, 4, BYTES as u64, grain));
        ring.begin();
        for (seed, bytes) in commits {
            let settled = ring.records();
            let (at, bytes) = ring.append(draft(*seed, *bytes, grain), settled);
            log[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        (log, ring)
    }

    fn read(log: &[u8]) -> Result<Scan, Damage> {
        scan(log, 0, 77, 5, Blind::default())
    }

    const COMMITS: [(u64, usize); 4] = [(1, 30), (2, 9_000), (3, 500), (4, 2_000)];

    #[test]
    fn a_sealed_ring_is_of_the_next_epoch_and_holds_nothing() {
        let (log, mut ring) = filled(Grain::Page, &COMMITS);
        let epoch = ring.epoch;
        ring.seal();
        assert_eq!(
            (ring.epoch, ring.records(), ring.used(), ring.is_open()),
            (epoch + 1, 0, 0, false)
        );
        let voided = scan(&log, 0, 77, ring.epoch, Blind::default()).unwrap();
        assert!(voided.records.is_empty());
    }

    #[test]
    fn what_was_appended_is_found() {
        for grain in [Grain::Sector, Grain::Page] {
            let (log, ring) = filled(grain, &COMMITS);
            let found = read(&log).unwrap();
            assert_eq!((found.records.len(), found.end, found.torn), (4, ring.used(), false));
            assert!(found.end.is_multiple_of(grain as u64));
            for (record, (seed, _)) in found.records.iter().zip(COMMITS) {
                let metas = record.metas();
                assert_eq!(metas, [(3, &[seed as u8 + 1; 40][..])]);
                assert!(record.changes().iter().all(|change| change.at == 7));
            }
            // None of them is of another store, or of another epoch.
            for (store, epoch) in [(76, 5), (77, 4), (77, 6)] {
                let other = scan(&log, 0, store, epoch, Blind::default()).unwrap();
                assert_eq!((other.records.len(), other.torn), (0, true));
            }
        }
    }

    /// Records of one write: any of them may be missing after a power cut, and only what was durable before it is
    /// missed. With records that call each other durable, some of what a cut leaves would be damage.
    #[test]
    fn what_is_written_together_may_be_torn_anyhow() {
        for grain in [Grain::Sector, Grain::Page] {
            let mut damaged = [0, 0];
            for (own, damaged) in [false, true].into_iter().zip(&mut damaged) {
                let (log, mut ring) = filled(grain, &COMMITS[..1]);
                let settled = ring.records();
                let mut parts = Vec::new();
                for (seed, bytes) in &COMMITS[1..] {
                    let settled = if own { ring.records() } else { settled };
                    parts.push(ring.append(draft(*seed, *bytes, grain), settled));
                }
                for left in 0..1 << parts.len() {
                    let mut log = log.clone();
                    for (part, (at, bytes)) in parts.iter().enumerate() {
                        if left >> part & 1 == 1 {
                            log[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
                        }
                    }
                    match read(&log) {
                        Ok(found) => {
                            let whole = (left as u32).trailing_ones() as usize;
                            assert_eq!(found.records.len(), 1 + whole, "{left:b}");
                        }
                        Err(_) => *damaged += 1,
                    }
                }
            }
            assert!(damaged[0] == 0 && damaged[1] >= 3, "{damaged:?}");
        }
    }

    /// Only the last commit can look cut short: nothing behind it says that it was durable.
    #[test]
    fn every_flipped_bit_is_seen() {
        let (log, ring) = filled(Grain::Sector, &COMMITS);
        let sound = read(&log).unwrap();
        let ends: Vec<u64> = sound
            .records
            .iter()
            .scan(0, |end, record| {
                *end += record.takes as u64;
                Some(*end)
            })
            .collect();
        let mut seen = 0;
        for bit in (0..8 * ring.used() as usize).step_by(3) {
            let mut hit = log.clone();
            hit[bit / 8] ^= 1 << (bit % 8);
            let record = ends.iter().position(|end| (bit as u64 / 8) < *end).unwrap();
            match read(&hit) {
                Err(damage) => {
                    assert_eq!(damage.at, if record == 0 { 0 } else { ends[record - 1] });
                    assert!(record < 3, "bit {bit}: {damage}");
                    seen += 1;
                }
                // Padding says nothing; the last one looks cut short.
                Ok(found) if found.records.len() == 4 => assert_eq!(found.records, sound.records),
                Ok(found) => assert_eq!((record, found.records.len()), (3, 3), "bit {bit}"),
            }
        }
        assert!(seen > 1_000, "{seen}");
    }

    /// A power cut tears the last record, in any way: it is not there, and nothing else is missing.
    #[test]
    fn a_torn_tail_is_no_record() {
        let (log, ring) = filled(Grain::Page, &COMMITS);
        let (before, _) = filled(Grain::Page, &COMMITS[..3]);
        let last = filled(Grain::Page, &COMMITS[..3]).1.used() as usize;
        let sectors = (ring.used() as usize - last).div_ceil(512);
        let length = u32::from_le_bytes(log[last + 32..last + 36].try_into().unwrap()) as usize;
        let (mut whole, mut torn) = (0, 0);
        for left in 0..1u32 << sectors.min(8) {
            let mut hit = before.clone();
            for sector in (0..sectors).filter(|sector| left >> (sector % 8) & 1 == 1) {
                let part = last + 512 * sector..last + 512 * (sector + 1);
                hit[part.clone()].copy_from_slice(&log[part]);
            }
            let same = hit[last..last + length] == log[last..last + length];
            let found = read(&hit).unwrap();
            assert_eq!(found.records.len(), if same { 4 } else { 3 }, "{left:b}");
            whole += u32::from(same);
            torn += u32::from(!same);
        }
        assert!(whole > 0 && torn > 100, "{whole} {torn}");
    }

    /// A record of another life of the same epoch, at its place and whole: only the chain tells.
    #[test]
    fn a_record_of_another_life_does_not_fit_the_chain() {
        let (log, _) = filled(Grain::Page, &COMMITS);
        let (other, _) = filled(Grain::Page, &[(9, 40), (2, 9_000), (3, 500), (4, 2_000)]);
        let first = read(&log).unwrap().records[0].takes;
        let mut mixed = log.clone();
        mixed[..first].copy_from_slice(&other[..first]);
        assert!(read(&mixed).is_err(), "the records behind it say that another one was durable");
        let blind = Blind { chain: true, ..Blind::default() };
        assert_eq!(scan(&mixed, 0, 77, 5, blind).unwrap().records.len(), 4, "the planted bug");
    }

    #[test]
    fn what_can_be_packed_takes_fewer_blocks() {
        let old = vec![0; PAGE];
        let mut body = Body::default();
        for page in 0..30 {
            body.page(1, page, Some(&old), &[page as u8 + 1; PAGE]);
        }
        let draft = body.finish(Grain::Page, &mut Packer::default());
        assert_eq!(draft.takes(), 4_096, "30 pages, each of one byte");
        let place = Place { store: 1, epoch: 1, number: 1, before: 0 };
        let (bytes, _) = draft.seal(place, 0);
        let record = Record::read(&bytes, false).unwrap();
        let changes = record.changes();
        assert_eq!(changes.len(), 30);
        assert!(changes.iter().enumerate().all(|(i, c)| c.bytes == [i as u8 + 1; PAGE]));
    }

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut rng = Rng::new(3);
        let (log, _) = filled(Grain::Sector, &COMMITS);
        for _ in 0..20_000 {
            let mut bytes = log[..rng.below(12_000) as usize].to_vec();
            for _ in 0..rng.below(4) {
                if let Some(place) = bytes.len().checked_sub(1) {
                    let at = rng.below(place as u64 + 1).min(rng.below(200)) as usize;
                    bytes[at] = rng.below(256) as u8;
                }
            }
            // Unchecked, so that what is forged with the right checksum is read as well.
            for unchecked in [false, true] {
                if let Some(record) = Record::read(&bytes, unchecked) {
                    assert!(record.changes().iter().all(|c| c.at + c.bytes.len() <= PAGE));
                }
            }
        }
    }
}
