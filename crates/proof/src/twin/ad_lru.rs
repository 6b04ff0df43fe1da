use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

struct Entry {
    page: u32,
    dirty: bool,
    passed: bool,
}

/// Two vectors from the least to the most recently used.
pub struct AdLru {
    n: usize,
    min_cold: usize,
    cold: Vec<Entry>,
    hot: Vec<Entry>,
}

impl AdLru {
    pub fn new(n: usize, min_cold: usize) -> AdLru {
        AdLru { n, min_cold, cold: Vec::new(), hot: Vec::new() }
    }
    fn victim(&mut self) -> Entry {
        let cold = self.cold.len() > self.min_cold || self.hot.is_empty();
        let list = if cold { &mut self.cold } else { &mut self.hot };
        if let Some(clean) = list.iter().position(|e| !e.dirty) {
            return list.remove(clean);
        }
        while !list[0].passed {
            let last = list.remove(0);
            list.push(Entry { passed: true, ..last });
        }
        list.remove(0)
    }
}

impl Twin for AdLru {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let found = [&mut self.cold, &mut self.hot].into_iter().find_map(|list| {
            let at = list.iter().position(|e| e.page == a.page)?;
            Some(list.remove(at))
        });
        if let Some(old) = found {
            tally.hits += 1;
            self.hot.push(Entry { dirty: old.dirty || a.write, passed: false, ..old });
            return;
        }
        if self.cold.len() + self.hot.len() == self.n {
            let victim = self.victim();
            tally.gone(victim.dirty);
        }
        self.cold.push(Entry { page: a.page, dirty: a.write, passed: false });
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.cold.retain(|e| e.page != page);
        self.hot.retain(|e| e.page != page);
    }
    fn flush(&mut self) {
        self.cold.iter_mut().chain(&mut self.hot).for_each(|e| e.dirty = false);
    }
}
