use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// A vector in order of arrival: (page, dirty).
pub struct Fifo {
    n: usize,
    queue: Vec<(u32, bool)>,
}

impl Fifo {
    pub fn new(n: usize) -> Fifo {
        Fifo { n, queue: Vec::new() }
    }
}

impl Twin for Fifo {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if let Some(entry) = self.queue.iter_mut().find(|e| e.0 == a.page) {
            entry.1 |= a.write;
            tally.hits += 1;
            return;
        }
        if self.queue.len() == self.n {
            tally.gone(self.queue.remove(0).1);
        }
        self.queue.push((a.page, a.write));
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.queue.retain(|e| e.0 != page);
    }
    fn flush(&mut self) {
        self.queue.iter_mut().for_each(|e| e.1 = false);
    }
}
