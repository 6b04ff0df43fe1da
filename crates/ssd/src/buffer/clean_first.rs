//! A list whose least recently used *clean* entry is found at once.
//!
//! It is one list by the time of arrival, kept in parts: the clean entries, the dirty ones, and
//! those that a flush has cleaned since they arrived. The last keep their place in the order, which
//! is somewhere between the clean ones; so they wait in a heap by rank. Without flushes it is empty
//! and every step is O(1); with them, a step costs O(log of the entries cleaned so).
//!
//! Invariants: the class of an entry is `base` plus its part; ranks rise from the back of a part to
//! its front; dirty entries are in the dirty part and nowhere else.

use super::{Frame, List, Pool};

const CLEAN: u8 = 0;
const DIRTY: u8 = 1;
const LATE: u8 = 2;

/// When each entry of the pool arrived in its list. Lists of one policy share it.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    rank: Vec<u64>,
    /// Place in a heap.
    place: Vec<u32>,
    next: u64,
}

impl Ranks {
    pub fn new(entries: usize) -> Ranks {
        Ranks { rank: vec![0; entries], place: vec![0; entries], next: 0 }
    }
    fn of(&self, frame: Frame) -> u64 {
        self.rank[frame.0 as usize]
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct CleanFirst {
    base: u8,
    clean: List,
    dirty: List,
    late: Vec<Frame>,
}

impl CleanFirst {
    /// A list that takes the classes `base`, `base + 1` and `base + 2`.
    pub fn new(base: u8, entries: usize) -> CleanFirst {
        let late = Vec::with_capacity(entries);
        CleanFirst { base, clean: List::default(), dirty: List::default(), late }
    }
    pub fn len(&self) -> usize {
        self.clean.len() + self.dirty.len() + self.late.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether an entry of that class is in this list.
    #[inline]
    pub fn holds(&self, class: u8) -> bool {
        (self.base..=self.base + LATE).contains(&class)
    }

    /// An entry in no list arrives at the front.
    #[inline]
    pub fn push(&mut self, ranks: &mut Ranks, pool: &mut Pool, frame: Frame, dirty: bool) {
        ranks.rank[frame.0 as usize] = ranks.next;
        ranks.next += 1;
        pool.set_class(frame, self.base + u8::from(dirty));
        let part = if dirty { &mut self.dirty } else { &mut self.clean };
        pool.push_front(part, frame);
    }

    /// Takes an entry of this list out.
    #[inline]
    pub fn unlink(&mut self, ranks: &mut Ranks, pool: &mut Pool, frame: Frame) {
        match pool.class(frame) - self.base {
            CLEAN => pool.unlink(&mut self.clean, frame),
            DIRTY => pool.unlink(&mut self.dirty, frame),
            _ => self.unheap(ranks, frame),
        }
    }

    /// A dirty entry of this list was programmed and stays where it is.
    pub fn cleaned(&mut self, ranks: &mut Ranks, pool: &mut Pool, frame: Frame) {
        debug_assert_eq!(pool.class(frame), self.base + DIRTY);
        pool.unlink(&mut self.dirty, frame);
        pool.set_class(frame, self.base + LATE);
        self.late.push(frame);
        self.rise(ranks, self.late.len() - 1);
    }

    /// The least recent clean entry.
    #[inline]
    pub fn last_clean(&self, ranks: &Ranks) -> Option<Frame> {
        match (self.clean.back(), self.late.first().copied()) {
            (Some(a), Some(b)) => Some(if ranks.of(a) < ranks.of(b) { a } else { b }),
            (a, b) => a.or(b),
        }
    }
    /// The least recent dirty entry.
    #[inline]
    pub fn last_dirty(&self) -> Option<Frame> {
        self.dirty.back()
    }

    fn put(&mut self, ranks: &mut Ranks, at: usize, frame: Frame) {
        self.late[at] = frame;
        ranks.place[frame.0 as usize] = at as u32;
    }
    /// Moves the entry at a place of the heap up to where it belongs.
    fn rise(&mut self, ranks: &mut Ranks, mut at: usize) {
        let frame = self.late[at];
        while at > 0 && ranks.of(frame) < ranks.of(self.late[(at - 1) / 2]) {
            self.put(ranks, at, self.late[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.put(ranks, at, frame);
    }
    /// Moves the entry at a place of the heap down to where it belongs.
    fn sink(&mut self, ranks: &mut Ranks, mut at: usize) {
        let frame = self.late[at];
        loop {
            let mut child = 2 * at + 1;
            let Some(left) = self.late.get(child) else { break };
            if self.late.get(child + 1).is_some_and(|right| ranks.of(*right) < ranks.of(*left)) {
                child += 1;
            }
            if ranks.of(frame) < ranks.of(self.late[child]) {
                break;
            }
            self.put(ranks, at, self.late[child]);
            at = child;
        }
        self.put(ranks, at, frame);
    }
    fn unheap(&mut self, ranks: &mut Ranks, frame: Frame) {
        let at = ranks.place[frame.0 as usize] as usize;
        self.late.swap_remove(at);
        if at < self.late.len() {
            self.rise(ranks, at);
            self.sink(ranks, at);
        }
    }

    /// Checks the parts against the pool.
    pub fn check(&self, ranks: &Ranks, pool: &Pool) -> Result<(), String> {
        for (part, list) in [(CLEAN, &self.clean), (DIRTY, &self.dirty)] {
            let (mut walked, mut above) = (0, u64::MAX);
            for frame in pool.iter(list) {
                let falls = ranks.of(frame) < above;
                let sorted = pool.class(frame) == self.base + part;
                if !falls || !sorted || pool.is_dirty(frame) != (part == DIRTY) {
                    return Err(format!("page {} is out of place", pool.page(frame).0));
                }
                (walked, above) = (walked + 1, ranks.of(frame));
            }
            if walked != list.len() {
                return Err(format!("{} counted, {walked} linked", list.len()));
            }
        }
        for (at, frame) in self.late.iter().enumerate() {
            let above = self.late[at.saturating_sub(1) / 2];
            let sorted = ranks.of(above) <= ranks.of(*frame);
            let placed = ranks.place[frame.0 as usize] as usize == at;
            let kind = pool.class(*frame) == self.base + LATE && !pool.is_dirty(*frame);
            if !sorted || !placed || !kind {
                return Err(format!("page {} is out of place in the heap", pool.page(*frame).0));
            }
        }
        Ok(())
    }
}
