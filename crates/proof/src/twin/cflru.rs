use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// A vector from the least to the most recently used, (page, dirty), whose window is scanned.
pub struct Cflru {
    n: usize,
    window: usize,
    order: Vec<(u32, bool)>,
}

impl Cflru {
    pub fn new(n: usize, window: usize) -> Cflru {
        let window = if window == 0 { n / 3 } else { window };
        Cflru { n, window, order: Vec::new() }
    }
}

impl Twin for Cflru {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let mut dirty = a.write;
        if let Some(at) = self.order.iter().position(|e| e.0 == a.page) {
            dirty |= self.order.remove(at).1;
            tally.hits += 1;
        } else if self.order.len() == self.n {
            let clean = self.order[..self.window].iter().position(|e| !e.1);
            tally.gone(self.order.remove(clean.unwrap_or(0)).1);
        }
        self.order.push((a.page, dirty));
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.order.retain(|e| e.0 != page);
    }
    fn flush(&mut self) {
        self.order.iter_mut().for_each(|e| e.1 = false);
    }
}
