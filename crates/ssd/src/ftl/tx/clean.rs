//! Cleaning and transactions: which victims, and what becomes of their pages.

use block::Ppn;
use nand::Oob;

use super::{PageFtl, Place};
use crate::Bug;
use crate::config::LockMode;
use crate::ftl::erase_cost;

/// Locked candidates passed over before a locked line is taken.
const SKIP: u64 = 8;

impl PageFtl {
    /// The line to collect instead of `choice` where that holds old pages of open transactions;
    /// `None` if there is none. An unlocked line must gain more than the padding before its erase
    /// may cost, or cleaning would go round among full lines.
    pub(in crate::ftl) fn unlocked_victim(&mut self, choice: u32) -> Option<u32> {
        let Some(tx) = &self.tx else { return Some(choice) };
        if tx.lock == LockMode::Ignore || tx.locks[choice as usize] == 0 {
            return Some(choice);
        }
        let cost = erase_cost(&self.p);
        let gains =
            |line: u32| self.lines.get(line).valid + cost < self.lines.capacity(line).max(1);
        let mut skipped = 1;
        let mut found = None;
        // From here on none gains, whatever blocks it lacks.
        let full =
            |line: &u32| self.lines.get(*line).valid + cost >= self.lines.full_slots().max(1);
        let lines = self.lines.by_valid().take_while(|line| !full(line));
        for line in lines.filter(|line| *line != choice && gains(*line)) {
            if tx.locks[line as usize] == 0 {
                found = Some(line);
                break;
            }
            if tx.lock == LockMode::Prefer && skipped >= SKIP {
                break;
            }
            skipped += 1;
        }
        let hard = tx.lock == LockMode::Hard;
        let more = found.map_or(0, |line| {
            self.lines.get(line).valid.saturating_sub(self.lines.get(choice).valid)
        });
        self.cleaner.copied_for_locks(more);
        if let Some(tx) = &mut self.tx {
            tx.stats.skipped += skipped;
            tx.stats.locked_victims += u64::from(found.is_none() && !hard);
            tx.stats.blocked += u64::from(found.is_none() && hard);
        }
        found.or((!hard).then_some(choice))
    }

    /// The record of a copy, by who the slot belongs to: an open transaction's keeps its number,
    /// a committed one is plain from now on; both keep their sequence number.
    pub(in crate::ftl) fn copied_record(&mut self, oob: Oob) -> Oob {
        let seq = if self.has_bug(Bug::TxFreshSeq) { self.take_seq() } else { oob.seq };
        Oob { seq, ..oob }
    }

    /// The open transaction whose version of a slot lies at a place.
    pub(in crate::ftl) fn tx_at(&self, lpn: u32, at: Ppn) -> Option<u64> {
        if let Some(paper) = &self.tx.as_ref()?.paper {
            return paper.new_at(lpn, at);
        }
        let entry = self.tx.as_ref()?.table.get(lpn)?;
        (entry.place == Place::At(at)).then_some(entry.tid)
    }

    /// The record of an open transaction's slot at a place, from memory.
    pub(in crate::ftl) fn tx_record_at(&self, at: Ppn) -> Option<Oob> {
        let tx = self.tx.as_ref()?;
        let entry = tx.table.iter().find(|entry| entry.place == Place::At(at))?;
        Some(Oob { lpn: entry.lpn, seq: entry.seq, tid: entry.tid, ..Oob::default() })
    }

    /// When what proves all commits so far is on flash: a copy that no longer names its
    /// transaction must not be there before.
    pub(in crate::ftl) fn tx_proven(&self) -> block::Time {
        self.tx.as_ref().map_or(block::Time::ZERO, |tx| tx.proven)
    }

    /// A plain page is completed from what flash holds: no plain page from now on may be there
    /// before all commits so far, of which it may show a part.
    pub(crate) fn tx_taken_along(&mut self) {
        if let Some(tx) = &mut self.tx {
            tx.shown = tx.proven;
        }
    }

    /// When a plain page may be on flash at the earliest.
    pub(in crate::ftl) fn tx_shown(&self) -> block::Time {
        self.tx.as_ref().map_or(block::Time::ZERO, |tx| tx.shown)
    }

    /// A tagged slot was given a place.
    pub(in crate::ftl) fn tx_placed(&mut self, lpn: u32, tid: u64, at: Ppn) {
        if self.is_paper() {
            // Erases take off what is counted here, whatever the rules.
            self.tx_record_placed(tid);
            return self.paper_placed(lpn, at);
        }
        if let Some(tx) = &mut self.tx {
            tx.placed(lpn, tid, at);
        }
    }

    /// A tagged record was given a place.
    pub(in crate::ftl) fn tx_record_placed(&mut self, tid: u64) {
        if let Some(tx) = &mut self.tx {
            tx.count_placed(tid);
        }
    }

    /// The committed version of a slot is about to be named at another place: a lock on it goes
    /// along.
    pub(in crate::ftl) fn tx_old_page_moves(&mut self, lpn: u32, to: Ppn) {
        if self.tx_owner(lpn).is_none() || self.is_paper() {
            return;
        }
        let from = self.map.entry(lpn);
        let bug = self.has_bug(Bug::TxLockStays);
        let to = self.lines.line_of(self.g.block_of(to));
        let from = if from == 0 { None } else { Some(self.line_of_entry(from)) };
        if let Some(tx) = &mut self.tx
            && !bug
        {
            if let Some(from) = from {
                tx.locks[from as usize] = tx.locks[from as usize].saturating_sub(1);
            }
            tx.locks[to as usize] += 1;
        }
    }
}
