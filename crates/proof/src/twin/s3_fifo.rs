use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// One entry of a queue.
#[derive(Clone, Copy)]
struct Entry {
    page: u32,
    dirty: bool,
    hits: u64,
}

/// Three vectors from old to new.
pub struct S3Fifo {
    n: usize,
    small_limit: usize,
    ghost_limit: usize,
    threshold: u64,
    small: Vec<Entry>,
    main: Vec<Entry>,
    ghosts: Vec<u32>,
    evicted: bool,
    /// Entries of the buffer that are not in its queues.
    pub beside: usize,
}

impl S3Fifo {
    pub fn new(n: usize, small: u64, ghost: u64, threshold: u64) -> S3Fifo {
        let part = |share| (n as u64 * share / 1_000_000) as usize;
        S3Fifo {
            n,
            small_limit: part(small).max(1),
            ghost_limit: part(ghost),
            threshold,
            small: Vec::new(),
            main: Vec::new(),
            ghosts: Vec::new(),
            evicted: false,
            beside: 0,
        }
    }
    /// A page that is not buffered comes: whether it goes to the main queue; room is made if there is
    /// none.
    pub fn enter(&mut self, page: u32, tally: &mut Tally) -> bool {
        let known = self.ghosts.contains(&page);
        self.ghosts.retain(|p| *p != page);
        // The queue is chosen once; an emptied small queue leaves the rest to the main one.
        let choice = self.main.len() > self.n.saturating_sub(self.small_limit);
        while self.small.len() + self.main.len() + self.beside == self.n {
            self.evicted = true;
            self.step(choice || self.small.is_empty(), tally);
        }
        known || !self.evicted && self.small.len() >= self.small_limit
    }

    /// It goes to its queue.
    pub fn put(&mut self, page: u32, dirty: bool, in_main: bool) {
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.push(Entry { page, dirty, hits: 0 });
    }

    /// Whether it holds a page, which is accessed.
    pub fn found(&mut self, page: u32, write: bool) -> bool {
        let mut all = self.small.iter_mut().chain(&mut self.main);
        let Some(entry) = all.find(|e| e.page == page) else { return false };
        entry.dirty |= write;
        entry.hits = (entry.hits + 1).min(3);
        true
    }

    /// A page goes elsewhere: what is remembered of it goes.
    pub fn forget(&mut self, page: u32) {
        self.ghosts.retain(|p| *p != page);
    }

    /// Entries of its queues.
    pub fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// One step of making room.
    fn step(&mut self, from_main: bool, tally: &mut Tally) {
        if from_main {
            let oldest = self.main.remove(0);
            if oldest.hits > 0 {
                self.main.push(Entry { hits: oldest.hits - 1, ..oldest });
            } else {
                tally.gone(oldest.dirty);
            }
            return;
        }
        let oldest = self.small.remove(0);
        if oldest.hits >= self.threshold {
            self.main.push(Entry { hits: 0, ..oldest });
            return;
        }
        tally.gone(oldest.dirty);
        self.ghosts.push(oldest.page);
        if self.ghosts.len() > self.ghost_limit {
            self.ghosts.remove(0);
        }
    }
}

impl Twin for S3Fifo {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if self.found(a.page, a.write) {
            tally.hits += 1;
            return;
        }
        let in_main = self.enter(a.page, tally);
        self.put(a.page, a.write, in_main);
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.small.retain(|e| e.page != page);
        self.main.retain(|e| e.page != page);
        self.ghosts.retain(|p| *p != page);
    }
    fn flush(&mut self) {
        self.small.iter_mut().chain(&mut self.main).for_each(|e| e.dirty = false);
    }
}
