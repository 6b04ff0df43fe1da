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
        }
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
        let mut all = self.small.iter_mut().chain(&mut self.main);
        if let Some(entry) = all.find(|e| e.page == a.page) {
            entry.dirty |= a.write;
            entry.hits = (entry.hits + 1).min(3);
            tally.hits += 1;
            return;
        }
        let known = self.ghosts.contains(&a.page);
        self.ghosts.retain(|p| *p != a.page);
        // The queue is chosen once; an emptied small queue leaves the rest to the main one.
        let choice = self.main.len() > self.n.saturating_sub(self.small_limit);
        while self.small.len() + self.main.len() == self.n {
            self.evicted = true;
            self.step(choice || self.small.is_empty(), tally);
        }
        let filling = !self.evicted && self.small.len() >= self.small_limit;
        let queue = if known || filling { &mut self.main } else { &mut self.small };
        queue.push(Entry { page: a.page, dirty: a.write, hits: 0 });
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
