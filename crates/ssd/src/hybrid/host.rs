//! What the layer above asks of the hybrid FTL.

use block::{BlockId, DeviceError, Ppn, Time};
use nand::{Cause, Kind, Oob, Order, Payload, ReadCause, SlotRead, SlotWrite};

use super::{HybridFtl, power};
use crate::Bug;
use crate::backend::Backend;
use crate::ftl::{POISON, SlotData, Writer, first_to_end, merge_pieces};

const PAGE: usize = 4096;

/// Pages of one die that are read together.
#[derive(Clone, Debug, Default)]
pub(super) struct Gather {
    pages: Vec<(BlockId, u32)>,
    pieces: Vec<u32>,
    slots: u32,
    /// The slot added last: its other 4 KiB pages are no further slot.
    last: u32,
    cause: Option<ReadCause>,
    at: Time,
    end: Time,
}

impl HybridFtl {
    fn slot_pages(&self) -> u32 {
        self.g.slot_bytes / PAGE as u32
    }

    /// Writes the pages of a slot whose bits are set in `mask`; missing ones are read first.
    pub fn write_unit(
        &mut self,
        ready: Time,
        slot: u32,
        mask: u32,
        pieces: &[Payload],
    ) -> Result<(), DeviceError> {
        let pages = self.slot_pages();
        let missing = pages - mask.count_ones();
        let mut ready = ready;
        if missing > 0 && self.map[slot as usize] != 0 {
            self.read_push(ready, slot, missing, ReadCause::Rmw)?;
            ready = ready.max(self.read_finish()?);
        }
        // What cannot be read takes the slot along: reads of it are errors, never zeroes.
        let lost = self.full && missing > 0 && self.is_lost(slot);
        let payload = if self.full {
            let old = || match self.map[slot as usize] {
                0 => None,
                entry => self.payload_at(Ppn(entry - 1), slot).ok(),
            };
            merge_pieces(pages, mask, &mut pieces.iter(), old)
        } else {
            Payload::None
        };
        let line = self.log_for(slot)?;
        let old = self.map[slot as usize];
        if old != 0 {
            self.clear_valid(Ppn(old - 1));
        }
        self.seq += 1;
        self.clock += 1;
        self.lines[line as usize].used = self.clock;
        let flags = if lost { POISON } else { 0 };
        let oob = Oob { kind: Kind::Data, flags, lpn: slot, seq: self.seq, ..Oob::default() };
        self.append(line, SlotWrite { oob, cause: Cause::Host, payload }, ready)?;
        if self.touched.last() != Some(&line) {
            self.touched.push(line);
        }
        self.switch_if_whole(line)
    }

    fn is_lost(&self, slot: u32) -> bool {
        let entry = self.map[slot as usize];
        entry != 0 && self.payload_at(Ppn(entry - 1), slot).is_err()
    }

    /// Adds a slot to the read being gathered; books what cannot be joined with it.
    fn read_push(
        &mut self,
        at: Time,
        slot: u32,
        pieces: u32,
        cause: ReadCause,
    ) -> Result<(), DeviceError> {
        let entry = self.map[slot as usize];
        // What is still in the controller's memory costs no flash time.
        if entry == 0 || self.assembled(Ppn(entry - 1)).is_some() {
            return Ok(());
        }
        let (block, page, _) = self.g.place(Ppn(entry - 1));
        if self.reading.cause != Some(cause) || self.reading.at < at {
            self.read_issue()?;
        }
        if let Some((last, last_page)) = self.reading.pages.last().copied() {
            if (last, last_page) == (block, page) {
                self.reading.slots += u32::from(self.reading.last != slot);
                self.reading.last = slot;
                if let Some(last) = self.reading.pieces.last_mut() {
                    *last += pieces;
                }
                return Ok(());
            }
            let next_plane = block.0 == last.0 + 1 && page == last_page;
            let same_die = self.nand.die_of(block) == self.nand.die_of(last);
            if !(self.p.multi_plane && next_plane && same_die) {
                self.read_issue()?;
            }
        }
        let batch = &mut self.reading;
        batch.pages.push((block, page));
        batch.pieces.push(pieces);
        batch.slots += 1;
        batch.last = slot;
        batch.cause = Some(cause);
        batch.at = at;
        Ok(())
    }

    fn read_issue(&mut self) -> Result<(), DeviceError> {
        let b = &mut self.reading;
        let Some(cause) = b.cause.take() else { return Ok(()) };
        let end = self.nand.read(b.at, &b.pages, &b.pieces, b.slots, cause).map_err(power)?;
        b.end = b.end.max(end);
        b.pages.clear();
        b.pieces.clear();
        b.slots = 0;
        Ok(())
    }

    fn read_finish(&mut self) -> Result<Time, DeviceError> {
        self.read_issue()?;
        Ok(std::mem::take(&mut self.reading.end))
    }

    /// The payload of a slot at its place; an error means it cannot be read.
    fn payload_at(&self, at: Ppn, slot: u32) -> Result<Payload, ()> {
        let (oob, payload) = match self.assembled(at) {
            Some((line, index)) => {
                let slot = &self.lines[line as usize].slots[index];
                (&slot.oob, &slot.payload)
            }
            None => match self.nand.slot(at) {
                SlotRead::Good(oob, payload) => (oob, payload),
                SlotRead::Blank | SlotRead::DataRot(_) | SlotRead::Unreadable => return Err(()),
            },
        };
        if self.is_newest(oob, slot) && oob.flags & POISON == 0 {
            Ok(payload.clone())
        } else {
            Err(())
        }
    }

    fn program_touched(&mut self) -> Result<(), DeviceError> {
        for i in 0..self.touched.len() {
            let line = self.touched[i];
            self.program_line(line)?;
        }
        self.mend()
    }
}

impl Backend for HybridFtl {
    const REAL: bool = true;

    fn unit_pages(&self) -> u32 {
        self.p.unit_pages
    }
    fn read_only(&self) -> Option<&'static str> {
        self.read_only
    }
    fn mapped(&self, page: u32) -> bool {
        self.map[(page / self.slot_pages()) as usize] != 0
    }
    fn read(&mut self, at: Time, page: u32, cause: ReadCause) -> Result<(), DeviceError> {
        self.read_push(at, page / self.slot_pages(), 1, cause)
    }
    fn read_end(&mut self) -> Result<Time, DeviceError> {
        self.read_finish()
    }
    fn data(&self, page: u32) -> SlotData {
        let (slot, piece) = (page / self.slot_pages(), (page % self.slot_pages()) as usize);
        let entry = self.map[slot as usize];
        if entry == 0 {
            return SlotData::Unmapped;
        }
        if !self.full {
            return SlotData::Untracked;
        }
        SlotData::of(&self.nand, self.payload_at(Ppn(entry - 1), slot), piece)
    }
    fn write(
        &mut self,
        ready: Time,
        unit: u32,
        mask: u32,
        pieces: &[Payload],
        _writer: Writer,
    ) -> Result<(), DeviceError> {
        self.write_unit(ready, unit, mask, pieces)
    }
    /// Takes effect in the map at once; durable at the next flush.
    fn discard(&mut self, first: u32, count: u32) -> Result<(), DeviceError> {
        let last = (first + count).min(self.slots());
        let mut any = false;
        for slot in first..last {
            let entry = std::mem::take(&mut self.map[slot as usize]);
            if entry != 0 {
                self.clear_valid(Ppn(entry - 1));
                any = true;
            }
        }
        if any && !self.has_bug(Bug::TrimLost) {
            self.seq += 1;
            self.trim(first, last - first)?;
        }
        self.sweep()
    }
    /// Puts everything written so far on flash, pending discards too; returns when it is there.
    fn sync(&mut self) -> Result<Time, DeviceError> {
        loop {
            self.record_trims()?;
            self.program_assemblies(u64::MAX)?;
            self.protect_pairs()?;
            if self.hurt.is_empty() {
                break;
            }
            self.mend()?;
        }
        if self.has_bug(Bug::AckBeforeDrain) {
            return Ok(self.now);
        }
        let told = self.nand.sched_mut().tell_programs();
        Ok(self.now.max(self.nand.programs_end()).max(told))
    }
    /// Programs what the request being served has written; when that, and what it was moved with,
    /// is done.
    fn through(&mut self) -> Result<Time, DeviceError> {
        self.program_touched()?;
        let sched = self.nand.sched_mut();
        Ok(self.booked.iter().map(|ticket| sched.tell(*ticket)).fold(self.now, Time::max))
    }
    fn press_nobody(&mut self, limit: u32) {
        if self.nand.timing().order == Order::InOrder {
            self.back_pressure(limit);
        } else {
            self.forget_staged();
        }
    }
    fn back_pressure(&mut self, limit: u32) -> Time {
        if self.nand.timing().order == Order::ReadFirst {
            return first_to_end(&mut self.staged, limit, self.nand.sched_mut(), self.now);
        }
        let mut when = Time::ZERO;
        while self.staged.len() > limit as usize {
            if let Some(ticket) = self.staged.pop_front() {
                when = when.max(self.nand.sched_mut().tell(ticket));
            }
        }
        self.forget_staged();
        when
    }
}

impl HybridFtl {
    /// What has ended need not be remembered.
    fn forget_staged(&mut self) {
        while self.staged.front().is_some_and(|t| self.nand.sched().peek(*t) <= self.now) {
            self.staged.pop_front();
        }
    }
}
