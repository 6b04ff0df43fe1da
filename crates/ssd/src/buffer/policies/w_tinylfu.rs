//! W-TinyLFU: a small LRU window, and a segmented LRU that only the more frequent may enter.
//!
//! Invariants: an entry's class says whether it is in the window, on probation or protected; the
//! window and the other two together never exceed their limits, nor the protected ones theirs; a
//! counter of the sketch is from 0 to 15.

use super::lists;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;
/// Accesses per entry after which all counters are halved.
const SAMPLE: u64 = 10;
/// Share of the main part that is protected, in percent.
const PROTECTED_PERCENT: usize = 80;
const ROWS: u32 = 4;

/// 128 counters of four bits: 32 for each row. A page uses one block alone.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u64; 8]);

/// Count-min sketch of how often pages were used, halved now and then.
#[derive(Clone, Debug)]
struct Sketch {
    blocks: Vec<Block>,
    added: u64,
    sample: u64,
}

/// Word of the block and shift within it, of the counter of a page in a row.
#[inline(always)]
fn counter(hash: u64, row: u32) -> (usize, u32) {
    let bits = (hash >> (5 * row)) as u32 & 31;
    ((2 * row + (bits >> 4)) as usize, 4 * (bits & 15))
}

impl Sketch {
    /// At least sixteen counters per entry.
    fn new(entries: usize) -> Sketch {
        let blocks = entries.div_ceil(8).next_power_of_two();
        Sketch { blocks: vec![Block([0; 8]); blocks], added: 0, sample: SAMPLE * entries as u64 }
    }
    #[inline(always)]
    fn find(&self, page: u32) -> (usize, u64) {
        let hash = (u64::from(page) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((hash >> 32) as usize & (self.blocks.len() - 1), hash ^ hash >> 40)
    }
    #[inline]
    fn add(&mut self, page: u32) {
        let (at, hash) = self.find(page);
        let block = &mut self.blocks[at].0;
        for row in 0..ROWS {
            let (word, shift) = counter(hash, row);
            let full = block[word] >> shift & 15 == 15;
            block[word] += u64::from(!full) << shift;
        }
        self.added += 1;
        if self.added >= self.sample {
            self.halve();
        }
    }
    fn halve(&mut self) {
        self.added = 0;
        for word in self.blocks.iter_mut().flat_map(|block| &mut block.0) {
            *word = *word >> 1 & 0x7777_7777_7777_7777;
        }
    }
    /// How often the page was used, at most 15; never too low but for the halving.
    #[inline]
    fn frequency(&self, page: u32) -> u64 {
        let (at, hash) = self.find(page);
        let block = &self.blocks[at].0;
        let count = |row| {
            let (word, shift) = counter(hash, row);
            block[word] >> shift & 15
        };
        count(0).min(count(1)).min(count(2)).min(count(3))
    }
}

/// Window, probation and protected list.
#[derive(Clone, Debug)]
pub(super) struct WTinyLfu {
    sketch: Sketch,
    window: List,
    probation: List,
    protected: List,
    window_limit: usize,
    main_limit: usize,
    protected_limit: usize,
}

impl WTinyLfu {
    pub fn new(entries: usize, window: usize) -> WTinyLfu {
        let window_limit = window.clamp(1, entries.max(1));
        let main_limit = entries.saturating_sub(window_limit);
        WTinyLfu {
            sketch: Sketch::new(entries),
            window: List::default(),
            probation: List::default(),
            protected: List::default(),
            window_limit,
            main_limit,
            protected_limit: main_limit * PROTECTED_PERCENT / 100,
        }
    }

    /// The list of a class.
    fn list(&mut self, class: u8) -> &mut List {
        match class {
            WINDOW => &mut self.window,
            PROBATION => &mut self.probation,
            _ => &mut self.protected,
        }
    }
    fn enter(&mut self, pool: &mut Pool, frame: Frame, class: u8) {
        pool.set_class(frame, class);
        pool.push_front(self.list(class), frame);
    }
    /// An entry on probation was hit.
    fn protect(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.probation, frame);
        self.enter(pool, frame, PROTECTED);
        if self.protected.len() > self.protected_limit
            && let Some(coldest) = self.protected.back()
        {
            pool.unlink(&mut self.protected, coldest);
            self.enter(pool, coldest, PROBATION);
        }
    }
    /// The coldest of the window leaves it: for the main part, if there is room or it is used
    /// more often than what would go there.
    fn pass_on(&mut self, pool: &mut Pool, candidate: Frame, out: &mut Batches) {
        if self.probation.len() + self.protected.len() >= self.main_limit {
            let victim = self.probation.back().or(self.protected.back());
            let stronger = |victim: &Frame| {
                let frequency = |frame| self.sketch.frequency(pool.page(frame).0);
                frequency(candidate) > frequency(*victim)
            };
            let Some(victim) = victim.filter(stronger) else {
                pool.unlink(&mut self.window, candidate);
                out.evict(candidate, Stream::Other);
                return;
            };
            pool.unlink(self.list(pool.class(victim)), victim);
            out.evict(victim, Stream::Other);
        }
        pool.unlink(&mut self.window, candidate);
        self.enter(pool, candidate, PROBATION);
    }
}

impl Policy for WTinyLfu {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>) {
        self.sketch.add(access.page.0);
        match pool.class(frame) {
            WINDOW => pool.to_front(&mut self.window, frame),
            PROBATION => self.protect(pool, frame),
            _ => pool.to_front(&mut self.protected, frame),
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        self.sketch.add(access.page.0);
        if self.window.len() >= self.window_limit
            && let Some(candidate) = self.window.back()
        {
            self.pass_on(pool, candidate, out);
        }
        Admission::Admit(WINDOW)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        self.enter(pool, frame, WINDOW);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let class = pool.class(frame);
        pool.unlink(self.list(class), frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("window", self.window.len());
        each("probation", self.probation.len());
        each("protected", self.protected.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let all = [
            ("the window", &self.window),
            ("the probation list", &self.probation),
            ("the protected list", &self.protected),
        ];
        lists::check(pool, &all, |f| usize::from(pool.class(f)))?;
        let main = self.probation.len() + self.protected.len();
        if self.window.len() > self.window_limit
            || main > self.main_limit
            || self.protected.len() > self.protected_limit
        {
            return Err(format!("window {}, main {main}: too many", self.window.len()));
        }
        Ok(())
    }
}
