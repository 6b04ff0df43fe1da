//! Belady's rule: what is used again last goes first. A bound on misses, not on programs.
//!
//! Invariants: the heap holds every entry once, `place` says where; no entry has a greater rank
//! than the one above it. Of pages that are never used again the highest number goes first, after
//! the clean ones where the option says so.

use block::Op;

use crate::buffer::{Access, Admission, Batches, Frame, Policy, Pool, Stream};

/// Rank of what is never used again.
const NEVER: u64 = u64::MAX;

/// A heap of all entries, the one to go at its top.
#[derive(Clone, Debug)]
pub(super) struct Belady {
    clean_first: bool,
    heap: Vec<u32>,
    place: Vec<u32>,
    rank: Vec<(u64, u32)>,
}

impl Belady {
    pub fn new(entries: usize, clean_first: bool) -> Belady {
        Belady {
            clean_first,
            heap: Vec::with_capacity(entries),
            place: vec![0; entries],
            rank: vec![(0, 0); entries],
        }
    }

    fn rank(&self, page: u32, next_use: u64, dirty: bool) -> (u64, u32) {
        let waits = self.clean_first && dirty && next_use == NEVER;
        (next_use - u64::from(waits), page)
    }
    fn above(&self, a: usize, b: usize) -> bool {
        self.rank[self.heap[a] as usize] > self.rank[self.heap[b] as usize]
    }
    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }
    /// Moves the entry at `at` to where its rank belongs.
    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.above(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let mut best = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.above(child, best) {
                    best = child;
                }
            }
            if best == at {
                return;
            }
            self.swap(at, best);
            at = best;
        }
    }
    fn take(&mut self, frame: Frame) {
        let (at, last) = (self.place[frame.0 as usize] as usize, self.heap.len() - 1);
        self.swap(at, last);
        self.heap.pop();
        if at < last {
            self.settle(at);
        }
    }
    fn set(&mut self, frame: Frame, rank: (u64, u32)) {
        self.rank[frame.0 as usize] = rank;
        self.settle(self.place[frame.0 as usize] as usize);
    }
}

impl Policy for Belady {
    fn hit(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>) {
        let dirty = pool.is_dirty(frame) || access.op == Op::Write;
        self.set(frame, self.rank(access.page.0, access.next_use, dirty));
    }
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(top) = self.heap.first()
        {
            let last_used = Frame(*top);
            self.take(last_used);
            out.evict(last_used, Stream::Other);
        }
        Admission::Admit(0)
    }
    fn inserted(&mut self, _: &mut Pool, frame: Frame, access: &Access<'_>) {
        self.place[frame.0 as usize] = self.heap.len() as u32;
        self.heap.push(frame.0);
        let dirty = access.op == Op::Write;
        self.set(frame, self.rank(access.page.0, access.next_use, dirty));
    }
    fn removed(&mut self, _: &mut Pool, frame: Frame) {
        self.take(frame);
    }
    fn cleaned(&mut self, _: &mut Pool, frame: Frame) {
        let (next_use, page) = self.rank[frame.0 as usize];
        if self.clean_first && next_use == NEVER - 1 {
            self.set(frame, (NEVER, page));
        }
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("heap", self.heap.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        if self.heap.len() != pool.resident() {
            return Err(format!("{} in the heap, {} resident", self.heap.len(), pool.resident()));
        }
        for (at, &frame) in self.heap.iter().enumerate() {
            let page = pool.page(Frame(frame));
            if pool.find(page) != Some(Frame(frame)) || self.rank[frame as usize].1 != page.0 {
                return Err(format!("the heap holds page {}, which is not resident", page.0));
            }
            if self.place[frame as usize] as usize != at {
                return Err(format!("page {} is not where it is sought", page.0));
            }
            if at > 0 && self.above(at, (at - 1) / 2) {
                return Err(format!("page {} goes before the one above it", page.0));
            }
        }
        Ok(())
    }
}
