//! The paper's literal rules, for comparison, and for the cuts that they must lose.
//!
//! The map names a new page at once; the old page stays valid and its line is locked by one bit;
//! each new page's record holds the old place; the end flag goes with the write that the host
//! calls its last; power-on reads everything in order of address, and rolls back by following old
//! places. Numbers restart at 1. Discards by transactions, several commits at once and remaps do
//! not exist.

use std::collections::BTreeMap;

use block::{BlockId, DeviceError, Ppn, Time, TxError, TxId};
use nand::{Kind, Oob, Payload, SlotRead};

use super::begin::off;
use super::{END, PageFtl};
use crate::ftl::head::Append;
use crate::ftl::host::Writer;
use crate::ftl::lines::NONE;

/// One entry of the paper's P2P table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    tid: u64,
    lpn: u32,
    /// Place + 1; 0 = there was none.
    old: u32,
    new: u32,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct Paper {
    entries: Vec<Entry>,
}

impl Paper {
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    pub fn owner(&self, lpn: u32) -> Option<u64> {
        self.entries.iter().find(|entry| entry.lpn == lpn).map(|entry| entry.tid)
    }
    pub fn lpns(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|entry| entry.lpn)
    }
    pub fn lpns_of(&self, tid: u64) -> Vec<u32> {
        self.entries.iter().filter(|entry| entry.tid == tid).map(|entry| entry.lpn).collect()
    }
    /// Old pages that are kept.
    pub fn old_pages(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.old != 0).count() as u64
    }
    /// The transaction whose newest page of a slot lies at a place.
    pub fn new_at(&self, lpn: u32, at: Ppn) -> Option<u64> {
        let newest = self.entries.iter().rev().find(|entry| entry.lpn == lpn)?;
        (newest.new == at.0 + 1).then_some(newest.tid)
    }
    fn take(&mut self, tid: u64) -> Vec<Entry> {
        self.entries.extract_if(.., |entry| entry.tid == tid).collect()
    }
}

impl PageFtl {
    fn paper(&mut self) -> Option<&mut Paper> {
        self.tx.as_mut().and_then(|tx| tx.paper.as_mut())
    }
    /// Whether the paper's rules are in force.
    pub(in crate::ftl) fn is_paper(&self) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.paper.is_some())
    }

    /// A page of a transaction: on flash at once.
    pub(super) fn paper_write(
        &mut self,
        ready: Time,
        (tid, lpn): (u64, u32),
        payload: Payload,
        last: bool,
    ) -> Result<(), TxError> {
        self.check_writable()?;
        self.make_room()?;
        let old = self.map.entry(lpn);
        let seq = self.take_seq();
        if let Some(paper) = self.paper() {
            paper.entries.push(Entry { tid, lpn, old, new: 0 });
        }
        if old != 0 {
            self.paper_lock(old, 1);
        }
        let head = self.stream_of(lpn, Writer::default());
        let flags = if last { END } else { 0 };
        let oob = Oob { kind: Kind::Data, flags, lpn, seq, tid, digest: old, ..Oob::default() };
        let cause = self.host_cause();
        self.append(head, Append { oob, cause, payload, ready })?;
        self.pay_debt()?;
        Ok(())
    }

    /// The lock bit of the line of an old page.
    fn paper_lock(&mut self, entry: u32, bit: u32) {
        let line = self.line_of_entry(entry);
        if let Some(tx) = &mut self.tx {
            tx.locks[line as usize] = bit;
        }
    }

    /// A page of an open transaction has a place: the map names it.
    pub(super) fn paper_placed(&mut self, lpn: u32, at: Ppn) {
        let before = self.map.entry(lpn);
        if let Some(paper) = self.paper()
            && let Some(entry) = paper.entries.iter_mut().rev().find(|e| e.lpn == lpn)
            && (entry.new == 0 || entry.new == before)
        {
            entry.new = at.0 + 1;
        }
        self.map.set(lpn, at.0 + 1);
    }

    /// Old pages become invalid, and their lines unlocked.
    pub(super) fn paper_commit(&mut self, tids: &[u64]) -> Result<Time, TxError> {
        let Some(tx) = &self.tx else { return Err(off()) };
        if let Some(tid) = tids.iter().find(|tid| !tx.open.contains_key(tid)) {
            return Err(TxError::Unknown(TxId(*tid)));
        }
        for tid in tids {
            let entries = self.paper().map(|paper| paper.take(*tid)).unwrap_or_default();
            for entry in entries.iter().filter(|entry| entry.old != 0) {
                self.paper_lock(entry.old, 0);
                self.clear_valid(Ppn(entry.old - 1));
            }
            if let Some(tx) = &mut self.tx {
                tx.open.remove(tid);
                tx.stats.committed += 1;
            }
        }
        // It is sent with fsync.
        Ok(self.sync()?)
    }

    /// Earlier versions come back.
    pub(super) fn paper_abort(&mut self, tid: u64) {
        let entries = self.paper().map(|paper| paper.take(tid)).unwrap_or_default();
        for entry in entries.iter().rev() {
            if entry.new != 0 {
                self.clear_valid(Ppn(entry.new - 1));
            }
            self.map.set(entry.lpn, entry.old);
            if entry.old != 0 {
                self.paper_lock(entry.old, 0);
            }
        }
        if let Some(tx) = &mut self.tx {
            tx.open.remove(&tid);
            tx.stats.aborted += 1;
        }
    }

    /// Cleaning meets an old page: its line was unlocked by somebody else's commit. Nothing names
    /// it, so it goes with its line.
    pub(in crate::ftl) fn paper_old_page_lost(&mut self, at: Ppn) -> bool {
        let Some(paper) = self.paper() else { return false };
        let Some(entry) = paper.entries.iter_mut().find(|e| e.old == at.0 + 1) else {
            return false;
        };
        entry.old = 0;
        self.clear_valid(at);
        true
    }

    /// Power-on: the whole of flash in order of address; then the transactions, in theirs.
    pub(in crate::ftl) fn paper_recover(&mut self, meta: u32) {
        self.map.clear();
        let mut groups: BTreeMap<u64, Vec<(u32, Ppn, u32, bool)>> = BTreeMap::new();
        let mut blocks: Vec<u32> = (meta..self.lines.len())
            .flat_map(|line| self.lines.members(line).iter().copied())
            .filter(|member| *member != NONE)
            .collect();
        blocks.sort_unstable();
        for block in blocks.into_iter().map(BlockId) {
            let first = self.g.ppn(block, 0);
            for at in (0..self.g.slots_per_block()).map(|slot| Ppn(first.0 + slot)) {
                let SlotRead::Good(oob, _) = self.nand.slot(at) else { continue };
                if oob.kind != Kind::Data || oob.lpn as usize >= self.map.len() {
                    continue;
                }
                let (lpn, tid) = (oob.lpn, oob.tid);
                match tid {
                    0 => self.map.set(lpn, at.0 + 1),
                    _ => {
                        let page = (lpn, at, oob.digest, oob.flags & END != 0);
                        groups.entry(tid).or_default().push(page);
                    }
                }
            }
        }
        for pages in groups.values() {
            let ended = pages.iter().any(|(.., end)| *end);
            for (lpn, at, old, _) in pages {
                // An old place that was erased since names nothing.
                let there = *old != 0 && self.is_written(Ppn(old - 1));
                let entry = match (ended, there) {
                    (true, _) => at.0 + 1,
                    (false, true) => *old,
                    (false, false) => 0,
                };
                self.map.set(*lpn, entry);
            }
        }
    }

    fn is_written(&self, at: Ppn) -> bool {
        matches!(self.nand.slot(at), SlotRead::Good(..))
    }

    /// Where a transaction's page is: where the map says.
    pub(super) fn paper_place(&self, lpn: u32) -> Option<Ppn> {
        self.map.entry(lpn).checked_sub(1).map(Ppn)
    }
}

/// What the paper's interface does not have.
pub(super) const NOT_THERE: DeviceError =
    DeviceError::Unsupported("the paper's rules have no such call (tx.mode = paper)");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slots_newest_place_is_its_last_writers() {
        let entry = |tid, lpn, new| Entry { tid, lpn, old: 0, new };
        let paper = Paper { entries: vec![entry(1, 7, 11), entry(1, 8, 12), entry(2, 7, 13)] };
        assert_eq!(paper.new_at(7, Ppn(12)), Some(2), "place + 1");
        assert_eq!(paper.new_at(7, Ppn(10)), None, "what was written over since");
        assert_eq!(paper.new_at(8, Ppn(11)), Some(1));
        assert_eq!(paper.new_at(9, Ppn(11)), None);
    }
}
