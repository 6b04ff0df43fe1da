//! The block cache: least recently used, by block of a file.

use std::collections::BTreeMap;

/// At most `capacity` blocks.
pub(super) struct Cache {
    capacity: usize,
    stamps: BTreeMap<(u64, u64), u64>,
    order: BTreeMap<u64, (u64, u64)>,
    next: u64,
}

impl Cache {
    pub fn new(capacity: usize) -> Cache {
        Cache { capacity, stamps: BTreeMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// Whether a block is there; it is afterwards.
    pub fn touch(&mut self, file: u64, block: u64) -> bool {
        if self.capacity == 0 {
            return false;
        }
        self.next += 1;
        let key = (file, block);
        let old = self.stamps.insert(key, self.next);
        if let Some(old) = old {
            self.order.remove(&old);
        }
        self.order.insert(self.next, key);
        if self.stamps.len() > self.capacity
            && let Some((_, victim)) = self.order.pop_first()
        {
            self.stamps.remove(&victim);
        }
        old.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut cache = Cache::new(2);
        let hits = [1, 2, 1, 3, 2, 1].map(|block| cache.touch(0, block));
        assert_eq!(hits, [false, false, true, false, false, false]);
        assert!(!Cache::new(0).touch(1, 1));
    }
}
