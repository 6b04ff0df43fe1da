use std::collections::BTreeSet;

use block::Rng;
use ssd::BufferShape;

use super::{Tally, Twin, Use};

/// Three vectors from the least to the most recently used, (page, dirty); what became dirty first
/// is also known, because a flush cleans in that order.
pub struct PtLru {
    n: usize,
    p: u64,
    rng: Rng,
    clean: Vec<u32>,
    dirty: Vec<u32>,
    hit: Vec<(u32, bool)>,
    since: Vec<u32>,
}

impl PtLru {
    pub fn new(shape: BufferShape, p: u64) -> PtLru {
        PtLru {
            n: shape.entries,
            p,
            rng: Rng::stream(shape.seed, "buffer/pt-lru"),
            clean: Vec::new(),
            dirty: Vec::new(),
            hit: Vec::new(),
            since: Vec::new(),
        }
    }
    fn take(&mut self, page: u32) -> Option<bool> {
        if let Some(at) = self.clean.iter().position(|p| *p == page) {
            self.clean.remove(at);
            return Some(false);
        }
        if let Some(at) = self.dirty.iter().position(|p| *p == page) {
            self.dirty.remove(at);
            return Some(true);
        }
        let at = self.hit.iter().position(|e| e.0 == page)?;
        Some(self.hit.remove(at).1)
    }
    fn victim(&mut self) -> u32 {
        if !self.clean.is_empty() {
            return self.clean[0];
        }
        let chosen = !self.dirty.is_empty() && self.rng.ratio(self.p, 1_000_000);
        if !self.dirty.is_empty() && (chosen || self.hit.is_empty()) {
            return self.dirty[0];
        }
        self.hit.iter().find(|e| !e.1).unwrap_or(&self.hit[0]).0
    }
}

impl Twin for PtLru {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if let Some(dirty) = self.take(a.page) {
            tally.hits += 1;
            self.hit.push((a.page, dirty || a.write));
        } else {
            if self.clean.len() + self.dirty.len() + self.hit.len() == self.n {
                let victim = self.victim();
                tally.gone(self.take(victim) == Some(true));
                self.since.retain(|p| *p != victim);
            }
            let list = if a.write { &mut self.dirty } else { &mut self.clean };
            list.push(a.page);
        }
        if a.write && !self.since.contains(&a.page) {
            self.since.push(a.page);
        }
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.take(page);
        self.since.retain(|p| *p != page);
    }
    fn flush(&mut self) {
        for page in std::mem::take(&mut self.since) {
            if let Some(at) = self.dirty.iter().position(|p| *p == page) {
                self.dirty.remove(at);
                self.clean.push(page);
            }
        }
        self.hit.iter_mut().for_each(|e| e.1 = false);
    }
}
