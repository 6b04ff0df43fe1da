use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// One entry of the queue.
struct Entry {
    page: u32,
    dirty: bool,
    hit: bool,
}

/// A vector from the hand on.
pub struct Clock {
    n: usize,
    queue: Vec<Entry>,
}

impl Clock {
    pub fn new(n: usize) -> Clock {
        Clock { n, queue: Vec::new() }
    }
}

impl Twin for Clock {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if let Some(entry) = self.queue.iter_mut().find(|e| e.page == a.page) {
            entry.hit = true;
            entry.dirty |= a.write;
            tally.hits += 1;
            return;
        }
        while self.queue.len() == self.n {
            let entry = self.queue.remove(0);
            if entry.hit {
                self.queue.push(Entry { hit: false, ..entry });
            } else {
                tally.gone(entry.dirty);
            }
        }
        self.queue.push(Entry { page: a.page, dirty: a.write, hit: false });
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.queue.retain(|e| e.page != page);
    }
    fn flush(&mut self) {
        self.queue.iter_mut().for_each(|e| e.dirty = false);
    }
}
