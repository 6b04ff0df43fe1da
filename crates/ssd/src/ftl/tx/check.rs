//! The invariants of transactions (I1 to I3, I6 to I8), for the harness.

use std::collections::{BTreeMap, BTreeSet};

use block::{BlockId, Ppn};
use nand::SlotRead;

use super::{END, PageFtl, Place};
use crate::Violation;

impl PageFtl {
    /// Valid slots that belong to open transactions or are the state record.
    pub(in crate::ftl) fn tx_valid_slots(&self) -> u64 {
        self.tx.as_ref().map_or(0, |tx| {
            let pages = tx.table.iter().filter(|entry| matches!(entry.place, Place::At(_)));
            if let Some(paper) = &tx.paper {
                return paper.old_pages();
            }
            let records = u64::from(tx.record_at.is_some()) + tx.remaps.len() as u64;
            pages.count() as u64 + records
        })
    }

    /// Checks every invariant of transactions, O(slots).
    ///
    /// # Errors
    /// The first that does not hold.
    pub(in crate::ftl) fn check_transactions(&self) -> Result<(), Violation> {
        let Some(tx) = self.tx.as_ref().filter(|tx| tx.paper.is_none()) else { return Ok(()) };
        let fail = |what: String| Err(PageFtl::violation("C4", what));
        let mut locks = vec![0u32; self.lines.len() as usize];
        let mut per_tid: BTreeMap<u64, u32> = BTreeMap::new();
        let mut lpns = BTreeSet::new();
        for entry in tx.table.iter() {
            if !tx.open.contains_key(&entry.tid) {
                return fail(format!("I3: page {} belongs to closed {}", entry.lpn, entry.tid));
            }
            if !lpns.insert(entry.lpn) {
                return fail(format!("I3: page {} has two entries", entry.lpn));
            }
            *per_tid.entry(entry.tid).or_default() += 1;
            let mapped = self.map.entry(entry.lpn);
            if mapped != 0 {
                locks[self.line_of_entry(mapped) as usize] += 1;
            }
            if let Place::At(at) = entry.place
                && (!self.is_valid(at) || mapped == at.0 + 1)
            {
                return fail(format!("I1: page {} of {} at {at}", entry.lpn, entry.tid));
            }
        }
        if let Some(line) = (0..locks.len()).find(|line| locks[*line] != tx.locks[*line]) {
            return fail(format!(
                "I2: line {line} has {} locks, counts {}",
                locks[line], tx.locks[line]
            ));
        }
        for (tid, open) in &tx.open {
            let pages = per_tid.get(tid).copied().unwrap_or(0);
            if pages != open.pages || tx.losers.contains_key(tid) || *tid >= tx.next {
                return fail(format!("I3: {tid} counts {} pages, has {pages}", open.pages));
            }
        }
        if tx.losers.len() > tx.loser_limit as usize {
            return fail(format!("I8: {} losers", tx.losers.len()));
        }
        if !tx.open.is_empty() && tx.next - tx.oldest() > tx.span {
            return fail(format!("I8: {} to {} are open", tx.oldest(), tx.next));
        }
        if let Some(at) = tx.record_at
            && !self.is_valid(at)
        {
            return fail(format!("I8: the state record at {at} is not valid"));
        }
        if self.read_only.is_some() {
            // A commit may have been cut short; nothing is certain before the next power-on.
            return Ok(());
        }
        self.check_evidence()
    }

    /// I6 and I7: what flash says of each transaction with a page on it is what is known.
    fn check_evidence(&self) -> Result<(), Violation> {
        let Some(tx) = &self.tx else { return Ok(()) };
        let fail = |what: String| Err(PageFtl::violation("C4", what));
        let (mut tagged, mut ended) = (BTreeMap::<u64, u64>::new(), BTreeSet::new());
        for block in (0..self.g.blocks()).map(BlockId) {
            let first = self.g.ppn(block, 0);
            for slot in 0..self.g.slots_per_block() {
                let SlotRead::Good(oob, _) = self.nand.truth(Ppn(first.0 + slot)) else { continue };
                if oob.tid != 0 {
                    *tagged.entry(oob.tid).or_default() += 1;
                    if oob.flags & END != 0 {
                        ended.insert(oob.tid);
                    }
                }
            }
        }
        for slot in self.heads.assembled().filter(|slot| slot.oob.tid != 0) {
            *tagged.entry(slot.oob.tid).or_default() += 1;
        }
        for (tid, count) in tagged {
            if tid >= tx.next {
                return fail(format!("I7: {tid} is on flash, {} is next", tx.next));
            }
            if tx.open.contains_key(&tid) {
                continue;
            }
            if let Some(left) = tx.losers.get(&tid) {
                if left.slots < count {
                    let counted = left.slots;
                    return fail(format!("I6: loser {tid} has {count} slots, counts {counted}"));
                }
                if tx.record.covers(tid) || (ended.contains(&tid) && !tx.counted) {
                    return fail(format!("I6: flash says that loser {tid} is committed"));
                }
            } else if !ended.contains(&tid) && !tx.record.covers(tid) {
                return fail(format!("I6: nothing proves that {tid} is committed"));
            }
        }
        Ok(())
    }
}
