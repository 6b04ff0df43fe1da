//! Erases wait until they are safe.
//!
//! A collected line may be erased when everything that made its slots old is on flash: copies,
//! newer versions written by the host, discards. A power cut before that must still find the
//! slots here. Each waiting line passes three stages, in order of arrival (the lists themselves are in `erases.rs`):
//! 1. every page that was being assembled when it was queued has been programmed;
//! 2. no later program can damage one of those pages (word lines are complete);
//! 3. all programs booked by then have ended.

use block::{BlockId, DeviceError, Time};
use nand::NandError;

use super::PageFtl;
use super::lines::NONE;
use crate::Bug;

impl PageFtl {
    /// When at least one free line is empty on flash, whatever a power cut leaves; the present
    /// if that is so already. Programs of anything but copies wait for it: a power cut then
    /// always leaves a line to clean into. (A line of nothing but copies whose originals are
    /// there still counts as empty at power-on.) With no free line at all there is nothing to
    /// wait for.
    pub(super) fn cushion(&mut self) -> Time {
        if !self.erases.any_booked() {
            return Time::ZERO;
        }
        let nand = &mut self.nand;
        let ended_by = |mark, end| nand.ended_by(mark, end);
        let Some((first, erases)) = self.erases.first_end(self.now, self.free.count(), ended_by)
        else {
            return Time::ZERO;
        };
        // Somebody relies on this end now: it must not move any more.
        nand.rely(erases);
        first
    }

    /// Queues an empty line for its erase.
    pub(super) fn queue_erase(&mut self, line: u32) -> Result<(), DeviceError> {
        self.lines.emptied(line);
        if self.has_bug(Bug::EraseBeforeCopies) {
            return self.erase_line(line, self.now);
        }
        // Discards of this line's slots must be known before it goes: without them the scan at
        // power-on would bring back something even older.
        self.record_trims()?;
        self.keep_evidence(line)?;
        let assembly = self.heads.assemblies();
        self.erases.push(line, assembly);
        self.settle_erases(self.now)
    }

    /// Books the erases that have become safe by `now`.
    pub(super) fn settle_erases(&mut self, now: Time) -> Result<(), DeviceError> {
        while let Some(front) = self.erases.front() {
            // Lines that power-on found empty are erased as they are needed: all at once, they would
            // keep every die from the first requests. A power cut finds them as this power-on did:
            // whatever outdates their slots is on flash, and stays there, or in what is written
            // next, like that of any outdated slot of a line in use.
            if front.found && self.free.count() > self.thresholds().start {
                return Ok(());
            }
            if !front.proven {
                self.prove_waiting()?;
                continue;
            }
            if front.safe.is_none() {
                if self.heads.any_waits_for(front.assembly) {
                    return Ok(());
                }
                // Completing word lines costs padding: not before the line is needed.
                if self.has_pairs() && self.free.count() > self.thresholds().start {
                    return Ok(());
                }
                self.protect_pairs()?;
                self.mark_safe();
            }
            let Some((safe, programs)) = self.erases.front().and_then(|w| w.safe) else {
                return Ok(());
            };
            // A program that a read has moved ends later than booked.
            if safe > now || self.nand.ended_by(programs, safe) > now {
                return Ok(());
            }
            self.erases.pop();
            self.erase_line(front.line, now)?;
        }
        Ok(())
    }

    fn mark_safe(&mut self) {
        let safe = (self.nand.programs_end(), self.nand.sched().mark(0));
        self.erases.set_safe(safe);
    }

    /// Books the oldest waiting erase now, for the time it becomes safe.
    pub(super) fn force_erase(&mut self) -> Result<(), DeviceError> {
        if self.erases.front().is_some_and(|front| !front.proven) {
            self.prove_waiting()?;
        }
        let Some(front) = self.erases.front() else { return Ok(()) };
        if front.safe.is_none() {
            for head in 0..self.heads.len() {
                if self.heads.waits_for(head, front.assembly) {
                    self.program_head(head)?;
                }
            }
            self.protect_pairs()?;
        }
        // The end of every program is asked for, so none of them may be moved any more.
        let told = self.nand.sched_mut().tell_programs();
        let safe = self.nand.programs_end().max(told).max(self.now);
        self.erases.pop();
        self.erase_line(front.line, safe)
    }

    /// After power-on: lines that prove commits which no state record covers go to the end of the
    /// queue, behind the others, and wait for one record that covers them all. There is another
    /// line: the one that was empty, or held nothing but copies, when the last commit was
    /// programmed proves nothing.
    pub(super) fn sort_waiting(&mut self) {
        let mut erases = std::mem::take(&mut self.erases);
        erases.sort(|line| !self.holds_evidence(line));
        self.erases = erases;
    }

    fn prove_waiting(&mut self) -> Result<(), DeviceError> {
        let open = self.erases.take_unproven();
        let needed = open.iter().map(|entry| entry.line).find(|line| self.holds_evidence(*line));
        let written = needed.map_or(Ok(()), |line| self.keep_evidence(line));
        for mut entry in open {
            entry.proven = written.is_ok();
            entry.assembly = self.heads.assemblies();
            self.erases.push_again(entry);
        }
        written
    }

    fn erase_line(&mut self, line: u32, at: Time) -> Result<(), DeviceError> {
        let late = self.has_bug(Bug::TxRecordLate) && self.holds_evidence(line);
        let (width, before) = (self.lines.members(line).len(), self.nand.sched().queued());
        let mut end = at;
        for index in 0..width {
            // A spare that takes a bad member's place may have been used before: erased as well.
            while self.lines.members(line)[index] != NONE {
                let block = BlockId(self.lines.members(line)[index]);
                if self.nand.is_bad(block) && !self.has_bug(Bug::ReuseBadBlock) {
                    self.swap_bad_member(line, block);
                    continue;
                }
                let tids = self.uncommitted_in(block);
                match self.nand.erase(at, block, false) {
                    Ok(done) => {
                        end = end.max(done.end);
                        self.uncommitted_erased(&tids, &done);
                        self.forget_aliases(block);
                        self.cleaner.count_erase(&self.p);
                        break;
                    }
                    Err(NandError::EraseFailed(block, _)) => {
                        self.nand.mark_bad(at, block).map_err(PageFtl::power)?;
                        self.spares.count_bad();
                        self.swap_bad_member(line, block);
                    }
                    Err(error) => return Err(PageFtl::power(error)),
                }
            }
        }
        if self.lines.capacity(line) == 0 {
            self.lines.retire(line);
        } else {
            self.release(line);
            self.erases.booked(line, end, self.nand.sched().mark(before));
        }
        self.check_space();
        if late { self.keep_evidence_late() } else { Ok(()) }
    }
}
