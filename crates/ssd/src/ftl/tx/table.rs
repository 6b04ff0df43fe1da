//! The P2P table of paper 4: pages of open transactions by logical number.
//!
//! Open addressing over a fixed number of entries: nothing is allocated after construction, a
//! full table is the caller's error. Entries keep their number until their transaction ends, so
//! that each transaction chains its own.

use block::Ppn;

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Where an open transaction's version of a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In the controller's memory: the transaction's newest page.
    Held,
    /// It reads as zeroes once the transaction is committed.
    Trimmed,
    /// On flash, or being assembled for it.
    At(Ppn),
}

/// One page of an open transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub lpn: u32,
    pub tid: u64,
    pub place: Place,
    pub seq: u64,
    /// The transaction's entry before this one.
    next: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    index: Vec<u32>,
    mask: u32,
    entries: Vec<Entry>,
    free: Vec<u32>,
    capacity: u32,
}

fn spread(lpn: u32) -> u32 {
    (u64::from(lpn).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

impl Table {
    /// Room for `capacity` pages.
    pub fn new(capacity: u32) -> Table {
        let size = (2 * capacity).next_power_of_two().max(4);
        Table {
            index: vec![NONE; size as usize],
            mask: size - 1,
            entries: Vec::with_capacity(capacity as usize),
            free: Vec::new(),
            capacity,
        }
    }
    /// Pages it can hold.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Pages it holds.
    pub fn len(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }
    fn slot_of(&self, lpn: u32) -> u32 {
        let mut at = spread(lpn) & self.mask;
        loop {
            let entry = self.index[at as usize];
            if entry == NONE || self.entries[entry as usize].lpn == lpn {
                return at;
            }
            at = (at + 1) & self.mask;
        }
    }
    /// The number of a page's entry.
    pub fn find(&self, lpn: u32) -> Option<u32> {
        if self.len() == 0 {
            return None;
        }
        let entry = self.index[self.slot_of(lpn) as usize];
        (entry != NONE).then_some(entry)
    }
    pub fn get(&self, lpn: u32) -> Option<&Entry> {
        self.find(lpn).map(|entry| &self.entries[entry as usize])
    }
    pub fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }
    pub fn entry_mut(&mut self, number: u32) -> &mut Entry {
        &mut self.entries[number as usize]
    }
    /// Adds a page that is not in the table, in front of the chain `next`; its number.
    pub fn insert(&mut self, lpn: u32, tid: u64, place: Place, seq: u64, next: u32) -> u32 {
        debug_assert!(self.len() < self.capacity && self.find(lpn).is_none());
        let entry = Entry { lpn, tid, place, seq, next };
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        // A freed entry keeps its old number: it is in no slot of the index any more.
        let at = self.slot_of_new(lpn);
        self.index[at as usize] = number;
        number
    }
    fn slot_of_new(&self, lpn: u32) -> u32 {
        let mut at = spread(lpn) & self.mask;
        while self.index[at as usize] != NONE {
            at = (at + 1) & self.mask;
        }
        at
    }
    /// Removes an entry; the next one of its chain.
    pub fn remove(&mut self, number: u32) -> u32 {
        let Entry { lpn, next, .. } = self.entries[number as usize];
        let mut hole = self.slot_of(lpn);
        debug_assert_eq!(self.index[hole as usize], number);
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let other = self.index[at as usize];
            if other == NONE {
                break;
            }
            // An entry may move into the hole if its own place is not after the hole.
            let home = spread(self.entries[other as usize].lpn) & self.mask;
            if (at.wrapping_sub(home) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.index[hole as usize] = other;
                hole = at;
            }
        }
        self.index[hole as usize] = NONE;
        self.free.push(number);
        next
    }
    /// The entries of a chain.
    pub fn chain(&self, first: u32) -> impl Iterator<Item = (u32, &Entry)> {
        let mut at = first;
        std::iter::from_fn(move || {
            (at != NONE).then(|| {
                let number = at;
                let entry = &self.entries[number as usize];
                at = entry.next;
                (number, entry)
            })
        })
    }
    /// All entries, in no meaningful order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.index.iter().filter(|n| **n != NONE).map(|n| &self.entries[*n as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_an_ordered_map() {
        let mut rng = block::Rng::new(11);
        let mut table = Table::new(37);
        let mut model: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        for step in 0..20_000 {
            let lpn = rng.below(90) as u32 * 64;
            match model.remove(&lpn) {
                Some((number, seq)) => {
                    assert_eq!(table.get(lpn).map(|e| e.seq), Some(seq));
                    table.remove(number);
                }
                None if model.len() < 37 => {
                    let number = table.insert(lpn, 1, Place::Held, step, NONE);
                    model.insert(lpn, (number, step));
                }
                None => {}
            }
            assert_eq!(table.len() as usize, model.len());
            let mut all: Vec<(u32, u64)> = table.iter().map(|e| (e.lpn, e.seq)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(model.iter().map(|(lpn, (_, seq))| (*lpn, *seq))));
        }
    }

    #[test]
    fn a_chain_holds_what_was_put_into_it() {
        let mut table = Table::new(8);
        let mut first = NONE;
        for lpn in [5, 3, 9] {
            first = table.insert(lpn, 1, Place::Trimmed, 0, first);
        }
        let lpns: Vec<u32> = table.chain(first).map(|(_, e)| e.lpn).collect();
        assert_eq!(lpns, [9, 3, 5]);
    }
}
