//! Evidence: what on flash proves that a transaction is committed.
//!
//! The end page (under `counted`: every page of its transaction) proves it until the newest state
//! record says so itself. Before a line with such a page is erased, a state record is written,
//! and the erase waits for it as it waits for copies.

use block::{BlockId, DeviceError, Ppn, Time};
use nand::{Cause, Done, Kind, NO_LPN, Oob, SlotRead};

use super::record::Record;
use super::{END, PageFtl};
use crate::Bug;
use crate::ftl::head::Append;
use crate::ftl::lines::NONE;

impl PageFtl {
    /// Appends a state record, not before `ready`; to which head. `also` are committed by it.
    ///
    /// It goes where host data goes, never among copies: a line of nothing but copies counts as
    /// empty at power-on.
    pub(super) fn write_state_record(
        &mut self,
        also: &[u64],
        ready: Time,
    ) -> Result<usize, DeviceError> {
        let (no_losers, floor_next) =
            (self.has_bug(Bug::TxRecordNoLosers), self.has_bug(Bug::TxRecordFloorNext));
        // Opening a line can need an erase, and that a state record of its own: first that one.
        if self.heads.is_aimless(0) {
            self.aim(0, NO_LPN)?;
        }
        let Some(tx) = &mut self.tx else { return Ok(0) };
        let open = tx.open.keys().copied().filter(|tid| !also.contains(tid)).min();
        let floor = open.filter(|_| !floor_next).unwrap_or(tx.next);
        let committed = tx.committed.iter().chain(also).copied().filter(|tid| *tid >= floor);
        let record = Record {
            floor,
            next: tx.next,
            committed: committed.collect(),
            losers: tx.losers.keys().copied().filter(|_| !no_losers).collect(),
        };
        // Nothing it says may be untrue while it can be read: what it calls committed is proven
        // before it is programmed, and of what it has forgotten nothing is left.
        let erased = tx.fading.iter().copied().max().unwrap_or(Time::ZERO);
        let payload = PageFtl::record_payload(record.encode());
        let seq = self.take_seq();
        let Some(tx) = &mut self.tx else { return Ok(0) };
        let now = self.now;
        tx.fading.retain(|end| *end > now);
        let ready = ready.max(tx.proven).max(erased).max(now);
        tx.arriving = Some(record);
        tx.stats.records += 1;
        let oob = Oob { kind: Kind::State, lpn: NO_LPN, seq, ..Oob::default() };
        self.append(0, Append { oob, cause: Cause::Tx, payload, ready })?;
        Ok(0)
    }

    /// A state record has a place; the one before is not needed once this one is on flash.
    pub(in crate::ftl) fn state_record_placed(&mut self, at: Ppn) {
        let Some(tx) = &mut self.tx else { return };
        if let Some(record) = tx.arriving.take() {
            tx.record = record;
        }
        if let Some(old) = tx.record_at.replace(at) {
            self.clear_valid(old);
        }
    }

    /// The state record at a place is about to be appended again: its program failed.
    pub(in crate::ftl) fn state_record_moves(&mut self, from: Ppn) {
        if let Some(tx) = &mut self.tx
            && tx.record_at == Some(from)
        {
            tx.record_at = None;
        }
    }

    /// Whether the newest state record lies at a place.
    pub(in crate::ftl) fn is_state_record(&self, at: Ppn) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.record_at == Some(at))
    }

    /// Cleaning met the state record: a fresh one takes its place.
    pub(in crate::ftl) fn move_state_record(&mut self) -> Result<(), DeviceError> {
        self.write_state_record(&[], Time::ZERO).map(|_| ())
    }

    /// Before a line is erased: writes a state record if the line proves what no record says.
    pub(in crate::ftl) fn keep_evidence(&mut self, line: u32) -> Result<(), DeviceError> {
        if self.tx.is_none()
            || self.has_bug(Bug::TxNoRecord)
            || self.has_bug(Bug::TxRecordLate)
            || !self.holds_evidence(line)
        {
            return Ok(());
        }
        if let Some(tx) = &mut self.tx {
            tx.stats.records_gc += 1;
        }
        self.write_state_record(&[], Time::ZERO).map(|_| ())
    }

    /// The planted bug: the state record comes after the erase.
    pub(in crate::ftl) fn keep_evidence_late(&mut self) -> Result<(), DeviceError> {
        if self.tx.is_some() && self.has_bug(Bug::TxRecordLate) {
            return self.write_state_record(&[], Time::ZERO).map(|_| ());
        }
        Ok(())
    }

    /// Whether a line proves a commit that the newest state record does not.
    pub(in crate::ftl) fn holds_evidence(&self, line: u32) -> bool {
        let Some(tx) = self.tx.as_ref().filter(|tx| tx.paper.is_none()) else { return false };
        let any = tx.counted && !self.has_bug(Bug::TxRecordForEndOnly);
        let members = self.lines.members(line).iter().filter(|m| **m != NONE);
        members.map(|member| BlockId(*member)).filter(|b| self.nand.next_page(*b) > 0).any(|b| {
            let first = self.g.ppn(b, 0);
            (0..self.g.slots_per_block()).any(|slot| {
                let SlotRead::Good(oob, _) = self.nand.truth(Ppn(first.0 + slot)) else {
                    return false;
                };
                oob.tid != 0
                    && (any || oob.flags & END != 0)
                    && tx.is_committed(oob.tid)
                    && !tx.record.covers(oob.tid)
            })
        })
    }

    /// The transactions that are not committed and have slots in a block, one for each slot.
    pub(in crate::ftl) fn uncommitted_in(&self, block: BlockId) -> Vec<u64> {
        match &self.tx {
            Some(tx) if !tx.losers.is_empty() || !tx.open.is_empty() => {
                let known = |tid: &u64| tx.losers.contains_key(tid) || tx.open.contains_key(tid);
                self.tids_in(block).filter(known).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The erase of a block that held slots of these is booked. Losers without any left are
    /// forgotten.
    pub(in crate::ftl) fn uncommitted_erased(&mut self, tids: &[u64], erase: &Done) {
        let Some(tx) = self.tx.as_mut().filter(|_| !tids.is_empty()) else { return };
        for tid in tids {
            let loser = tx.losers.get_mut(tid);
            let Some(left) = loser.or(tx.open.get_mut(tid).map(|open| &mut open.left)) else {
                continue;
            };
            left.slots -= 1;
            left.until = left.until.max(erase.end);
            let left = *left;
            if left.slots == 0 && tx.losers.remove(tid).is_some() {
                tx.fading.push(left.until);
            }
        }
        // Somebody relies on this end: it must not move any more.
        self.nand.sched_mut().tell(erase.ticket);
    }

    /// A program failed at a place that was given to a slot of a transaction: unless the cells
    /// took it all the same, nothing is left there.
    pub(in crate::ftl) fn tx_place_failed(&mut self, tid: u64, at: Ppn) {
        if tid == 0 || matches!(self.nand.truth(at), SlotRead::Good(..)) {
            return;
        }
        let Some(tx) = &mut self.tx else { return };
        if let Some(open) = tx.open.get_mut(&tid) {
            open.left.slots -= 1;
        } else if let Some(left) = tx.losers.get_mut(&tid) {
            left.slots -= 1;
            let left = *left;
            if left.slots == 0 {
                tx.losers.remove(&tid);
                tx.fading.push(left.until);
            }
        }
    }
}
