//! The map: where the newest version of every slot lies, and which places hold current data.
//!
//! | | |
//! | --- | --- |
//! | owns | one entry per logical slot, one valid bit per physical slot, the count of set bits |
//! | invariants | an entry is 0 (nothing) or a place + 1, as checkpoints and translation pages keep it; the count is the number of set bits |
//! | offers | entries to read, to set and to look up by place; valid bits to mark and unmark |
//! | does not | know lines, records or flash: who marks a place also tells its line |
//! | callers | [`PageFtl`](super::PageFtl) and its recovery; bits change only through `set_valid` and `clear_valid` there, which keep a line's count beside them |
//!
//! That an entry's place is valid and that its record names the slot holds between requests, not
//! between two calls: a new version takes its place before the old one loses its bit.

use std::ops::Range;

use block::Ppn;

#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    entries: Vec<u32>,
    valid: Vec<u64>,
    valid_total: u64,
}

impl SlotMap {
    /// Nothing mapped, nothing valid.
    pub fn new(logical: usize, physical: usize) -> SlotMap {
        SlotMap { entries: vec![0; logical], valid: vec![0; physical.div_ceil(64)], valid_total: 0 }
    }

    /// Logical slots.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// The entry of a slot.
    #[inline(always)]
    pub fn entry(&self, slot: u32) -> u32 {
        self.entries[slot as usize]
    }
    /// The entry of a number that need not be a slot's: records on flash may say anything.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<u32> {
        self.entries.get(slot as usize).copied()
    }
    /// All entries, as a checkpoint keeps them.
    pub fn entries(&self) -> &[u32] {
        &self.entries
    }
    /// Whether a slot among so many holds nothing.
    pub fn lacks_any(&self, slots: Range<u32>) -> bool {
        self.entries[slots.start as usize..slots.end as usize].contains(&0)
    }
    /// How many of some slots, from the first on, are mapped, or are not.
    pub fn run(&self, slots: Range<u32>, mapped: bool) -> u32 {
        let entries = &self.entries[slots.start as usize..slots.end as usize];
        let (mut count, mut chunks) = (0, entries.chunks_exact(64));
        for chunk in &mut chunks {
            // (All of them at once: long runs are what this is for.)
            let whole = match mapped {
                true => chunk.iter().fold(true, |all, entry| all & (*entry != 0)),
                false => chunk.iter().fold(0, |any, entry| any | entry) == 0,
            };
            if !whole {
                return count + chunk.iter().take_while(|e| (**e != 0) == mapped).count() as u32;
            }
            count += 64;
        }
        count + chunks.remainder().iter().take_while(|e| (**e != 0) == mapped).count() as u32
    }
    /// The slot that is mapped to a place: a scan.
    pub fn slot_at(&self, at: Ppn) -> Option<u32> {
        self.entries.iter().position(|entry| *entry == at.0 + 1).map(|slot| slot as u32)
    }

    #[inline(always)]
    pub fn set(&mut self, slot: u32, entry: u32) {
        self.entries[slot as usize] = entry;
    }
    /// Sets an entry; returns what it was.
    pub fn replace(&mut self, slot: u32, entry: u32) -> u32 {
        std::mem::replace(&mut self.entries[slot as usize], entry)
    }
    /// The first entries are those of a checkpoint.
    pub fn load(&mut self, entries: &[u32]) {
        self.entries[..entries.len()].copy_from_slice(entries);
    }
    /// Maps nothing any more; valid bits stay.
    pub fn clear(&mut self) {
        self.entries.fill(0);
    }

    /// Places holding current data.
    pub fn valid_total(&self) -> u64 {
        self.valid_total
    }
    #[inline(always)]
    pub fn is_valid(&self, at: Ppn) -> bool {
        self.valid[at.index() >> 6] >> (at.0 & 63) & 1 == 1
    }
    /// A place holds current data from now on.
    #[inline(always)]
    pub fn mark(&mut self, at: Ppn) {
        self.valid[at.index() >> 6] |= 1 << (at.0 & 63);
        self.valid_total += 1;
    }
    /// A place holds no current data any more.
    #[inline(always)]
    pub fn unmark(&mut self, at: Ppn) {
        let word = &mut self.valid[at.index() >> 6];
        debug_assert!(*word >> (at.0 & 63) & 1 == 1, "slot {at} is not valid");
        *word &= !(1 << (at.0 & 63));
        self.valid_total -= 1;
    }
    /// The set bits, counted again.
    pub fn count_valid(&self) -> u64 {
        self.valid.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_they_end_whatever_their_length() {
        for (first, length) in [(0, 0), (3, 1), (0, 64), (1, 63), (5, 64), (7, 200), (0, 300)] {
            for mapped in [false, true] {
                let mut map = SlotMap::new(300, 300);
                (0..300).for_each(|slot| map.set(slot, u32::from(!mapped)));
                (first..first + length).for_each(|slot| map.set(slot, u32::from(mapped)));
                let all = 300.min(first + length) - first;
                assert_eq!(map.run(first..300, mapped), all, "{first}, {length}");
                assert_eq!(map.run(first..first + length / 2, mapped), length / 2);
                let rest = if length > 0 { 0 } else { 300 - first };
                assert_eq!(map.run(first..300, !mapped), rest, "{first}, {length}");
            }
        }
    }
}
