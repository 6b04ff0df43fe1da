//! The miss-ratio curve of LRU for all sizes in one pass over stack distances; or of a sample of the pages, chosen by hash
//! (SHARDS: Waldspurger et al., FAST 2015, fixed rate), its distances scaled back.
//!
//! What a sample may be off by is told by random groups (Wolter, Introduction to Variance Estimation, 2007, chapter 2): its
//! pages fall into parts, each of which is a sample as well, with a stack of its own. Parts of one stack would share what it
//! is off by: that there are more or fewer pages in the sample than its share, which is all where accesses are uniform.
//! At a cliff, as beside the length of a cycle, a sample sees all or nothing: there it may be off by more than that.

use block::Op;
use ssd::HitAccess;

use super::pages::is_access;
use super::stack::Stack;
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
const PARTS: u64 = 8;
/// Marks of a stack before they are packed again: of all pages of the curve, and of a part of a sample.
const ROOM: usize = 1 << 20;
const PART_ROOM: usize = 1 << 14;

/// A stack, and accesses by their distances.
#[derive(Clone, Debug)]
struct Depths {
    stack: Stack,
    /// Accesses per distance, from 1 on; 0 counts the first accesses of pages.
    distances: Vec<u64>,
    accesses: u64,
}

impl Depths {
    fn new(room: usize) -> Depths {
        Depths { stack: Stack::new(room), distances: vec![0], accesses: 0 }
    }

    fn add(&mut self, page: u32) {
        let distance = self.stack.access(page);
        if distance >= self.distances.len() {
            self.distances.resize(distance + 1, 0);
        }
        self.distances[distance] += 1;
        self.accesses += 1;
    }

    /// Hits of a buffer of so many entries.
    fn hits(&self, entries: u64) -> u64 {
        self.distances.iter().skip(1).take(entries as usize).sum()
    }
}

/// Misses of LRU at every size.
#[derive(Clone, Debug)]
pub struct Curve {
    sample: Sample,
    /// The pages of a sample, from 1 on in the order of their first access: the stacks know them by these numbers.
    numbers: PageTable,
    whole: Depths,
    /// The parts of a sample.
    parts: Vec<Depths>,
    accesses: u64,
}

impl Curve {
    /// An empty curve.
    pub fn new(sample: Sample) -> Curve {
        let parts = if sample == Sample::All { 0 } else { PARTS };
        Curve {
            sample,
            numbers: PageTable::default(),
            whole: Depths::new(ROOM),
            parts: (0..parts).map(|_| Depths::new(PART_ROOM)).collect(),
            accesses: 0,
        }
    }

    fn rate(&self) -> u64 {
        match self.sample {
            Sample::All => 1,
            Sample::OneIn(n) => u64::from(n.max(1)),
        }
    }

    /// Takes one access into account.
    pub fn add(&mut self, access: &HitAccess) {
        let page = access.page.0;
        let counts = is_access(access.op);
        self.accesses += u64::from(counts);
        // The upper bits of a multiplicative hash decide; they are independent of the address.
        let hash = u64::from(page).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        let hash = hash.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32;
        if !hash.is_multiple_of(self.rate()) {
            return;
        }
        let (page, part) = match self.sample {
            Sample::All => (page, None),
            Sample::OneIn(_) => {
                let part = (hash / self.rate() % PARTS) as usize;
                (self.number(page), self.parts.get_mut(part))
            }
        };
        for depths in part.into_iter().chain([&mut self.whole]) {
            match access.op {
                Op::Discard => depths.stack.discard(page),
                _ if counts => depths.add(page),
                _ => {}
            }
        }
    }

    fn number(&mut self, page: u32) -> u32 {
        let next = self.numbers.len as u32 + 1;
        match self.numbers.set(page, next) {
            0 => next,
            known => {
                self.numbers.set(page, known);
                known
            }
        }
    }

    /// Misses at a size. The sample may hold more or fewer accesses than its share: the difference is counted as hits at
    /// the smallest distance (SHARDS-adj), as it comes from a few hot pages; so what is scaled up are misses.
    pub fn misses(&self, entries: u64) -> u64 {
        let missed = self.whole.accesses - self.whole.hits(entries / self.rate());
        // Where nothing is known of any page, all miss.
        let known = self.whole.accesses > 0;
        if known { (missed * self.rate()).min(self.accesses) } else { self.accesses }
    }

    /// The standard error of the miss ratio at a size, from the differences between the parts of
    /// the sample, in millionths.
    pub fn error(&self, entries: u64) -> u64 {
        const MOST: u128 = 1_000_000;
        if self.sample == Sample::All {
            return 0;
        }
        if self.whole.accesses == 0 {
            return MOST as u64;
        }
        let share = self.rate() * PARTS;
        let ratio = |part: &Depths| {
            // Between two sizes of a part, as much of the next distance's hits.
            let (kept, rest) = (entries / share, entries % share);
            let next = part.distances.get(kept as usize + 1).copied().unwrap_or(0);
            let hits = part.hits(kept) + next * rest / share;
            u128::from(part.accesses - hits) * u128::from(share) * MOST / u128::from(self.accesses)
        };
        let ratios: Vec<u128> = self.parts.iter().map(ratio).collect();
        let n = u128::from(PARTS);
        let mean = ratios.iter().sum::<u128>() / n;
        let squares: u128 = ratios.iter().map(|ratio| ratio.abs_diff(mean).pow(2)).sum();
        (squares / (n * (n - 1))).isqrt().min(MOST) as u64
    }

    /// The curve at 1, 2, 3, 4, 6, 8, 12 .. entries, up to where no more hits are gained.
    pub fn points(&self) -> Vec<CurvePoint> {
        let most = (self.whole.distances.len() as u64 - 1).max(1) * self.rate();
        let doubled = (0..48).flat_map(|shift| [1u64 << shift, 3 << shift >> 1]);
        // A sample says nothing about buffers of less than one of its pages.
        let least = self.rate();
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
