//! Erases wait until they are safe, and bad blocks are replaced when their line is erased.
//!
//! An empty line may be erased when everything that made its slots old is on flash. What a merge
//! moved is programmed when the merge ends; a newer version written by the host, or a discard,
//! may still be in memory, and is programmed first where that can be.

use block::{BlockId, DeviceError, Time};
use nand::{Mark, NandError};

use super::lines::{Line, NONE, Role};
use super::{HybridFtl, RECORDS, SPARE, power};
use crate::Bug;

/// A line that waits for its erase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    line: u32,
    /// Assemblies up to this one must be programmed, and their word lines complete; 0 = none.
    assembly: u64,
    /// The time all programs that were booked when it was set end by, and which they are.
    safe: Option<(Time, Mark)>,
}

impl Waiting {
    /// A line found empty at power-on: it only has to be erased before it is used.
    pub fn after_mount(line: u32) -> Waiting {
        Waiting { line, assembly: 0, safe: Some((Time::ZERO, Mark::default())) }
    }
}

impl HybridFtl {
    /// Sends the lines that lost their last current slot to be erased.
    pub(super) fn sweep(&mut self) -> Result<(), DeviceError> {
        while let Some(line) = self.empties.pop() {
            let entry = &self.lines[line as usize];
            let (role, owner) = (entry.role, entry.owner);
            if entry.valid > 0 || entry.open {
                continue;
            }
            match role {
                Role::Data => {
                    if self.data_of[owner as usize] == line {
                        self.data_of[owner as usize] = NONE;
                    }
                }
                Role::Log => self.logs.retain(|l| *l != line),
                Role::Building | Role::Record => {}
                Role::Free | Role::Erasing | Role::Retired => continue,
            }
            self.queue_erase(line)?;
        }
        Ok(())
    }

    fn queue_erase(&mut self, line: u32) -> Result<(), DeviceError> {
        let entry = &mut self.lines[line as usize];
        entry.role = Role::Erasing;
        // What it still has in memory was superseded before it was programmed.
        entry.slots.clear();
        entry.reached = entry.flushed;
        let (owner, assembly) = (entry.owner, entry.assembly);
        if self.open_assemblies.get(&assembly) == Some(&line) {
            self.open_assemblies.remove(&assembly);
        }
        if self.has_bug(Bug::EraseBeforeCopies) {
            return self.erase_line(line, self.now);
        }
        // Discards of this line's slots must be known before it goes: without them power-on would
        // bring back something even older.
        self.record_trims()?;
        let concerns = |l: &Line| l.owner == NONE || owner == NONE || l.owner == owner;
        let in_memory = self.open_assemblies.values().any(|l| concerns(&self.lines[*l as usize]));
        // Where something newer lies on a line that goes on, its word lines must be complete.
        let exposed = |l: &Line| l.open && l.data_end > 0 && concerns(l);
        let exposed = self.has_pairs() && self.lines.iter().any(exposed);
        let assembly = if in_memory || exposed { self.assemblies } else { 0 };
        let safe = (assembly == 0).then(|| self.programs_end());
        self.waiting.push_back(Waiting { line, assembly, safe });
        Ok(())
    }

    fn programs_end(&self) -> (Time, Mark) {
        (self.nand.programs_end(), self.nand.sched().mark(0))
    }

    /// Books the erases that have become safe by `now`.
    pub(super) fn settle_erases(&mut self, now: Time) -> Result<(), DeviceError> {
        while let Some(front) = self.waiting.front().copied() {
            if front.safe.is_none() {
                if self.open_assemblies.range(..=front.assembly).next().is_some() {
                    return Ok(());
                }
                // Completing word lines costs padding: not before the line is needed.
                if self.has_pairs() {
                    return Ok(());
                }
                let safe = self.programs_end();
                if let Some(front) = self.waiting.front_mut() {
                    front.safe = Some(safe);
                }
            }
            let Some((safe, programs)) = self.waiting.front().and_then(|w| w.safe) else {
                return Ok(());
            };
            // A program that a read has moved ends later than booked.
            if safe > now || self.nand.ended_by(programs, safe) > now {
                return Ok(());
            }
            self.waiting.pop_front();
            self.erase_line(front.line, now)?;
        }
        Ok(())
    }

    /// Books a waiting erase now, for the time it becomes safe.
    pub(super) fn force_erase(&mut self) -> Result<(), DeviceError> {
        // What is in memory because its program failed cannot be programmed where it is.
        let stuck = |w: &Waiting| {
            let mut begun = self.open_assemblies.range(..=w.assembly);
            w.safe.is_none() && begun.any(|(_, line)| self.lines[*line as usize].hurt)
        };
        let Some(at) = self.waiting.iter().position(|w| !stuck(w)) else {
            return Err(DeviceError::NoSpace("every line is in use and none can be erased"));
        };
        let waiting = self.waiting.remove(at).expect("found above");
        if waiting.safe.is_none() {
            let hurt = self.hurt.len();
            self.program_assemblies(waiting.assembly)?;
            self.protect_pairs()?;
            if self.hurt.len() > hurt {
                // A program failed: what it held is still only in memory.
                self.waiting.push_back(Waiting { assembly: self.assemblies, ..waiting });
                return Ok(());
            }
        }
        // The end of every program is asked for, so none of them may be moved any more.
        let told = self.nand.sched_mut().tell_programs();
        let safe = self.nand.programs_end().max(told).max(self.now);
        self.erase_line(waiting.line, safe)
    }

    /// Erases a line's blocks; bad ones are replaced. A line that lacks a block is retired.
    fn erase_line(&mut self, line: u32, at: Time) -> Result<(), DeviceError> {
        let mut whole = true;
        for member in 0..self.layout.members(line).len() as u32 {
            let mut block = BlockId(self.layout.members(line)[member as usize]);
            let plane = self.g.plane_of(block);
            while !self.erase_block(block, at)? {
                match self.spares[plane as usize].pop() {
                    Some(spare) => {
                        block = BlockId(spare);
                        self.layout.replace(line, member, block);
                    }
                    None => {
                        whole = false;
                        break;
                    }
                }
            }
        }
        if whole {
            self.release(line);
        } else {
            self.retire(line);
        }
        self.check_space();
        Ok(())
    }

    /// Erases a block; false if it is bad, or has become so.
    fn erase_block(&mut self, block: BlockId, at: Time) -> Result<bool, DeviceError> {
        if self.nand.is_bad(block) && !self.has_bug(Bug::ReuseBadBlock) {
            return Ok(false);
        }
        match self.nand.erase(at, block, false) {
            Ok(_) => Ok(true),
            Err(NandError::EraseFailed(block, _)) => {
                self.nand.mark_bad(at, block).map_err(power)?;
                self.bad_blocks += 1;
                Ok(false)
            }
            Err(error) => Err(power(error)),
        }
    }

    /// Puts a line whose blocks are all erased on the free list.
    pub(super) fn release(&mut self, line: u32) {
        let erases = if self.p.wear.dynamic {
            let members = self.layout.members(line).iter();
            members.map(|m| self.nand.erases(BlockId(*m))).max().unwrap_or(0)
        } else {
            0
        };
        let slots = std::mem::take(&mut self.lines[line as usize].slots);
        self.lines[line as usize] = Line { slots, ..Line::fresh(Role::Free) };
        self.free.add(line, erases);
    }

    /// A line that lacks a block holds no logical block: its good blocks become spares.
    pub(super) fn retire(&mut self, line: u32) {
        self.lines[line as usize] = Line::fresh(Role::Retired);
        for block in self.layout.members(line).to_vec().into_iter().map(BlockId) {
            if self.layout.line_of(block) != line {
                continue;
            }
            self.layout.orphan(block);
            if !self.nand.is_bad(block) {
                self.spares[self.g.plane_of(block) as usize].push(block.0);
            }
        }
    }

    /// Fewer lines are left: first there are fewer log blocks, then the drive becomes read-only.
    pub(super) fn check_space(&mut self) {
        if self.bad_blocks == 0 || self.read_only.is_some() {
            return;
        }
        let least = if self.p.hybrid.full_assoc { 2 } else { 1 };
        let rest = self.usable_lines().saturating_sub(self.data_of.len() as u32 + SPARE + RECORDS);
        self.log_limit = self.log_limit.min(rest).max(least);
        if rest < least {
            self.read_only = Some("too many blocks are bad");
        }
    }

    /// Takes stock of the blocks at power-on. A good block whose header names another line than
    /// the one it lies in stands for a failed member of that line; what nobody claims above the
    /// lines is a spare.
    pub(super) fn adopt_blocks(&mut self) {
        let mut claims: Vec<(u32, u32, u32)> = Vec::new();
        for block in (0..self.g.blocks()).map(BlockId) {
            let home = self.layout.line_of(block);
            if self.nand.is_bad(block) {
                self.bad_blocks += 1;
                continue;
            }
            let plane = self.g.plane_of(block);
            match self.nand.header(block) {
                Some(h) if h.line != home && h.line < self.layout.len() => {
                    claims.push((h.line, plane, block.0));
                }
                _ if home == NONE => self.spares[plane as usize].push(block.0),
                _ => {}
            }
        }
        for spares in &mut self.spares {
            // Taken from the end: the lowest number first.
            spares.reverse();
        }
        for line in 0..self.layout.len() {
            let mut whole = true;
            for member in 0..self.layout.members(line).len() as u32 {
                let block = BlockId(self.layout.members(line)[member as usize]);
                let plane = self.g.plane_of(block);
                let lent =
                    self.layout.line_of(block) != line || claims.iter().any(|c| c.2 == block.0);
                if !self.nand.is_bad(block) && !lent {
                    continue;
                }
                let claim = claims.iter().position(|c| c.0 == line && c.1 == plane);
                let stand_in = match claim {
                    Some(at) => Some(claims.swap_remove(at).2),
                    // A bad block that still holds data stays until that has been moved.
                    None if !lent && self.nand.next_page(block) > 0 => continue,
                    None => self.spares[plane as usize].pop(),
                };
                match stand_in {
                    Some(new) => self.layout.replace(line, member, BlockId(new)),
                    None => whole = false,
                }
            }
            if !whole {
                self.retire_with(line, &claims);
            }
        }
        // A claim nobody honours is a spare that stood for a member which came back: unused.
        for (_, plane, block) in claims {
            if self.layout.line_of(BlockId(block)) == NONE {
                self.spares[plane as usize].push(block);
            }
        }
    }

    /// Retires a line found incomplete, but for the blocks it has lent to others.
    fn retire_with(&mut self, line: u32, claims: &[(u32, u32, u32)]) {
        for (_, _, block) in claims {
            if self.layout.line_of(BlockId(*block)) == line {
                self.layout.orphan(BlockId(*block));
            }
        }
        self.retire(line);
    }
}
