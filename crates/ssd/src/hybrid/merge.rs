//! Where a host write goes, and the merges that make room for it.

use block::{BlockId, DeviceError, Ppn, Time};
use nand::{Cause, Kind, NO_LPN, Oob, Payload, ReadCause, SlotRead, SlotWrite};

use super::append::padding;
use super::lines::{NONE, Role};
use super::{HybridFtl, power};
use crate::Bug;
use crate::ftl::POISON;

impl HybridFtl {
    /// The log line that takes the next version of a slot.
    pub(super) fn log_for(&mut self, slot: u32) -> Result<u32, DeviceError> {
        self.mend()?;
        self.sweep()?;
        let (owner, offset) = self.split(slot);
        if !self.p.hybrid.full_assoc {
            let log = self.log_of[owner as usize];
            if log != NONE {
                if self.lines[log as usize].reached < self.layout.slots {
                    return Ok(log);
                }
                self.merge_log(log)?;
            }
            let log = self.open_log(owner)?;
            self.log_of[owner as usize] = log;
            return Ok(log);
        }
        if offset == 0 {
            if self.sw != NONE {
                self.merge_log(self.sw)?;
            }
            self.sw = self.open_log(owner)?;
            return Ok(self.sw);
        }
        if self.sw != NONE {
            let sw = &self.lines[self.sw as usize];
            if sw.sequential && sw.owner == owner && sw.reached == offset {
                return Ok(self.sw);
            }
        }
        if self.rw != NONE && self.lines[self.rw as usize].reached == self.layout.slots {
            self.seal(self.rw);
            self.sweep()?;
        }
        if self.rw == NONE {
            self.rw = self.open_log(NONE)?;
        }
        Ok(self.rw)
    }

    /// Opens a log line, merging others while there are too many.
    fn open_log(&mut self, owner: u32) -> Result<u32, DeviceError> {
        let mut merged = false;
        let before = self.nand.programs_end().max(self.now);
        while self.logs.len() >= self.log_limit as usize {
            let victim = self.log_victim();
            self.gc_stats.foreground += 1;
            self.merge_log(victim)?;
            merged = true;
        }
        let mut floor = Time::ZERO;
        if merged {
            // What the merges gathered must be on flash before its place in the log is written
            // again: else a power cut could leave more lines in use than there are. So the host
            // waits for merges, and they may not be put off any more.
            let told = self.nand.sched_mut().tell_programs();
            floor = self.nand.programs_end().max(told);
            // What was booked before is not their doing.
            self.stall(floor.since(before));
        }
        let line = self.open_line(Role::Log, owner)?;
        self.lines[line as usize].floor = floor;
        self.logs.push(line);
        Ok(line)
    }

    /// The log line to merge: the one written least recently, or opened first.
    fn log_victim(&self) -> u32 {
        let logs = self.logs.iter().copied();
        let victim = if self.p.hybrid.full_assoc {
            logs.min_by_key(|l| {
                let open = *l == self.sw || *l == self.rw;
                (open, self.lines[*l as usize].epoch)
            })
        } else {
            logs.min_by_key(|l| (self.lines[*l as usize].used, *l))
        };
        victim.expect("there are log lines")
    }

    /// Merges a log line: afterwards it is a data line, or empty.
    pub(super) fn merge_log(&mut self, line: u32) -> Result<(), DeviceError> {
        let entry = &self.lines[line as usize];
        self.gc_stats.victims += 1;
        self.gc_stats.valid_at_choice += u64::from(entry.valid);
        if entry.sequential && entry.valid > 0 && !entry.hurt {
            let whole = entry.reached >= self.block_len(entry.owner);
            if if whole { self.switch(line)? } else { self.partial(line)? } {
                return self.sweep();
            }
        }
        self.evacuate(line)?;
        self.sweep()
    }

    /// After a host write: a log line that holds its logical block in order takes its place.
    pub(super) fn switch_if_whole(&mut self, line: u32) -> Result<(), DeviceError> {
        let entry = &self.lines[line as usize];
        if !entry.sequential || entry.hurt || entry.reached < self.block_len(entry.owner) {
            return Ok(());
        }
        self.merge_log(line)
    }

    fn switch(&mut self, line: u32) -> Result<bool, DeviceError> {
        self.program_line(line)?;
        if self.lines[line as usize].hurt {
            return Ok(false);
        }
        self.merge_stats.switch += 1;
        self.become_data(line);
        Ok(true)
    }

    fn partial(&mut self, line: u32) -> Result<bool, DeviceError> {
        let (owner, reached) = {
            let entry = &self.lines[line as usize];
            (entry.owner, entry.reached)
        };
        if let Some(last) = self.last_mapped(owner)
            && last >= reached
            && !self.copy(owner, reached, last, line)?
        {
            return Ok(false);
        }
        self.program_line(line)?;
        if self.lines[line as usize].hurt {
            return Ok(false);
        }
        self.merge_stats.partial += 1;
        self.become_data(line);
        Ok(true)
    }

    /// Gathers a logical block in a fresh line; false if a program failed on the way.
    fn full(&mut self, owner: u32) -> Result<bool, DeviceError> {
        if let Some(log) = self.log_of.get(owner as usize).copied()
            && log != NONE
        {
            self.seal(log);
        }
        if self.sw != NONE && self.lines[self.sw as usize].owner == owner {
            self.seal(self.sw);
        }
        let Some(last) = self.last_mapped(owner) else { return Ok(true) };
        let target = self.open_line(Role::Building, owner)?;
        if !self.copy(owner, 0, last, target)? {
            return Ok(false);
        }
        self.program_line(target)?;
        if self.lines[target as usize].hurt {
            return Ok(false);
        }
        self.merge_stats.full += 1;
        self.become_data(target);
        Ok(true)
    }

    /// A line holds all that is current of its owner and stands in the block map from now on.
    fn become_data(&mut self, line: u32) {
        let owner = self.lines[line as usize].owner;
        self.logs.retain(|l| *l != line);
        self.seal(line);
        self.lines[line as usize].role = Role::Data;
        let old = std::mem::replace(&mut self.data_of[owner as usize], line);
        debug_assert!(
            old == NONE || self.lines[old as usize].valid == 0,
            "line {old} is not empty"
        );
    }

    /// Moves everything current out of a line, by full merges of the logical blocks it belongs to.
    fn evacuate(&mut self, line: u32) -> Result<(), DeviceError> {
        self.seal(line);
        if self.lines[line as usize].role == Role::Record {
            return self.rewrite_records();
        }
        for position in 0..self.lines[line as usize].reached {
            if self.lines[line as usize].valid == 0 {
                break;
            }
            let at = self.layout.ppn(&self.g, line, position);
            let slot = self.names(at);
            if slot != NO_LPN && self.map.get(slot as usize) == Some(&(at.0 + 1)) {
                self.gather(slot)?;
            }
        }
        // Records that cannot be read do not say whose they are: the map does.
        if self.lines[line as usize].valid > 0 {
            for slot in 0..self.slots() {
                let entry = self.map[slot as usize];
                if entry > 0 && self.layout.line_of(self.g.block_of(Ppn(entry - 1))) == line {
                    self.gather(slot)?;
                }
            }
        }
        debug_assert_eq!(self.lines[line as usize].valid, 0, "line {line} is not empty");
        // It may have been empty from the start.
        self.empties.push(line);
        Ok(())
    }

    fn gather(&mut self, slot: u32) -> Result<(), DeviceError> {
        let owner = self.split(slot).0;
        while !self.full(owner)? {
            self.sweep()?;
        }
        self.sweep()
    }

    /// Moves what lines with a failed program hold.
    pub(super) fn mend(&mut self) -> Result<(), DeviceError> {
        while let Some(line) = self.hurt.pop() {
            let entry = &self.lines[line as usize];
            let used = matches!(entry.role, Role::Log | Role::Building | Role::Record);
            if used && entry.hurt {
                self.evacuate(line)?;
                self.sweep()?;
            }
        }
        Ok(())
    }

    fn last_mapped(&self, owner: u32) -> Option<u32> {
        let first = owner * self.layout.slots;
        let slots = &self.map[first as usize..(first + self.block_len(owner)) as usize];
        slots.iter().rposition(|entry| *entry != 0).map(|i| i as u32)
    }

    /// Copies the newest versions of a logical block's offsets `from..=last` to a line that has
    /// reached `from`; false if a program failed: what was not copied is where it was.
    fn copy(&mut self, owner: u32, from: u32, last: u32, to: u32) -> Result<bool, DeviceError> {
        let first = owner * self.layout.slots;
        let mut read: Option<(BlockId, u32, Time)> = None;
        for offset in from..=last {
            let slot = first + offset;
            let entry = self.map[slot as usize];
            if entry == 0 {
                self.append(to, padding(), self.now)?;
            } else {
                let at = Ppn(entry - 1);
                let (ready, cause) = match self.assembled(at) {
                    Some((line, index)) => self.taken_along(line, index),
                    None => (self.read_source(at, first + last, slot, &mut read)?, Cause::Gc),
                };
                let (oob, payload) = self.record_of(at, slot);
                self.clear_valid(at);
                self.gc_stats.pages += u64::from(cause == Cause::Gc);
                let planted = self.has_bug(Bug::GcCountedAsHost);
                let cause = if planted { Cause::Host } else { cause };
                self.append(to, SlotWrite { oob, cause, payload }, ready)?;
            }
            if self.lines[to as usize].hurt {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What a merge takes along from memory: when it is there, and whose program it is. Data of the host that
    /// was never programmed is written here for the first time, and is no copy; whoever waits for the host's
    /// programs waits for this one.
    fn taken_along(&self, line: u32, index: usize) -> (Time, Cause) {
        let entry = &self.lines[line as usize];
        // Behind a failed program it is moved, as what the same line holds on flash is.
        let cause = if entry.hurt { Cause::Gc } else { entry.slots[index].cause };
        (entry.ready, cause)
    }

    /// Reads the page of a source, and with it the slots that follow from the same page.
    fn read_source(
        &mut self,
        at: Ppn,
        last: u32,
        slot: u32,
        read: &mut Option<(BlockId, u32, Time)>,
    ) -> Result<Time, DeviceError> {
        let (block, page, _) = self.g.place(at);
        if let Some((b, p, end)) = read
            && (*b, *p) == (block, page)
        {
            return Ok(*end);
        }
        let here = |entry: &u32| {
            *entry > 0 && {
                let (b, p, _) = self.g.place(Ppn(entry - 1));
                (b, p) == (block, page)
            }
        };
        let count =
            self.map[slot as usize..=last as usize].iter().take_while(|e| here(e)).count() as u32;
        let pieces = [count * (self.g.slot_bytes / 4096)];
        let end = self
            .nand
            .read(self.now, &[(block, page)], &pieces, count, ReadCause::Gc)
            .map_err(power)?;
        *read = Some((block, page, end));
        Ok(end)
    }

    /// Where a slot lies in memory, if its page has not been programmed: line and index.
    pub(super) fn assembled(&self, at: Ppn) -> Option<(u32, usize)> {
        let (line, position) = self.layout.position(&self.g, at);
        if line == NONE {
            return None;
        }
        let index = position.checked_sub(self.lines[line as usize].flushed)? as usize;
        (index < self.lines[line as usize].slots.len()).then_some((line, index))
    }

    /// The logical number that the record of a place names.
    pub(super) fn names(&self, at: Ppn) -> u32 {
        match self.assembled(at) {
            Some((line, index)) => self.lines[line as usize].slots[index].oob.lpn,
            None => self.nand.lpn(at),
        }
    }

    /// Whether a record is that of the newest version of a slot.
    pub(super) fn is_newest(&self, oob: &Oob, slot: u32) -> bool {
        oob.kind == Kind::Data && oob.lpn == slot && oob.seq == self.newest[slot as usize]
    }

    /// What a copy of the slot at a place consists of. Data that cannot be read is marked as lost.
    fn record_of(&self, at: Ppn, slot: u32) -> (Oob, Payload) {
        if let Some((line, index)) = self.assembled(at) {
            let slot = &self.lines[line as usize].slots[index];
            return (slot.oob, slot.payload.clone());
        }
        let lost = Oob { kind: Kind::Data, flags: POISON, lpn: slot, ..Oob::default() };
        if !self.full {
            return (Oob { flags: 0, ..lost }, Payload::None);
        }
        match self.nand.slot(at) {
            SlotRead::Good(oob, payload) if self.is_newest(oob, slot) => (*oob, payload.clone()),
            SlotRead::DataRot(oob) if self.is_newest(oob, slot) => {
                (Oob { flags: oob.flags | POISON, ..*oob }, Payload::None)
            }
            _ => (Oob { seq: self.newest[slot as usize], ..lost }, Payload::None),
        }
    }
}
