use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// One entry of the queue.
struct Entry {
    page: u32,
    dirty: bool,
    hit: bool,
}

/// A vector from old to new, and the place of the hand.
pub struct Sieve {
    n: usize,
    queue: Vec<Entry>,
    hand: usize,
}

impl Sieve {
    pub fn new(n: usize) -> Sieve {
        Sieve { n, queue: Vec::new(), hand: 0 }
    }
    /// Takes an entry out; what is newer moves down by one, and the hand with it.
    fn take(&mut self, at: usize) -> Entry {
        if at < self.hand {
            self.hand -= 1;
        }
        let entry = self.queue.remove(at);
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
        entry
    }
}

impl Twin for Sieve {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if let Some(entry) = self.queue.iter_mut().find(|e| e.page == a.page) {
            entry.hit = true;
            entry.dirty |= a.write;
            tally.hits += 1;
            return;
        }
        if self.queue.len() == self.n {
            while self.queue[self.hand].hit {
                self.queue[self.hand].hit = false;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            tally.gone(self.take(self.hand).dirty);
        }
        self.queue.push(Entry { page: a.page, dirty: a.write, hit: false });
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        if let Some(at) = self.queue.iter().position(|e| e.page == page) {
            self.take(at);
        }
    }
    fn flush(&mut self) {
        self.queue.iter_mut().for_each(|e| e.dirty = false);
    }
}
