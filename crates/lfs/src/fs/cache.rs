//! Blocks in memory, found by a key, the least useful of which go when there are too many.
//!
//! Invariants: what is dirty stays; a block that was used since the hand last passed it is passed
//! over once (second chance). Places of blocks that went are used again, and so is a bounded number
//! of the blocks themselves.

/// Blocks that are kept for the next ones.
const SPARE: usize = 64;

struct Slot<K, V> {
    /// None: the place is free.
    entry: Option<(K, V)>,
    dirty: bool,
    used: bool,
}

/// Blocks by place. Who owns one knows how to find a place by its key.
pub(super) struct Slab<K, V> {
    slots: Vec<Slot<K, V>>,
    free: Vec<u32>,
    spare: Vec<V>,
    hand: usize,
    held: usize,
}

impl<K, V> Default for Slab<K, V> {
    fn default() -> Slab<K, V> {
        Slab { slots: Vec::new(), free: Vec::new(), spare: Vec::new(), hand: 0, held: 0 }
    }
}

impl<K: Copy, V> Slab<K, V> {
    /// A block that went, to be filled anew.
    pub(super) fn spare(&mut self) -> Option<V> {
        self.spare.pop()
    }

    /// Keeps a block; returns its place.
    pub(super) fn add(&mut self, key: K, block: V) -> u32 {
        let slot = Slot { entry: Some((key, block)), dirty: false, used: true };
        self.held += 1;
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&mut self, at: u32) -> Option<&mut V> {
        let slot = &mut self.slots[at as usize];
        slot.used = true;
        slot.entry.as_mut().map(|(_, block)| block)
    }

    /// As [`Slab::get`], without a word about its use.
    pub(super) fn peek(&self, at: u32) -> Option<&V> {
        self.slots[at as usize].entry.as_ref().map(|(_, block)| block)
    }

    /// Marks a block; returns what it was.
    pub(super) fn set_dirty(&mut self, at: u32, dirty: bool) -> bool {
        std::mem::replace(&mut self.slots[at as usize].dirty, dirty)
    }

    /// Lets a block go.
    pub(super) fn remove(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some((_, block)) = slot.entry.take() else { return };
        slot.dirty = false;
        if self.spare.len() < SPARE {
            self.spare.push(block);
        }
        self.free.push(at);
        self.held -= 1;
    }

    /// Whether there are so many more blocks than wanted that some should go.
    pub(super) fn is_over(&self, most: usize) -> bool {
        self.held > most + most / 16
    }

    /// The next block that may go, if there are more than `most`.
    pub(super) fn next_victim(&mut self, most: usize) -> Option<(u32, K)> {
        if self.held <= most {
            return None;
        }
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            let key = slot.entry.as_ref().map(|(key, _)| *key);
            if let Some(key) = key.filter(|_| !slot.dirty)
                && !std::mem::take(&mut slot.used)
            {
                return Some((self.hand as u32, key));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_or_was_used_stays() {
        let mut slab: Slab<u32, ()> = Slab::default();
        let places: Vec<u32> = (0..10_u32).map(|key| slab.add(key, ())).collect();
        slab.set_dirty(places[3], true);
        // The first round only takes the marks away.
        let (at, _) = slab.next_victim(4).unwrap();
        slab.remove(at);
        slab.get(places[7]);
        let mut gone = Vec::new();
        while let Some((at, key)) = slab.next_victim(2) {
            slab.remove(at);
            gone.push(key);
        }
        assert_eq!((gone.len(), slab.held), (7, 2));
        assert!(!gone.contains(&3) && !gone[..5].contains(&7), "{gone:?}");
        let again = slab.add(99, ());
        assert!(again < 10, "places are used again");
    }
}
