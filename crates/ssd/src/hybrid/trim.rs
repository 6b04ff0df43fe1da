//! Discards made durable: ranges wait in memory until a flush (or an erase) needs them on flash,
//! and are then written as trim records to a line of their own. When that line is full, a new one
//! begins with a record of all that is unmapped at that moment, and the old one is erased.

use block::DeviceError;
use nand::{Cause, Kind, NO_LPN, Oob, Payload, SlotWrite};

use super::HybridFtl;
use super::lines::{NONE, Role};
use crate::ftl::trim::{ENTRIES, TrimEntry, encode};

/// Discards not yet on flash, and where the others are.
#[derive(Clone, Debug)]
pub(super) struct Trims {
    pending: Vec<TrimEntry>,
    /// The line that takes the next record.
    pub line: u32,
    /// Lines with older records.
    pub old: Vec<u32>,
}

impl Default for Trims {
    fn default() -> Self {
        Trims { pending: Vec::new(), line: NONE, old: Vec::new() }
    }
}

impl HybridFtl {
    /// Remembers a discard of slots that were mapped.
    pub(super) fn trim(&mut self, first: u32, count: u32) -> Result<(), DeviceError> {
        let seq = self.seq;
        if let Some(last) = self.trims.pending.last_mut()
            && last.first + last.count == first
        {
            // Neighbours join if nothing was written to either in between: surely not if no number
            // was taken.
            let from = if seq == last.seq + 1 { first } else { last.first };
            let mut joined = from..first + count;
            if joined.all(|slot| self.map[slot as usize] == 0) {
                last.count += count;
                last.seq = seq;
                return Ok(());
            }
        }
        self.trims.pending.push(TrimEntry { first, count, seq });
        if self.trims.pending.len() >= ENTRIES { self.record_trims() } else { Ok(()) }
    }

    /// Writes the pending discards as records, and programs them.
    pub(super) fn record_trims(&mut self) -> Result<(), DeviceError> {
        while !self.trims.pending.is_empty() {
            let line = self.trims.line;
            let usable = line != NONE && {
                let entry = &self.lines[line as usize];
                !entry.hurt && entry.reached < self.layout.slots
            };
            if !usable {
                return self.rewrite_records();
            }
            let count = self.trims.pending.len().min(ENTRIES);
            let entries: Vec<TrimEntry> = self.trims.pending.drain(..count).collect();
            self.append_record(line, &entries)?;
            self.program_line(line)?;
            if self.lines[line as usize].hurt {
                return self.rewrite_records();
            }
        }
        Ok(())
    }

    fn append_record(&mut self, line: u32, entries: &[TrimEntry]) -> Result<(), DeviceError> {
        self.seq += 1;
        let payload =
            if self.full { Payload::Bytes(encode(entries).into()) } else { Payload::None };
        let oob = Oob { kind: Kind::Trim, lpn: NO_LPN, seq: self.seq, ..Oob::default() };
        self.append(line, SlotWrite { oob, cause: Cause::Tx, payload }, self.now)
    }

    /// Starts a line of records with all that is unmapped now: it replaces the ones before.
    pub(super) fn rewrite_records(&mut self) -> Result<(), DeviceError> {
        // What is pending is unmapped, or has been written again since.
        self.trims.pending.clear();
        let before = std::mem::replace(&mut self.trims.line, NONE);
        if before != NONE {
            self.trims.old.push(before);
        }
        loop {
            let line = self.open_line(Role::Record, NONE)?;
            self.seq += 1;
            let ranges = self.unmapped();
            // A line holds no more records than it has slots; discards beyond that are not made
            // durable: the old data is readable again after a power cut.
            for entries in ranges.chunks(ENTRIES).take(self.layout.slots as usize) {
                if !self.lines[line as usize].hurt {
                    self.append_record(line, entries)?;
                }
            }
            self.program_line(line)?;
            if self.lines[line as usize].hurt {
                self.trims.old.push(line);
                continue;
            }
            self.trims.line = line;
            break;
        }
        for old in std::mem::take(&mut self.trims.old) {
            self.seal(old);
            self.empties.push(old);
        }
        self.sweep()
    }

    /// The ranges that hold nothing now.
    fn unmapped(&self) -> Vec<TrimEntry> {
        let seq = self.seq;
        let mut ranges: Vec<TrimEntry> = Vec::new();
        let mut slot = 0;
        while slot < self.slots() {
            let rest = &self.map[slot as usize..];
            let mapped = rest.iter().take_while(|e| **e != 0).count() as u32;
            let empty = rest[mapped as usize..].iter().take_while(|e| **e == 0).count() as u32;
            if empty > 0 {
                ranges.push(TrimEntry { first: slot + mapped, count: empty, seq });
            }
            slot += mapped + empty;
        }
        ranges
    }
}
