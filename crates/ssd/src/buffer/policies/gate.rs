//! The gate before isolation: two shadow caches of pages alone, over a sixteenth of the chunks of
//! 64 KiB, one of which isolates. The gate is open while that one hits more.
//!
//! | rule | |
//! | --- | --- |
//! | sample | a chunk whose number, hashed, falls into one of sixteen parts; a shadow has a sixteenth of the entries |
//! | score | hits, each worth 1 / pages of its request, or 1 (`weight=page`) |
//! | decision | every so many requests (`period`); the other way only if it is more than 1 % better |
//! | history | scores are kept at three quarters after each decision |

use block::Lpn;

use super::apart::Apart;
use crate::buffer::{Access, Admission, Batches, Pool};

/// One of so many chunks is sampled, and shadows are so much smaller.
pub(super) const SAMPLE: usize = 16;
/// Pages of a chunk.
const CHUNK: u32 = 16;
/// What a hit of a request of one page is worth.
const WHOLE: u64 = 1 << 20;

/// Bytes of a shadow's entry: its slot, links, index, and what a policy remembers beside it.
pub(super) const ENTRY_BYTES: usize = 64;

/// A cache that holds nothing.
#[derive(Clone, Debug)]
struct Shadow {
    pool: Pool,
    cache: Apart,
    isolates: bool,
    score: u64,
    out: Batches,
}

/// What it can be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Requests between two decisions.
    pub period: u64,
    /// A hit counts one whatever its request.
    pub by_page: bool,
}

/// See above.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    shadows: [Shadow; 2],
    open: bool,
    rules: Rules,
    request: u64,
    requests: u64,
    switches: usize,
}

/// Whether a page is of the sample.
fn sampled(page: u32) -> bool {
    u64::from(page / CHUNK).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60 == 0
}

impl Shadow {
    fn access(&mut self, a: &Access<'_>, append: bool, worth: u64) {
        if let Some(frame) = self.pool.find(a.page) {
            self.score += worth;
            self.cache.hit(&mut self.pool, frame, a);
            self.cache.shed(&mut self.pool, &mut self.out);
            self.release();
        } else {
            let apart = append && self.isolates;
            let said = self.cache.admit(&mut self.pool, a, apart, &mut self.out);
            self.release();
            let Admission::Admit(class) = said else { return };
            let frame = self.pool.insert(a.page, a.req.app.0, class);
            self.cache.inserted(&mut self.pool, frame, a);
        }
        if a.op == block::Op::Write
            && let Some(frame) = self.pool.find(a.page)
        {
            self.pool.set_dirty(frame);
        }
    }

    fn release(&mut self) {
        for (frame, _) in self.out.frames.drain(..) {
            self.pool.release(frame);
        }
        self.out.pad.clear();
    }

    fn forget(&mut self, page: u32) {
        if let Some(frame) = self.pool.find(Lpn(page)) {
            self.cache.removed(&mut self.pool, frame);
            self.pool.release(frame);
        }
    }
}

impl Gate {
    /// A gate that is closed; `caches` over so many entries for a space of `pages`.
    pub fn new(caches: [Apart; 2], entries: usize, pages: u32, rules: Rules) -> Gate {
        let mut isolates = false;
        let shadows = caches.map(|cache| {
            let pool = Pool::new(entries, pages, false);
            let shadow = Shadow { pool, cache, isolates, score: 0, out: Batches::default() };
            isolates = true;
            shadow
        });
        Gate { shadows, open: false, rules, request: 0, requests: 0, switches: 0 }
    }

    /// Whether append-only pages are kept apart now.
    pub fn is_open(&self) -> bool {
        self.open
    }
    /// How often that changed.
    pub fn switches(&self) -> usize {
        self.switches
    }

    /// A request comes to the buffer: every so many the shadows are compared.
    pub fn enter(&mut self, request: u64) {
        if request == self.request {
            return;
        }
        self.request = request;
        self.requests += 1;
        if self.requests < self.rules.period {
            return;
        }
        self.requests = 0;
        let [plain, isolated] = [self.shadows[0].score, self.shadows[1].score];
        let (now, other) = if self.open { (isolated, plain) } else { (plain, isolated) };
        if other * 100 > now * 101 {
            self.open = !self.open;
            self.switches += 1;
        }
        for shadow in &mut self.shadows {
            shadow.score = shadow.score * 3 / 4;
        }
    }

    /// A page is accessed, after the buffer has taken note of it.
    pub fn access(&mut self, a: &Access<'_>, append: bool) {
        if !sampled(a.page.0) {
            return;
        }
        let (offset, len) = (a.req.offset.0, a.req.len.0);
        let pages = (offset + len).div_ceil(4096) - offset / 4096;
        let worth = if self.rules.by_page { WHOLE } else { WHOLE / pages.max(1) };
        for shadow in &mut self.shadows {
            shadow.access(a, append, worth);
        }
    }

    /// A page of the buffer was programmed, and stays.
    pub fn cleaned(&mut self, page: Lpn) {
        if !sampled(page.0) {
            return;
        }
        for shadow in &mut self.shadows {
            if let Some(frame) = shadow.pool.find(page)
                && shadow.pool.is_dirty(frame)
            {
                shadow.pool.set_clean(frame);
                shadow.cache.cleaned(&mut shadow.pool, frame);
            }
        }
    }

    /// Pages were discarded.
    pub fn forget(&mut self, pages: std::ops::Range<u32>, written: &dyn Fn(u32) -> bool) {
        for shadow in &mut self.shadows {
            let mut page = pages.start;
            while page < pages.end {
                if sampled(page) {
                    shadow.forget(page);
                    page += 1;
                } else {
                    page = (page / CHUNK + 1).saturating_mul(CHUNK);
                }
            }
            shadow.cache.inner.forget(pages.clone(), written);
        }
    }

    /// The shadows' queues.
    pub fn check(&self) -> Result<(), String> {
        for shadow in &self.shadows {
            shadow.cache.check(&shadow.pool).map_err(|what| format!("a shadow: {what}"))?;
        }
        Ok(())
    }
}
