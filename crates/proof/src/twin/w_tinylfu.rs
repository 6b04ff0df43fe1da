use std::collections::{BTreeMap, BTreeSet};

use super::{Tally, Twin, Use};

/// Window, probation and protected segment, each from the least to the most recent: (page,
/// dirty); counters by (block, row, column).
pub struct WTinyLfu {
    window_limit: usize,
    main_limit: usize,
    protected_limit: usize,
    window: Vec<(u32, bool)>,
    probation: Vec<(u32, bool)>,
    protected: Vec<(u32, bool)>,
    counters: BTreeMap<(u64, u64, u64), u64>,
    blocks: u64,
    accesses: u64,
    sample: u64,
}

impl WTinyLfu {
    pub fn new(n: usize, window: u64) -> WTinyLfu {
        let window_limit = ((n as u64 * window / 1_000_000) as usize).max(1).min(n);
        let mut blocks = 1;
        while blocks * 8 < n as u64 {
            blocks *= 2;
        }
        WTinyLfu {
            window_limit,
            main_limit: n - window_limit,
            protected_limit: (n - window_limit) * 4 / 5,
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            counters: BTreeMap::new(),
            blocks,
            accesses: 0,
            sample: 10 * n as u64,
        }
    }
    /// The counter of a page in each of four rows of 32.
    fn places(&self, page: u32) -> [(u64, u64, u64); 4] {
        let mut hash = (u64::from(page) + 1).wrapping_mul(11_400_714_819_323_198_485);
        hash ^= hash / (1 << 32);
        hash = hash.wrapping_mul(15_485_907_386_658_061_715);
        let block = hash / (1 << 32) % self.blocks;
        let columns = hash ^ (hash / (1 << 40));
        [0, 1, 2, 3].map(|row| (block, row, columns / 32_u64.pow(row as u32) % 32))
    }
    fn count(&mut self, page: u32) {
        for place in self.places(page) {
            let counter = self.counters.entry(place).or_insert(0);
            *counter = (*counter + 1).min(15);
        }
        self.accesses += 1;
        if self.accesses == self.sample {
            self.counters.values_mut().for_each(|c| *c /= 2);
            self.accesses = 0;
        }
    }
    fn frequency(&self, page: u32) -> u64 {
        let each = self.places(page).map(|place| self.counters.get(&place).copied().unwrap_or(0));
        each.into_iter().min().expect("four rows")
    }
    fn hit(&mut self, a: Use) -> bool {
        let at = |list: &[(u32, bool)]| list.iter().position(|e| e.0 == a.page);
        if let Some(at) = at(&self.window) {
            let entry = self.window.remove(at);
            self.window.push((entry.0, entry.1 || a.write));
        } else if let Some(at) = at(&self.protected) {
            let entry = self.protected.remove(at);
            self.protected.push((entry.0, entry.1 || a.write));
        } else if let Some(at) = at(&self.probation) {
            let entry = self.probation.remove(at);
            self.protected.push((entry.0, entry.1 || a.write));
            if self.protected.len() > self.protected_limit {
                self.probation.push(self.protected.remove(0));
            }
        } else {
            return false;
        }
        true
    }
    fn make_room(&mut self, tally: &mut Tally) {
        if self.window.len() < self.window_limit {
            return;
        }
        let candidate = self.window.remove(0);
        if self.probation.len() + self.protected.len() < self.main_limit {
            self.probation.push(candidate);
            return;
        }
        let from =
            if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
        let Some(victim) = from.first().copied() else {
            tally.gone(candidate.1);
            return;
        };
        if self.frequency(candidate.0) <= self.frequency(victim.0) {
            tally.gone(candidate.1);
            return;
        }
        self.probation.retain(|e| e.0 != victim.0);
        self.protected.retain(|e| e.0 != victim.0);
        tally.gone(victim.1);
        self.probation.push(candidate);
    }
}

impl Twin for WTinyLfu {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        self.count(a.page);
        if self.hit(a) {
            tally.hits += 1;
            return;
        }
        self.make_room(tally);
        self.window.push((a.page, a.write));
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            list.retain(|e| e.0 != page);
        }
    }
    fn flush(&mut self) {
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            list.iter_mut().for_each(|e| e.1 = false);
        }
    }
}
