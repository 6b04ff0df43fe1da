//! Discards made durable: ranges wait in RAM until a flush (or an erase) needs them on flash, and
//! are then written as trim records.
//!
//! A record stays valid until a checkpoint covers it, or none of its ranges has a slot that is
//! still unmapped. Entries keep the sequence number of their discard when a record is rewritten.

use std::collections::BTreeMap;

use block::{DeviceError, Ppn, Time};
use nand::{Cause, Kind, NO_LPN, Oob, Payload};

use super::PageFtl;
use super::head::Append;
use crate::Bug;

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
    /// The record at a place is not needed any more.
    pub fn release(&mut self, at: Ppn) {
        if let Some(entries) = self.records.remove(&at.0) {
            self.ranges -= entries.len();
        }
    }
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.records.is_empty()
    }
    /// Places of all records.
    pub fn places(&self) -> impl Iterator<Item = Ppn> {
        self.records.keys().map(|ppn| Ppn(*ppn))
    }
}

impl PageFtl {
    /// Remembers a discard of slots that were mapped.
    pub(super) fn trim(&mut self, first: u32, count: u32) -> Result<(), DeviceError> {
        let seq = self.seq;
        if let Some(last) = self.trims.pending.last().copied()
            && last.first + last.count == first
        {
            // Neighbours join; the later number covers both, as nothing was written in between
            // to either that the earlier one would have to spare.
            let mut joined = last.first..first + count;
            let gone = |slot| self.map[slot as usize] == 0 && self.tx_owner(slot).is_none();
            if joined.all(gone)
                && let Some(last) = self.trims.pending.last_mut()
            {
                last.count += count;
                last.seq = seq;
                return Ok(());
            }
        }
        if self.trims.pending.len() + self.trims.ranges >= RANGES {
            self.prune_trims();
            if self.trims.pending.len() + self.trims.ranges >= RANGES {
                return Ok(());
            }
        }
        self.trims.pending.push(TrimEntry { first, count, seq });
        if self.trims.pending.len() >= ENTRIES { self.record_trims() } else { Ok(()) }
    }

    /// Writes the pending discards as records.
    pub(super) fn record_trims(&mut self) -> Result<(), DeviceError> {
        if self.trims.pending.is_empty() {
            return Ok(());
        }
        if self.trims.records.len() >= 2 * self.trims.merged + MERGE {
            self.merge_trims();
        }
        while !self.trims.pending.is_empty() {
            let count = self.trims.pending.len().min(ENTRIES);
            let entries: Vec<TrimEntry> = self.trims.pending.drain(..count).collect();
            self.write_trim_record(0, entries, self.now)?;
        }
        Ok(())
    }

    /// Says again, in as few entries as possible, what all records say of slots that are unmapped
    /// now. Discards of the same slots, flush after flush, would otherwise fill the drive: each
    /// record lives as long as one of its slots stays unmapped. The old records are not valid any
    /// more, but no line of them is erased before the new ones are on flash.
    pub(super) fn merge_trims(&mut self) {
        let records = std::mem::take(&mut self.trims.records);
        let mut all = std::mem::take(&mut self.trims.pending);
        all.extend(records.values().flatten());
        for at in records.keys() {
            self.clear_valid(Ppn(*at));
        }
        self.trims.ranges = 0;
        all.sort_unstable_by_key(|entry| entry.first);
        self.seq += 1;
        let seq = self.seq;
        // Slots before this one have been looked at.
        let mut next = 0;
        let owned = self.tx.as_ref().is_some_and(|tx| tx.owns_any());
        for entry in &all {
            for slot in entry.first.max(next)..entry.first + entry.count {
                next = slot + 1;
                if self.map[slot as usize] != 0 {
                    continue;
                }
                if owned && self.tx_owner(slot).is_some() {
                    // The transaction's version is newer than the discard, and must stay so.
                    let here = all.iter().filter(|e| (e.first..e.first + e.count).contains(&slot));
                    let seq = here.map(|e| e.seq).max().unwrap_or(entry.seq);
                    self.trims.pending.push(TrimEntry { first: slot, count: 1, seq });
                    continue;
                }
                match self.trims.pending.last_mut() {
                    Some(last) if last.first + last.count == slot && last.seq == seq => {
                        last.count += 1;
                    }
                    _ => self.trims.pending.push(TrimEntry { first: slot, count: 1, seq }),
                }
            }
        }
        self.trims.merged = self.trims.pending.len().div_ceil(ENTRIES);
    }

    fn write_trim_record(
        &mut self,
        head: usize,
        entries: Vec<TrimEntry>,
        ready: Time,
    ) -> Result<(), DeviceError> {
        self.seq += 1;
        let oob = Oob { kind: Kind::Trim, lpn: NO_LPN, seq: self.seq, ..Oob::default() };
        // What it says may be a transaction's discard: not before that is known to be committed.
        self.append_trims(head, entries, oob, ready.max(self.tx_proven()))
    }

    pub(super) fn append_trims(
        &mut self,
        head: usize,
        entries: Vec<TrimEntry>,
        oob: Oob,
        ready: Time,
    ) -> Result<(), DeviceError> {
        let payload =
            if self.full { Payload::Bytes(encode(&entries).into()) } else { Payload::None };
        self.trims.ranges += entries.len();
        self.trims.arriving = Some(Arriving::New(entries));
        self.append(head, Append { oob, cause: Cause::Tx, payload, ready }).map(|_| ())
    }

    /// Cleaning met a trim record: its live entries are written again.
    pub(super) fn move_trim_record(&mut self, from: Ppn, ready: Time) -> Result<(), DeviceError> {
        self.clear_valid(from);
        let Some(mut entries) = self.trims.records.remove(&from.0) else { return Ok(()) };
        self.trims.ranges -= entries.len();
        entries.retain(|entry| self.is_live(entry));
        if entries.is_empty() || self.has_bug(Bug::TxTrimDropped) {
            return Ok(());
        }
        self.write_trim_record(self.gc_heads.0, entries, ready)
    }

    pub(super) fn is_live(&self, entry: &TrimEntry) -> bool {
        self.map[entry.first as usize..(entry.first + entry.count) as usize].contains(&0)
    }

    /// Drops entries whose slots have all been written again.
    fn prune_trims(&mut self) {
        let mut records = std::mem::take(&mut self.trims.records);
        for entries in records.values_mut() {
            let before = entries.len();
            entries.retain(|entry| self.is_live(entry));
            self.trims.ranges -= before - entries.len();
        }
        records.retain(|at, entries| {
            if entries.is_empty() {
                self.clear_valid(Ppn(*at));
            }
            !entries.is_empty()
        });
        self.trims.records = records;
    }

    /// A checkpoint covers every discard up to now.
    pub(super) fn forget_trims(&mut self) {
        let records = std::mem::take(&mut self.trims.records);
        for at in records.keys() {
            self.clear_valid(Ppn(*at));
        }
        self.trims.pending.clear();
        self.trims.ranges = 0;
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
