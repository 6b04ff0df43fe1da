//! The whole state against its invariants (contract C7), for the harness and the end of runs.

use block::{BlockId, Ppn};
use nand::{Kind, NO_LPN, SlotRead};

use super::PageFtl;
use super::lines::{LineState, NONE};
use crate::Violation;

impl PageFtl {
    /// Checks every invariant, O(slots).
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        let fail = |what: String| Err(PageFtl::violation("C7", what));
        self.lines.check().map_err(|what| PageFtl::violation("C7", what))?;
        let mut mapped = 0;
        for (slot, entry) in self.map.entries().iter().enumerate().filter(|(_, e)| **e != 0) {
            let at = Ppn(entry - 1);
            mapped += 1;
            if !self.is_valid(at) {
                return fail(format!("slot {slot} is mapped to {at}, which is not valid"));
            }
            if let Some(found) = self.names(at)
                && found != slot as u32
            {
                return fail(format!("slot {slot} is mapped to {at}, whose record names {found}"));
            }
        }
        let records = self.trims.places().count() as u64;
        let map_slots = self
            .paged
            .as_ref()
            .map_or(0, |paged| paged.directory().iter().filter(|e| **e != 0).count() as u64)
            * u64::from(self.g.slots_per_page);
        let (valid, counted) = (self.map.count_valid(), self.map.valid_total());
        let tx = self.tx_valid_slots();
        if valid != mapped + records + map_slots + tx || valid != counted {
            return fail(format!(
                "{valid} valid bits, {counted} counted, for {mapped} mapped slots, {records} trim records, {map_slots} slots of translation pages and {tx} of transactions"
            ));
        }
        self.check_transactions()?;
        self.check_lines()
    }

    /// What the record at a place names, if it can be read and is data.
    fn names(&self, at: Ppn) -> Option<u32> {
        let (block, page, slot) = self.g.place(at);
        if page >= self.nand.next_page(block) {
            let assembled = self.heads.slot_for(block, page, slot, self.g.slots_per_page);
            return assembled.map(|slot| slot.oob.lpn);
        }
        if !self.full {
            return Some(self.nand.lpn(at)).filter(|lpn| *lpn != NO_LPN);
        }
        // Where a planted fault makes a read differ from the truth, nothing can be concluded.
        match (self.nand.truth(at), self.nand.slot(at)) {
            (SlotRead::Good(oob, _), SlotRead::Good(seen, _)) if oob == seen => {
                (oob.kind == Kind::Data).then_some(self.named(at, *oob).lpn)
            }
            _ => None,
        }
    }

    fn check_lines(&self) -> Result<(), Violation> {
        let fail = |what: String| Err(PageFtl::violation("C7", what));
        for line in 0..self.lines.len() {
            let entry = self.lines.get(line);
            let mut valid = 0;
            for member in self.lines.members(line).iter().filter(|m| **m != NONE) {
                if self.lines.line_of(BlockId(*member)) != line {
                    return fail(format!("block {member} is in line {line} and does not know it"));
                }
                let first = self.g.ppn(BlockId(*member), 0);
                valid += (0..self.g.slots_per_block())
                    .filter(|s| self.is_valid(Ppn(first.0 + s)))
                    .count() as u32;
            }
            if valid != entry.valid {
                return fail(format!(
                    "line {line} counts {} valid slots, has {valid}",
                    entry.valid
                ));
            }
            let empty = matches!(
                entry.state,
                LineState::Free | LineState::Erasing | LineState::Meta | LineState::Retired
            );
            if empty && valid > 0 {
                return fail(format!("line {line} is {:?} with {valid} valid slots", entry.state));
            }
            let open = self.heads.on(line).is_some();
            if open != (entry.state == LineState::Open) {
                return fail(format!("line {line} is {:?}; open by a head: {open}", entry.state));
            }
        }
        Ok(())
    }
}
