use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// Two vectors from the least to the most recently used: (page, dirty).
pub struct TwoLevelLru {
    n: usize,
    hot_cap: usize,
    borrow: bool,
    candidates: Vec<(u32, bool)>,
    hot: Vec<(u32, bool)>,
}

impl TwoLevelLru {
    pub fn new(n: usize, hot: usize, borrow: bool) -> TwoLevelLru {
        let hot_cap = if hot == 0 { n / 3 } else { hot };
        TwoLevelLru { n, hot_cap, borrow, candidates: Vec::new(), hot: Vec::new() }
    }
}

impl Twin for TwoLevelLru {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let found = [&mut self.candidates, &mut self.hot].into_iter().find_map(|list| {
            let at = list.iter().position(|e| e.0 == a.page)?;
            Some(list.remove(at))
        });
        if let Some((page, dirty)) = found {
            tally.hits += 1;
            self.hot.push((page, dirty || a.write));
            if self.hot.len() > self.hot_cap {
                self.candidates.push(self.hot.remove(0));
            }
            return;
        }
        let cap = if self.borrow { self.n - self.hot.len() } else { self.n - self.hot_cap };
        if self.candidates.len() == cap {
            let list = if cap == 0 { &mut self.hot } else { &mut self.candidates };
            tally.gone(list.remove(0).1);
        }
        self.candidates.push((a.page, a.write));
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.candidates.retain(|e| e.0 != page);
        self.hot.retain(|e| e.0 != page);
    }
    fn flush(&mut self) {
        self.candidates.iter_mut().chain(&mut self.hot).for_each(|e| e.1 = false);
    }
}
