//! What is known of discards: ranges that wait in RAM, and the trim records on flash.
//!
//! | | |
//! | --- | --- |
//! | owns | the waiting ranges, the entries of each record under its place, how many there are |
//! | invariants | `ranges` is the number of entries of all records and of the one being appended; a record is entered under its place before that is programmed |
//! | offers | ranges to remember, batches to write, records to enter, move, prune and take out |
//! | does not | know which slots are mapped, or write anything: whoever takes a record out unmarks its place |
//! | callers | `discard.rs` (life of records), `head.rs` and `bad.rs` (places), `doubles.rs` (power-on), `tx/remap.rs` (discards that a pair stood for) |

use std::collections::BTreeMap;

use block::Ppn;

/// Ranges the drive remembers at most; further discards are not made durable and the old data
/// stays readable after a power cut, which the contract allows (C5).
const RANGES: usize = 65_536;
/// Entries of one record: 16 bytes each in 4 KiB, less the header.
pub(crate) const ENTRIES: usize = 255;
/// Records are merged when there are so many more than twice what the last merge left.
const MERGE: usize = 4;

/// Slots that merged records take at most on a drive of so many logical slots, and one for the
/// record being written.
pub(crate) fn record_slots(logical: u32) -> u32 {
    // Ranges that do not touch: at most every other slot begins one.
    (logical.div_ceil(2).min(RANGES as u32)).div_ceil(ENTRIES as u32) + 1
}

/// A discarded range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TrimEntry {
    pub first: u32,
    pub count: u32,
    pub seq: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Trims {
    pending: Vec<TrimEntry>,
    records: BTreeMap<u32, Vec<TrimEntry>>,
    ranges: usize,
    arriving: Option<Arriving>,
    /// Records there were after the last merge.
    merged: usize,
}

/// The record about to be appended: it is entered under its place before that is programmed,
/// because a failing program moves it on.
#[derive(Clone, Debug)]
enum Arriving {
    New(Vec<TrimEntry>),
    From(Ppn),
}

impl Trims {
    /// A discard that some other record stood for until now.
    pub fn wait(&mut self, entry: TrimEntry) {
        self.pending.push(entry);
    }
    /// The record at `from` is about to be appended elsewhere.
    pub fn moves(&mut self, from: Ppn) {
        self.arriving = Some(Arriving::From(from));
    }
    /// The record about to be appended has a place.
    pub fn placed(&mut self, to: Ppn) {
        let entries = match self.arriving.take() {
            Some(Arriving::New(entries)) => Some(entries),
            Some(Arriving::From(from)) => self.records.remove(&from.0),
            None => None,
        };
        if let Some(entries) = entries {
            self.records.insert(to.0, entries);
        }
    }
    /// A record found at power-on.
    pub fn adopt(&mut self, at: Ppn, entries: Vec<TrimEntry>) {
        self.ranges += entries.len();
        self.records.insert(at.0, entries);
    }
    /// Whether there are records that one could replace.
    pub fn can_merge(&self) -> bool {
        self.records.len() > self.merged + 1
    }
    /// Whether a record lies at a place.
    pub fn holds(&self, at: Ppn) -> bool {
        self.records.contains_key(&at.0)
    }
    /// What the record at a place says.
    pub fn entries(&self, at: Ppn) -> &[TrimEntry] {
        self.records.get(&at.0).map_or(&[], Vec::as_slice)
    }
    /// The record about to be appended is a new one.
    pub fn arrives(&mut self, entries: Vec<TrimEntry>) {
        self.ranges += entries.len();
        self.arriving = Some(Arriving::New(entries));
    }
    /// The discard that came last, if it still waits.
    pub fn last(&self) -> Option<TrimEntry> {
        self.pending.last().copied()
    }
    /// The discard that came last takes in the slots behind it, all under number `seq`.
    pub fn extend_last(&mut self, count: u32, seq: u64) {
        if let Some(last) = self.pending.last_mut() {
            last.count += count;
            last.seq = seq;
        }
    }
    /// Whether no more ranges can be remembered.
    pub fn is_full(&self) -> bool {
        self.pending.len() + self.ranges >= RANGES
    }
    /// Whether what waits fills a record.
    pub fn fills_record(&self) -> bool {
        self.pending.len() >= ENTRIES
    }
    /// Whether a discard waits for its record.
    pub fn has_waiting(&self) -> bool {
        !self.pending.is_empty()
    }
    /// The entries of the next record to write.
    pub fn next_record(&mut self) -> Option<Vec<TrimEntry>> {
        let count = self.pending.len().min(ENTRIES);
        (count > 0).then(|| self.pending.drain(..count).collect())
    }
    /// Whether there are so many records that they should be merged first.
    pub fn must_merge(&self) -> bool {
        self.records.len() >= 2 * self.merged + MERGE
    }
    /// Takes everything out: the places of all records, and all entries, waiting ones first.
    pub fn take_all(&mut self) -> (Vec<Ppn>, Vec<TrimEntry>) {
        let records = std::mem::take(&mut self.records);
        let mut all = std::mem::take(&mut self.pending);
        all.extend(records.values().flatten());
        self.ranges = 0;
        (records.into_keys().map(Ppn).collect(), all)
    }
    /// What waits now is all there is, merged.
    pub fn set_merged(&mut self) {
        self.merged = self.pending.len().div_ceil(ENTRIES);
    }
    /// Takes a record out.
    pub fn take(&mut self, at: Ppn) -> Option<Vec<TrimEntry>> {
        let entries = self.records.remove(&at.0)?;
        self.ranges -= entries.len();
        Some(entries)
    }
    /// Drops the entries of records that are not `live`; returns the places of records of which
    /// none is left.
    pub fn prune(&mut self, live: impl Fn(&TrimEntry) -> bool) -> Vec<Ppn> {
        let mut left = Vec::new();
        self.records.retain(|at, entries| {
            let before = entries.len();
            entries.retain(&live);
            self.ranges -= before - entries.len();
            if entries.is_empty() {
                left.push(Ppn(*at));
            }
            !entries.is_empty()
        });
        left
    }
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.records.is_empty()
    }
    /// Places of all records.
    pub fn places(&self) -> impl Iterator<Item = Ppn> {
        self.records.keys().map(|ppn| Ppn(*ppn))
    }
}

/// Record payload: count u32, then entries {first u32, count u32, seq u64}, little-endian.
pub(crate) fn encode(entries: &[TrimEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 16 * entries.len());
    bytes.extend((entries.len() as u32).to_le_bytes());
    for entry in entries {
        bytes.extend(entry.first.to_le_bytes());
        bytes.extend(entry.count.to_le_bytes());
        bytes.extend(entry.seq.to_le_bytes());
    }
    bytes
}

/// Reads a record's payload; `None` if it is not one.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<TrimEntry>> {
    let count = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let entries = bytes.get(4..4 + count.checked_mul(16)?)?;
    Some(
        entries
            .chunks_exact(16)
            .map(|e| TrimEntry {
                first: u32::from_le_bytes([e[0], e[1], e[2], e[3]]),
                count: u32::from_le_bytes([e[4], e[5], e[6], e[7]]),
                seq: u64::from_le_bytes([e[8], e[9], e[10], e[11], e[12], e[13], e[14], e[15]]),
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: u32) -> TrimEntry {
        TrimEntry { first, count: 2, seq: u64::from(first) << 33 | 7 }
    }

    fn entries(count: u32) -> Vec<TrimEntry> {
        (0..count).map(|i| entry(10 * i)).collect()
    }

    #[test]
    fn records_survive_their_bytes_and_others_are_none() {
        for count in [0, 1, ENTRIES as u32] {
            let bytes = encode(&entries(count));
            assert_eq!(bytes.len(), 4 + 16 * count as usize);
            assert_eq!(decode(&bytes), Some(entries(count)));
            let longer = [&bytes[..], &[0xAA; 9]].concat();
            assert_eq!(decode(&longer), Some(entries(count)), "a page is longer than its record");
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!((decode(&[1, 0, 0]), decode(&u32::MAX.to_le_bytes())), (None, None));
    }

    #[test]
    fn a_record_takes_what_fits_and_the_rest_waits() {
        let mut trims = Trims::default();
        assert!(trims.is_empty() && !trims.has_waiting() && trims.next_record().is_none());
        for (i, entry) in entries(ENTRIES as u32 + 3).into_iter().enumerate() {
            assert_eq!(trims.fills_record(), i >= ENTRIES, "{i}");
            trims.wait(entry);
        }
        assert_eq!(trims.last(), Some(entry(10 * (ENTRIES as u32 + 2))));
        trims.extend_last(5, 99);
        assert_eq!(trims.last().map(|e| (e.count, e.seq)), Some((7, 99)));
        assert_eq!(trims.next_record(), Some(entries(ENTRIES as u32)));
        assert_eq!(trims.next_record().map(|rest| rest.len()), Some(3));
        assert!(trims.next_record().is_none() && trims.last().is_none());
    }

    #[test]
    fn a_record_is_known_under_its_place_and_follows_it() {
        let mut trims = Trims::default();
        trims.arrives(entries(3));
        trims.placed(Ppn(50));
        assert!(trims.holds(Ppn(50)) && !trims.holds(Ppn(51)));
        assert_eq!((trims.entries(Ppn(50)), trims.entries(Ppn(51))), (&entries(3)[..], &[][..]));
        // Its program failed: it lies elsewhere.
        trims.moves(Ppn(50));
        trims.placed(Ppn(60));
        assert!(trims.holds(Ppn(60)) && !trims.holds(Ppn(50)));
        // What is appended between is no record.
        trims.placed(Ppn(61));
        assert_eq!(trims.places().collect::<Vec<_>>(), [Ppn(60)]);
        trims.adopt(Ppn(70), entries(1));
        assert_eq!((trims.take(Ppn(60)), trims.take(Ppn(60))), (Some(entries(3)), None));
        assert!(!trims.is_empty());
        trims.wait(entry(5));
        assert_eq!(trims.take_all(), (vec![Ppn(70)], vec![entry(5), entry(0)]));
        assert!(trims.is_empty());
    }

    #[test]
    fn what_is_remembered_has_a_limit_and_gives_room_back() {
        let mut trims = Trims::default();
        let records = (RANGES / ENTRIES) as u32;
        (0..records).for_each(|at| trims.adopt(Ppn(at), entries(ENTRIES as u32)));
        let left = RANGES - records as usize * ENTRIES;
        for i in 0..left {
            assert!(!trims.is_full(), "{i} of {left}");
            trims.wait(entry(i as u32));
        }
        assert!(trims.is_full());
        // Of each record one entry still counts; of the first none.
        let gone = trims.prune(|e| e.first == 10);
        assert_eq!((gone, trims.is_full()), (vec![], false));
        assert_eq!(trims.entries(Ppn(3)), &entries(2)[1..]);
        assert_eq!(trims.prune(|_| false).len(), records as usize);
        assert!(trims.places().next().is_none());
        (left..RANGES).for_each(|i| trims.wait(entry(i as u32)));
        assert!(trims.is_full(), "what waits counts");
        trims.take_all();
        assert!(!trims.is_full());
    }

    #[test]
    fn records_are_merged_when_there_are_twice_as_many_and_some() {
        let mut trims = Trims::default();
        let mut at = 0;
        let mut more = |trims: &mut Trims, until: usize| {
            while trims.records.len() < until {
                at += 1;
                trims.adopt(Ppn(at), entries(1));
            }
        };
        more(&mut trims, 1);
        assert!(!trims.can_merge() && !trims.must_merge(), "one replaces one");
        more(&mut trims, 2);
        assert!(trims.can_merge() && !trims.must_merge());
        more(&mut trims, MERGE);
        assert!(trims.must_merge());
        trims.take_all();
        (0..ENTRIES as u32 + 1).for_each(|i| trims.wait(entry(10 * i)));
        trims.set_merged();
        more(&mut trims, 3);
        assert!(!trims.can_merge(), "two records were needed");
        more(&mut trims, 4);
        assert!(trims.can_merge());
        more(&mut trims, 2 * 2 + MERGE - 1);
        assert!(!trims.must_merge());
        more(&mut trims, 2 * 2 + MERGE);
        assert!(trims.must_merge());
    }

    #[test]
    fn the_slots_of_merged_records_are_those_of_ranges_apart() {
        assert_eq!([1, 2, 511, 1_021].map(record_slots), [2, 2, 3, 4]);
        assert_eq!(record_slots(u32::MAX), (RANGES as u32).div_ceil(ENTRIES as u32) + 1);
    }
}
