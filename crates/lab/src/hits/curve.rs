//! The miss-ratio curve of LRU for all sizes in one pass: stack distances (Mattson et al., 1970),
//! counted with a tree of marks over time; or of a sample of the pages, chosen by hash (SHARDS:
//! Waldspurger et al., FAST 2015, fixed rate), its distances scaled back.

use std::collections::BTreeSet;

use block::Op;
use ssd::HitAccess;

use super::pages::is_access;
use super::table::PageTable;

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
    /// Standard error of the miss ratio in millionths: 0 if all pages were looked at.
    pub error: u64,
}

/// Parts of a sample, by hash, whose differences tell how far it may be off.
const PARTS: usize = 8;

/// Stack distances of the accesses so far.
#[derive(Clone, Debug)]
pub struct Curve {
    sample: Sample,
    /// When each page was accessed last, as a place in `marks`.
    last: PageTable,
    /// Places in `marks` that a discarded page has left. A buffer deeper than a hole has a free
    /// entry, which its next miss takes: so a hole is filled by the next access from below it.
    holes: BTreeSet<u32>,
    /// A Fenwick tree: one mark at the latest access of every page, and at every hole.
    marks: Vec<u32>,
    clock: u32,
    /// Accesses per distance, from 1 on, for each part; 0 counts the first accesses of pages.
    distances: Vec<[u64; PARTS]>,
    accesses: u64,
    sampled: [u64; PARTS],
}

/// Marks before the tree is packed again.
const ROOM: usize = 1 << 20;

impl Curve {
    /// An empty curve.
    pub fn new(sample: Sample) -> Curve {
        Curve {
            sample,
            last: PageTable::default(),
            holes: BTreeSet::new(),
            marks: vec![0; ROOM + 1],
            clock: 0,
            distances: vec![[0; PARTS]],
            accesses: 0,
            sampled: [0; PARTS],
        }
    }

    fn rate(&self) -> u32 {
        match self.sample {
            Sample::All => 1,
            Sample::OneIn(n) => n.max(1),
        }
    }

    /// Takes one access into account.
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
            match self.last.set(page, 0) {
                0 => {}
                at => drop(self.holes.insert(at)),
            }
            return;
        }
        if !is_access(access.op) {
            return;
        }
        let part = (hash / u64::from(self.rate())) as usize % PARTS;
        self.sampled[part] += 1;
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
        if distance >= self.distances.len() {
            self.distances.resize(distance + 1, [0; PARTS]);
        }
        self.distances[distance][part] += 1;
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
        let room = (2 * order.len()).next_power_of_two().max(ROOM);
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

    /// Hits of each part at a size.
    fn hits(&self, entries: u64) -> [u64; PARTS] {
        let kept = (entries / u64::from(self.rate())) as usize;
        let mut hits = [0; PARTS];
        for counts in self.distances.iter().skip(1).take(kept) {
            hits.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        hits
    }

    /// Misses at a size.
    pub fn misses(&self, entries: u64) -> u64 {
        let hits: u64 = self.hits(entries).iter().sum();
        let sampled: u64 = self.sampled.iter().sum();
        if self.sample == Sample::All || sampled == 0 {
            return self.accesses - hits;
        }
        // The sample may hold more or fewer accesses than its share: the difference is counted
        // as hits at the smallest distance (SHARDS-adj), as it comes from a few hot pages.
        let rate = u64::from(self.rate());
        let hits = (hits + self.accesses / rate).saturating_sub(sampled);
        self.accesses - (hits * rate).min(self.accesses)
    }

    /// The standard error of the miss ratio at a size, from the differences between the parts of
    /// the sample, in millionths.
    pub fn error(&self, entries: u64) -> u64 {
        if self.sample == Sample::All {
            return 0;
        }
        let hits = self.hits(entries);
        let used = hits.iter().zip(&self.sampled).filter(|(_, all)| **all > 0);
        let ratios: Vec<u64> = used.map(|(hits, all)| hits * 1_000_000 / all).collect();
        if ratios.len() < 2 {
            return 1_000_000;
        }
        let n = ratios.len() as u64;
        let mean = ratios.iter().sum::<u64>() / n;
        let squares: u64 = ratios.iter().map(|ratio| ratio.abs_diff(mean).pow(2)).sum();
        (squares / (n * (n - 1))).isqrt()
    }

    /// The curve at 1, 2, 3, 4, 6, 8, 12 .. entries, up to where no more hits are gained.
    pub fn points(&self) -> Vec<CurvePoint> {
        let most = (self.distances.len() as u64 - 1).max(1) * u64::from(self.rate());
        let doubled = (0..48).flat_map(|shift| [1u64 << shift, 3 << shift >> 1]);
        // A sample says nothing about buffers of less than one of its pages.
        let least = u64::from(self.rate());
        let mut sizes: Vec<u64> = doubled.filter(|n| (least..most).contains(n)).collect();
        sizes.push(most);
        sizes.sort_unstable();
        sizes.dedup();
        let point = |entries| {
            let (misses, error) = (self.misses(entries), self.error(entries));
            CurvePoint { entries, misses, error }
        };
        sizes.into_iter().map(point).collect()
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
