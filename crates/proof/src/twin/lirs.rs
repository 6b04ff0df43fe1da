use std::collections::{BTreeMap, BTreeSet};

use super::{Tally, Twin, Use};

/// What is known of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Low inter-reference recency: resident.
    Low,
    /// High, and resident.
    High,
    /// Not resident, but on the stack.
    Gone,
}

/// The stack from its bottom to its top, the queue from old to new, the state of every page in
/// either, and in which order pages went.
pub struct Lirs {
    n: usize,
    low_limit: usize,
    stack: Vec<u32>,
    queue: Vec<u32>,
    state: BTreeMap<u32, State>,
    dirty: BTreeSet<u32>,
    gone: Vec<u32>,
}

impl Lirs {
    pub fn new(n: usize, hir: u64) -> Lirs {
        let high = ((n as u64 * hir / 1_000_000) as usize).max(1);
        Lirs {
            n,
            low_limit: n.saturating_sub(high),
            stack: Vec::new(),
            queue: Vec::new(),
            state: BTreeMap::new(),
            dirty: BTreeSet::new(),
            gone: Vec::new(),
        }
    }
    fn lows(&self) -> usize {
        self.state.values().filter(|s| **s == State::Low).count()
    }
    fn residents(&self) -> usize {
        self.state.values().filter(|s| **s != State::Gone).count()
    }
    /// A page that went is remembered no more.
    fn forget(&mut self, page: u32) {
        self.stack.retain(|p| *p != page);
        self.gone.retain(|p| *p != page);
        self.state.remove(&page);
    }
    fn prune(&mut self) {
        while let Some(&bottom) = self.stack.first() {
            match self.state[&bottom] {
                State::Low => break,
                State::High => {
                    self.stack.remove(0);
                }
                State::Gone => self.forget(bottom),
            }
        }
    }
    fn evict(&mut self, tally: &mut Tally) {
        let page = self.queue.remove(0);
        tally.gone(self.dirty.remove(&page));
        if self.stack.contains(&page) {
            self.state.insert(page, State::Gone);
            self.gone.push(page);
        } else {
            self.state.remove(&page);
        }
    }
    /// The page is on top of the stack from now on, low or high.
    fn enter(&mut self, page: u32, low: bool) {
        self.stack.retain(|p| *p != page);
        self.queue.retain(|p| *p != page);
        self.stack.push(page);
        if low {
            self.state.insert(page, State::Low);
            if self.lows() > self.low_limit {
                let bottom = self.stack.remove(0);
                self.state.insert(bottom, State::High);
                self.queue.push(bottom);
            }
        } else {
            self.state.insert(page, State::High);
            self.queue.push(page);
        }
        self.prune();
        while self.stack.len() > 2 * self.n && !self.gone.is_empty() {
            self.forget(self.gone[0]);
        }
    }
}

impl Twin for Lirs {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let room = self.lows() < self.low_limit;
        let low = match self.state.get(&a.page) {
            Some(State::Low) => true,
            Some(State::High) => room || self.stack.contains(&a.page),
            Some(State::Gone) => true,
            None => room,
        };
        match self.state.get(&a.page) {
            Some(State::Low | State::High) => tally.hits += 1,
            _ => {
                self.forget(a.page);
                if self.residents() == self.n {
                    self.evict(tally);
                }
            }
        }
        if a.write {
            self.dirty.insert(a.page);
        }
        self.enter(a.page, low);
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.forget(page);
        self.queue.retain(|p| *p != page);
        self.dirty.remove(&page);
        self.prune();
    }
    fn flush(&mut self) {
        self.dirty.clear();
    }
}
