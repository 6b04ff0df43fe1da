//! The miss-ratio curve of LRU for all sizes in one pass: stack distances (Mattson et al., 1970),
//! counted with a tree of marks over time; or of a sample of the pages, chosen by hash (SHARDS:
//! Waldspurger et al., FAST 2015, fixed rate), its distances scaled back.

use std::collections::HashMap;

use block::Op;
use ssd::HitAccess;

use super::pages::is_access;

/// Which pages are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sample {
    /// All: the curve is exact.
    All,
    /// One in so many.
    OneIn(u32),
}

/// One size of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    /// Entries of the buffer.
    pub entries: u64,
    /// Misses among all accesses, scaled up if sampled.
    pub misses: u64,
}

/// Stack distances of the accesses so far.
#[derive(Clone, Debug)]
pub struct Curve {
    sample: Sample,
    /// When each page was accessed last, as a place in `marks`.
    last: HashMap<u32, u32>,
    /// A Fenwick tree: one mark at the latest access of every page.
    marks: Vec<u32>,
    clock: u32,
    /// Accesses per distance, from 1 on; 0 counts the first accesses of pages.
    distances: Vec<u64>,
    accesses: u64,
    sampled: u64,
}

/// Marks before the tree is packed again.
const ROOM: usize = 1 << 20;

impl Curve {
    /// An empty curve.
    pub fn new(sample: Sample) -> Curve {
        Curve {
            sample,
            last: HashMap::new(),
            marks: vec![0; ROOM + 1],
            clock: 0,
            distances: vec![0],
            accesses: 0,
            sampled: 0,
        }
    }

    fn rate(&self) -> u32 {
        match self.sample {
            Sample::All => 1,
            Sample::OneIn(n) => n.max(1),
        }
    }

    /// Takes one access into account. A discarded page leaves the stack.
    pub fn add(&mut self, access: &HitAccess) {
        let page = access.page.0;
        self.accesses += u64::from(is_access(access.op));
        // The upper bits of a multiplicative hash decide; they are independent of the address.
        let hash = u64::from(page).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        let hash = hash.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        if !hash.is_multiple_of(u64::from(self.rate())) {
            return;
        }
        if access.op == Op::Discard {
            if let Some(at) = self.last.remove(&page) {
                self.mark(at, false);
            }
            return;
        }
        if !is_access(access.op) {
            return;
        }
        self.sampled += 1;
        if self.clock as usize + 1 >= self.marks.len() {
            self.pack();
        }
        self.clock += 1;
        let now = self.clock;
        let distance = match self.last.insert(page, now) {
            None => 0,
            Some(before) => {
                let later = self.last.len() as u32 - self.marked_to(before);
                self.mark(before, false);
                // The page itself and those accessed since.
                later as usize + 1
            }
        };
        self.mark(now, true);
        if distance >= self.distances.len() {
            self.distances.resize(distance + 1, 0);
        }
        self.distances[distance] += 1;
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
        let mut order: Vec<(u32, u32)> = self.last.iter().map(|(page, at)| (*at, *page)).collect();
        order.sort_unstable();
        let room = (2 * order.len()).next_power_of_two().max(ROOM);
        self.marks.clear();
        self.marks.resize(room + 1, 0);
        self.clock = 0;
        for (_, page) in order {
            self.clock += 1;
            self.last.insert(page, self.clock);
            self.mark(self.clock, true);
        }
    }

    /// Misses at a size.
    pub fn misses(&self, entries: u64) -> u64 {
        let rate = u64::from(self.rate());
        let kept = (entries / rate) as usize;
        let hits: u64 = self.distances.iter().skip(1).take(kept).sum();
        if self.sampled == 0 {
            return self.accesses;
        }
        if self.sample == Sample::All {
            return self.accesses - hits;
        }
        // The sample may hold more or fewer accesses than its share: the difference is counted
        // as hits at the smallest distance (SHARDS-adj), as it comes from a few hot pages.
        let expected = self.accesses / rate;
        let hits = (hits + expected).saturating_sub(self.sampled);
        (self.accesses - (hits * rate).min(self.accesses)).min(self.accesses)
    }

    /// The curve at 1, 2, 3, 4, 6, 8, 12 .. entries, up to where no more hits are gained.
    pub fn points(&self) -> Vec<CurvePoint> {
        let most = (self.distances.len() as u64 - 1).max(1) * u64::from(self.rate());
        let doubled = (0..48).flat_map(|shift| [1u64 << shift, 3 << shift >> 1]);
        let mut sizes: Vec<u64> = doubled.filter(|entries| *entries < most).collect();
        sizes.push(most);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
            .into_iter()
            .map(|entries| CurvePoint { entries, misses: self.misses(entries) })
            .collect()
    }

    /// Which pages were looked at.
    pub fn sample(&self) -> Sample {
        self.sample
    }
    /// Accesses of all pages.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}
