//! Pages in the order of their last access, and how deep in it each one lies: its stack distance (Mattson et al., 1970),
//! counted with a tree of marks over time (Bennett and Kruskal, 1975).

use std::collections::BTreeSet;

use super::table::PageTable;

/// Stack distances of the accesses so far.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    /// When each page was accessed last, as a place in `marks`.
    last: PageTable,
    /// Places in `marks` that a discarded page has left. A buffer deeper than a hole has a free
    /// entry, which its next miss takes: so a hole is filled by the next access from below it.
    holes: BTreeSet<u32>,
    /// A Fenwick tree: one mark at the latest access of every page, and at every hole.
    marks: Vec<u32>,
    clock: u32,
    /// Marks before the tree is packed again, at least.
    room: usize,
}

impl Stack {
    /// An empty one, with room for so many accesses.
    pub(super) fn new(room: usize) -> Stack {
        let (last, holes) = (PageTable::default(), BTreeSet::new());
        Stack { last, holes, marks: vec![0; room + 1], clock: 0, room }
    }

    /// A page is gone.
    pub(super) fn discard(&mut self, page: u32) {
        match self.last.set(page, 0) {
            0 => {}
            at => drop(self.holes.insert(at)),
        }
    }

    /// The page comes to the top: the entries that a buffer needs for a hit; 0 if it was never accessed.
    pub(super) fn access(&mut self, page: u32) -> usize {
        if self.clock as usize + 1 >= self.marks.len() {
            self.pack();
        }
        self.clock += 1;
        let now = self.clock;
        let before = Some(self.last.set(page, now)).filter(|before| *before != 0);
        let distance = match before {
            None => 0,
            // The page itself, and all places above it.
            Some(before) => {
                let all = self.last.len + self.holes.len();
                all - self.marked_to(before) as usize + 1
            }
        };
        let topmost = self.holes.last().copied().filter(|hole| before.is_none_or(|at| at < *hole));
        match (topmost, before) {
            (Some(hole), before) => {
                self.holes.remove(&hole);
                self.mark(hole, false);
                // Buffers deeper than the page hit, and keep their free entry.
                self.holes.extend(before);
            }
            (None, Some(before)) => self.mark(before, false),
            (None, None) => {}
        }
        self.mark(now, true);
        distance
    }

    fn mark(&mut self, at: u32, on: bool) {
        let mut at = at as usize;
        while at < self.marks.len() {
            if on {
                self.marks[at] += 1;
            } else {
                self.marks[at] -= 1;
            }
            at += at & at.wrapping_neg();
        }
    }

    /// Marks up to a place, itself included.
    fn marked_to(&self, at: u32) -> u32 {
        let (mut at, mut sum) = (at as usize, 0);
        while at > 0 {
            sum += self.marks[at];
            at &= at - 1;
        }
        sum
    }

    /// Numbers the latest accesses from 1 again; the tree doubles if they fill half of it.
    fn pack(&mut self) {
        let pages = self.last.iter().map(|(page, at)| (at, Some(page)));
        let holes = self.holes.iter().map(|at| (*at, None));
        let mut order: Vec<(u32, Option<u32>)> = pages.chain(holes).collect();
        order.sort_unstable();
        self.holes.clear();
        let room = (2 * order.len()).next_power_of_two().max(self.room);
        self.marks.clear();
        self.marks.resize(room + 1, 0);
        self.clock = 0;
        for (_, page) in order {
            self.clock += 1;
            match page {
                Some(page) => drop(self.last.set(page, self.clock)),
                None => drop(self.holes.insert(self.clock)),
            }
            self.mark(self.clock, true);
        }
    }
}
