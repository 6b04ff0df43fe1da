use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

struct Entry {
    page: u32,
    dirty: bool,
    cold: bool,
}

/// A vector from the least to the most recently used.
pub struct LruWsr {
    n: usize,
    order: Vec<Entry>,
}

impl LruWsr {
    pub fn new(n: usize) -> LruWsr {
        LruWsr { n, order: Vec::new() }
    }
}

impl Twin for LruWsr {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let mut dirty = a.write;
        if let Some(at) = self.order.iter().position(|e| e.page == a.page) {
            dirty |= self.order.remove(at).dirty;
            tally.hits += 1;
        } else {
            while self.order.len() == self.n {
                let last = self.order.remove(0);
                if last.dirty && !last.cold {
                    self.order.push(Entry { cold: true, ..last });
                } else {
                    tally.gone(last.dirty);
                }
            }
        }
        self.order.push(Entry { page: a.page, dirty, cold: false });
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.order.retain(|e| e.page != page);
    }
    fn flush(&mut self) {
        self.order.iter_mut().for_each(|e| e.dirty = false);
    }
}
