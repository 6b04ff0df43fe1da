//! Appending to lines, and programming what has been assembled.

use block::{BlockId, DeviceError, Time};
use nand::{
    BlockHeader, Cause, Kind, NO_LPN, NandError, Oob, PageProgram, PageTypes, Payload, SlotWrite,
};

use super::lines::{Line, NONE, Role};
use super::{HybridFtl, power};
use crate::Bug;

impl HybridFtl {
    /// Gives a slot the next position of a line; data is current from here on. A group is
    /// programmed when it is full. If that fails the line is marked `hurt`, and its assembly stays
    /// in memory until it has been moved.
    pub(super) fn append(
        &mut self,
        line: u32,
        slot: SlotWrite,
        ready: Time,
    ) -> Result<(), DeviceError> {
        let position = self.lines[line as usize].reached;
        assert!(position < self.layout.slots, "line {line} is full");
        debug_assert!(!self.lines[line as usize].hurt, "line {line} has failed");
        if self.lines[line as usize].slots.is_empty() {
            self.assemblies += 1;
            self.open_assemblies.insert(self.assemblies, line);
            let entry = &mut self.lines[line as usize];
            entry.assembly = self.assemblies;
            entry.ready = entry.floor;
        }
        let at = self.layout.ppn(&self.g, line, position);
        let slots = self.layout.slots;
        let entry = &mut self.lines[line as usize];
        entry.ready = entry.ready.max(ready);
        entry.reached += 1;
        let data = slot.oob.kind == Kind::Data;
        if slot.oob.kind != Kind::Padding {
            entry.data_end = entry.reached;
        }
        let own = data
            && entry.owner != NONE
            && u64::from(slot.oob.lpn)
                == u64::from(entry.owner) * u64::from(slots) + u64::from(position);
        entry.sequential &= own;
        if data {
            entry.valid += 1;
            self.mapped_total += 1;
            self.map[slot.oob.lpn as usize] = at.0 + 1;
            if self.full {
                self.newest[slot.oob.lpn as usize] = slot.oob.seq;
            }
        }
        entry.slots.push(slot);
        let full = entry.reached.is_multiple_of(self.layout.group);
        if full { self.program_line(line) } else { Ok(()) }
    }

    /// Programs what a line has assembled, padded to whole pages (one-shot: whole word lines).
    pub(super) fn program_line(&mut self, line: u32) -> Result<(), DeviceError> {
        let spp = self.g.slots_per_page as usize;
        let unit = if self.nand.timing().one_shot { self.layout.group } else { spp as u32 };
        let entry = &mut self.lines[line as usize];
        if entry.slots.is_empty() || entry.hurt {
            return Ok(());
        }
        let end = entry.reached.next_multiple_of(unit);
        if end > entry.reached {
            entry.sequential = false;
            let missing = (end - entry.reached) as usize;
            entry.slots.resize(entry.slots.len() + missing, padding());
            entry.reached = end;
        }
        let mut slots = std::mem::take(&mut entry.slots);
        let (first, ready) = (entry.flushed, entry.ready.max(self.now));
        let header = BlockHeader { line, opened: entry.opened, epoch: entry.epoch };
        let page = |i: usize| self.layout.place(line, first + (i * spp) as u32).0;
        let result = if slots.len() == spp {
            let one = [PageProgram { block: page(0), slots: &slots, header }];
            self.nand.program(ready, &one, false)
        } else {
            let pages: Vec<PageProgram<'_>> = slots
                .chunks_exact(spp)
                .enumerate()
                .map(|(i, slots)| PageProgram { block: page(i), slots, header })
                .collect();
            self.nand.program(ready, &pages, false)
        };
        match result {
            Ok(done) => {
                if slots.iter().any(|s| s.cause == Cause::Host) {
                    self.staged.push_back(done.ticket);
                }
                self.booked.push(done.ticket);
                slots.clear();
                let entry = &mut self.lines[line as usize];
                entry.flushed = entry.reached;
                entry.slots = slots;
                self.open_assemblies.remove(&entry.assembly);
                Ok(())
            }
            Err(NandError::ProgramFailed(block, known)) => {
                self.lines[line as usize].slots = slots;
                self.program_failed(line, block, known)
            }
            Err(error) => Err(power(error)),
        }
    }

    /// The block is marked bad; the slots stay in memory and the line is moved before anything
    /// else happens.
    fn program_failed(
        &mut self,
        line: u32,
        block: BlockId,
        known: Time,
    ) -> Result<(), DeviceError> {
        if !self.has_bug(Bug::ReuseBadBlock) {
            self.nand.mark_bad(self.now, block).map_err(power)?;
            self.bad_blocks += 1;
        }
        let entry = &mut self.lines[line as usize];
        entry.hurt = true;
        entry.ready = known;
        self.hurt.push(line);
        Ok(())
    }

    /// A line takes nothing more.
    pub(super) fn seal(&mut self, line: u32) {
        let entry = &mut self.lines[line as usize];
        let was_open = std::mem::replace(&mut entry.open, false);
        let (owner, empty) = (entry.owner, entry.valid == 0);
        if self.sw == line {
            self.sw = NONE;
        }
        if self.rw == line {
            self.rw = NONE;
        }
        if owner != NONE && self.log_of.get(owner as usize) == Some(&line) {
            self.log_of[owner as usize] = NONE;
        }
        if was_open && empty {
            self.empties.push(line);
        }
    }

    /// Takes a free line for a use.
    pub(super) fn open_line(&mut self, role: Role, owner: u32) -> Result<u32, DeviceError> {
        while self.free.count() == 0 {
            self.force_erase()?;
        }
        // Data lines live long: they take the lines erased most.
        let least = role != Role::Building;
        let line = self.free.take(least).expect("counted above");
        self.epoch += 1;
        let slots = std::mem::take(&mut self.lines[line as usize].slots);
        self.lines[line as usize] = Line {
            owner,
            open: true,
            sequential: owner != NONE,
            opened: self.seq,
            epoch: self.epoch,
            used: self.clock,
            slots,
            ..Line::fresh(role)
        };
        self.free_sum += u128::from(self.free.count());
        self.free_samples += 1;
        Ok(line)
    }

    /// Programs every assembly begun up to number `bound`.
    pub(super) fn program_assemblies(&mut self, bound: u64) -> Result<(), DeviceError> {
        let lines: Vec<u32> = self.open_assemblies.range(..=bound).map(|(_, l)| *l).collect();
        for line in lines {
            self.program_line(line)?;
        }
        Ok(())
    }

    /// Whether a later program can damage an earlier page.
    pub(super) fn has_pairs(&self) -> bool {
        let timing = self.nand.timing();
        !timing.one_shot && timing.page_types != PageTypes::Uniform
    }

    /// Completes the word lines of lines that can still be appended to, so that no later program
    /// can damage a page that is on flash now.
    pub(super) fn protect_pairs(&mut self) -> Result<(), DeviceError> {
        if !self.has_pairs() || self.has_bug(Bug::IgnoreTornPair) {
            return Ok(());
        }
        for line in 0..self.layout.len() {
            let entry = &self.lines[line as usize];
            if !entry.open || entry.hurt || entry.data_end == 0 {
                continue;
            }
            let row = self.layout.row();
            let last = (entry.data_end - 1) / row;
            let pages = self.g.pages_per_block;
            // The row before may be paired with a later page than the last row itself.
            let end = (last.saturating_sub(6)..=last)
                .map(|page| self.nand.timing().word_line_end(page, pages))
                .max();
            let end = (end.unwrap_or(last) + 1) * row;
            let before = self.now;
            while self.lines[line as usize].reached < end && !self.lines[line as usize].hurt {
                self.append(line, padding(), before)?;
            }
            self.program_line(line)?;
        }
        Ok(())
    }
}

pub(super) fn padding() -> SlotWrite {
    SlotWrite {
        oob: Oob { kind: Kind::Padding, lpn: NO_LPN, ..Oob::default() },
        cause: Cause::Padding,
        payload: Payload::None,
    }
}
