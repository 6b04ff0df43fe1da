//! Discards made durable: ranges wait in RAM until a flush (or an erase) needs them on flash, and
//! are then written as trim records.
//!
//! A record stays valid until a checkpoint covers it, or none of its ranges has a slot that is
//! still unmapped. Entries keep the sequence number of their discard when a record is rewritten.
//! What is remembered is in `trim.rs`; here it meets the map and the heads.

use block::{DeviceError, Ppn, Time};
use nand::{Cause, Kind, NO_LPN, Oob, Payload};

use super::PageFtl;
use super::head::Append;
use super::trim::{TrimEntry, encode};
use crate::Bug;

impl PageFtl {
    /// Remembers a discard of slots that were mapped.
    pub(super) fn trim(&mut self, first: u32, count: u32) -> Result<(), DeviceError> {
        let seq = self.clock.seq();
        if let Some(last) = self.trims.last()
            && last.first + last.count == first
        {
            // Neighbours join; the later number covers both, as nothing was written in between
            // to either that the earlier one would have to spare. If no number was taken between the
            // two, nothing can have been.
            let owned = self.tx.as_ref().is_some_and(|tx| tx.owns_any());
            let from = if seq == last.seq + 1 && !owned { first } else { last.first };
            let mut joined = from..first + count;
            let gone = |slot| self.map.entry(slot) == 0 && self.tx_owner(slot).is_none();
            if joined.all(gone) {
                self.trims.extend_last(count, seq);
                return Ok(());
            }
        }
        if self.trims.is_full() {
            self.prune_trims();
            if self.trims.is_full() {
                return Ok(());
            }
        }
        self.trims.wait(TrimEntry { first, count, seq });
        if self.trims.fills_record() { self.record_trims() } else { Ok(()) }
    }

    /// Writes the pending discards as records.
    pub(super) fn record_trims(&mut self) -> Result<(), DeviceError> {
        if !self.trims.has_waiting() {
            return Ok(());
        }
        if self.trims.must_merge() {
            self.merge_trims();
        }
        while let Some(entries) = self.trims.next_record() {
            self.write_trim_record(0, entries, self.now)?;
        }
        Ok(())
    }

    /// Says again, in as few entries as possible, what all records say of slots that are unmapped
    /// now. Discards of the same slots, flush after flush, would otherwise fill the drive: each
    /// record lives as long as one of its slots stays unmapped. The old records are not valid any
    /// more, but no line of them is erased before the new ones are on flash.
    pub(super) fn merge_trims(&mut self) {
        let (places, mut all) = self.trims.take_all();
        for at in places {
            self.clear_valid(at);
        }
        all.sort_unstable_by_key(|entry| entry.first);
        let seq = self.clock.next_seq();
        // Slots before this one have been looked at.
        let mut next = 0;
        let owned = self.tx.as_ref().is_some_and(|tx| tx.owns_any());
        for entry in &all {
            let end = entry.first + entry.count;
            let mut from = entry.first.max(next);
            next = end.max(next);
            while !owned && from < end {
                from += self.map.run(from..end, true);
                let empty = self.map.run(from..end, false);
                if empty > 0 {
                    match self.trims.last() {
                        Some(last) if last.first + last.count == from && last.seq == seq => {
                            self.trims.extend_last(empty, seq);
                        }
                        _ => self.trims.wait(TrimEntry { first: from, count: empty, seq }),
                    }
                }
                from += empty;
            }
            for slot in from..end {
                if self.map.entry(slot) != 0 {
                    continue;
                }
                if self.tx_owner(slot).is_some() {
                    // The transaction's version is newer than the discard, and must stay so.
                    let here = all.iter().filter(|e| (e.first..e.first + e.count).contains(&slot));
                    let seq = here.map(|e| e.seq).max().unwrap_or(entry.seq);
                    self.trims.wait(TrimEntry { first: slot, count: 1, seq });
                    continue;
                }
                match self.trims.last() {
                    Some(last) if last.first + last.count == slot && last.seq == seq => {
                        self.trims.extend_last(1, seq);
                    }
                    _ => self.trims.wait(TrimEntry { first: slot, count: 1, seq }),
                }
            }
        }
        self.trims.set_merged();
    }

    fn write_trim_record(
        &mut self,
        head: usize,
        entries: Vec<TrimEntry>,
        ready: Time,
    ) -> Result<(), DeviceError> {
        let seq = self.clock.next_seq();
        let oob = Oob { kind: Kind::Trim, lpn: NO_LPN, seq, ..Oob::default() };
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
        self.trims.arrives(entries);
        self.append(head, Append { oob, cause: Cause::Tx, payload, ready }).map(|_| ())
    }

    /// Cleaning met a trim record: its live entries are written again.
    pub(super) fn move_trim_record(&mut self, from: Ppn, ready: Time) -> Result<(), DeviceError> {
        let head = self.heads.of_cleaning().0;
        let said = self.trims.entries(from);
        if said.iter().any(|entry| self.is_live(entry)) && !self.has_bug(Bug::TxTrimDropped) {
            self.find_place(head, NO_LPN)?;
        }
        self.clear_valid(from);
        let Some(mut entries) = self.trims.take(from) else { return Ok(()) };
        entries.retain(|entry| self.is_live(entry));
        if entries.is_empty() || self.has_bug(Bug::TxTrimDropped) {
            return Ok(());
        }
        self.write_trim_record(head, entries, ready)
    }

    /// Whether a slot of an entry is still unmapped.
    pub(super) fn is_live(&self, entry: &TrimEntry) -> bool {
        self.map.lacks_any(entry.first..entry.first + entry.count)
    }

    /// Drops entries whose slots have all been written again.
    fn prune_trims(&mut self) {
        let map = &self.map;
        let left = self.trims.prune(|entry| map.lacks_any(entry.first..entry.first + entry.count));
        for at in left {
            self.clear_valid(at);
        }
    }

    /// A checkpoint covers every discard up to now.
    pub(super) fn forget_trims(&mut self) {
        let (places, _) = self.trims.take_all();
        for at in places {
            self.clear_valid(at);
        }
    }
}
