use std::collections::BTreeSet;

use ssd::{BufferShape, PolicySpec};

use super::aoi::Aoi;
use super::s3_fifo::S3Fifo;
use super::{Tally, Twin, Use, parts_per_million};

/// A page of the queue of what is kept apart.
#[derive(Clone, Copy)]
struct Kept {
    page: u32,
    dirty: bool,
    hit: bool,
}

/// S3-FIFO with a queue beside it.
struct Cache {
    n: usize,
    s3: S3Fifo,
    queue: Vec<Kept>,
    cap: usize,
    unit: usize,
    /// Given up for the page that is coming; they leave when it has its entry.
    leaving: usize,
}

impl Cache {
    fn new(inner: &PolicySpec, n: usize, cap: usize, unit: usize) -> Cache {
        let share = |name: &str| parts_per_million(inner.option(name));
        let hits = inner.option("hits").parse().expect("a number");
        let s3 = S3Fifo::new(n, share("small"), share("ghost"), hits);
        Cache { n, s3, queue: Vec::new(), cap, unit: unit.clamp(1, cap), leaving: 0 }
    }

    fn found(&mut self, page: u32, write: bool) -> bool {
        if let Some(kept) = self.queue.iter_mut().find(|kept| kept.page == page) {
            kept.hit = true;
            kept.dirty |= write;
            return true;
        }
        self.s3.found(page, write)
    }

    /// S3-FIFO makes room for a page, `more` entries being somewhere else.
    fn enter(&mut self, page: u32, more: usize, tally: &mut Tally) -> bool {
        self.s3.beside = self.queue.len() + self.leaving + more;
        let before = self.s3.len();
        let in_main = self.s3.enter(page, tally);
        self.leaving += before - self.s3.len();
        in_main
    }

    fn oldest(&mut self, tally: &mut Tally) {
        let kept = self.queue.remove(0);
        if kept.hit {
            let in_main = self.enter(kept.page, 1, tally);
            self.s3.put(kept.page, kept.dirty, in_main);
        } else {
            tally.gone(kept.dirty);
            self.leaving += 1;
        }
    }

    fn drain(&mut self, tally: &mut Tally) {
        while !self.queue.is_empty() {
            self.oldest(tally);
        }
    }

    fn admit(&mut self, page: u32, write: bool, apart: bool, tally: &mut Tally) {
        if apart {
            while self.queue.len() >= self.cap {
                for _ in 0..self.unit.min(self.queue.len()) {
                    self.oldest(tally);
                }
            }
            let free = self.n - self.s3.len() - self.queue.len() - self.leaving;
            if free + self.leaving > 0 {
                self.s3.forget(page);
            } else {
                self.enter(page, 0, tally);
            }
            self.queue.push(Kept { page, dirty: write, hit: false });
        } else {
            let in_main = self.enter(page, 0, tally);
            self.s3.put(page, write, in_main);
        }
        self.leaving = 0;
    }

    fn discard(&mut self, page: u32, written: &BTreeSet<u32>) {
        self.queue.retain(|kept| kept.page != page);
        self.s3.discard(page, written);
    }
}

/// Which of two shadows hits more, of one page in sixteen or so.
struct Gate {
    /// Without isolation, and with; the scores of both.
    shadows: [Cache; 2],
    scores: [u64; 2],
    open: bool,
    period: u64,
    by_page: bool,
    request: u64,
    requests: u64,
}

impl Gate {
    fn enter(&mut self, request: u64) {
        if request == self.request {
            return;
        }
        self.request = request;
        self.requests += 1;
        if self.requests == self.period {
            self.requests = 0;
            let better = |a: u64, b: u64| u128::from(a) * 100 > u128::from(b) * 101;
            self.open = match self.open {
                true => !better(self.scores[0], self.scores[1]),
                false => better(self.scores[1], self.scores[0]),
            };
            self.scores = self.scores.map(|score| score * 3 / 4);
        }
    }

    fn access(&mut self, a: Use, append: bool) {
        let hash = (u128::from(a.page / 16) * 0x9E37_79B9_7F4A_7C15) % (1 << 64);
        if hash >= 1 << 60 {
            return;
        }
        let worth =
            if self.by_page { 1 << 20 } else { (1 << 20) / u64::from(a.len.div_ceil(4096)) };
        for (at, shadow) in self.shadows.iter_mut().enumerate() {
            if shadow.found(a.page, a.write) {
                self.scores[at] += worth;
            } else {
                shadow.admit(a.page, a.write, append && at == 1, &mut Tally::default());
            }
        }
    }
}

/// Append-only isolation before S3-FIFO, always or behind its gate.
pub struct Gated {
    table: Aoi,
    cache: Cache,
    gate: Option<Gate>,
}

impl Gated {
    /// `None` for an inner policy whose twin has no place for a queue beside it.
    pub fn new(spec: &PolicySpec, shape: BufferShape) -> Option<Gated> {
        let inner = PolicySpec::parse(spec.option("inner")).ok()?;
        if inner.info.name != "s3-fifo" {
            return None;
        }
        let count = |name: &str| spec.option(name).parse::<usize>().expect("a number");
        let table = Aoi::new(spec, shape);
        let small = shape.entries / 16;
        let gated = spec.option("gate") == "shadow";
        let shadows = if gated { 2 * small * 64 } else { 0 };
        let n = (shape.entries * 4096 - table.table - shadows) / 4096;
        let cap = if count("cap") == 0 { (n / 20).max(1) } else { count("cap") };
        let unit = match count("program_unit") {
            0 => shape.page_entries as usize,
            unit => unit,
        };
        let part = (cap * small / n).max(1);
        let gate = gated.then(|| Gate {
            shadows: [0; 2].map(|_| Cache::new(&inner, small, part, unit)),
            scores: [0; 2],
            open: false,
            period: count("period") as u64,
            by_page: spec.option("weight") == "page",
            request: 0,
            requests: 0,
        });
        Some(Gated { table, cache: Cache::new(&inner, n, cap, unit), gate })
    }
}

impl Twin for Gated {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let (chunk, offset) = self.table.enter(a);
        if let Some(gate) = &mut self.gate {
            gate.enter(a.request);
        }
        let open = self.gate.as_ref().is_none_or(|gate| gate.open);
        let append;
        if self.cache.found(a.page, a.write) {
            tally.hits += 1;
            if a.write {
                self.table.rewritten(chunk);
            }
            append = self.table.appends(chunk);
        } else {
            append = match a.write {
                true => self.table.learn(a, chunk, offset),
                false => self.table.appends(chunk),
            };
            if !open {
                self.cache.drain(tally);
            }
            self.cache.admit(a.page, a.write, append && open, tally);
        }
        if let Some(gate) = &mut self.gate {
            gate.access(a, append);
        }
    }

    fn discard(&mut self, page: u32, written: &BTreeSet<u32>) {
        self.cache.discard(page, written);
        self.table.forget(page, written);
        for shadow in self.gate.iter_mut().flat_map(|gate| &mut gate.shadows) {
            shadow.discard(page, written);
        }
    }

    fn flush(&mut self) {
        self.cache.queue.iter_mut().for_each(|kept| kept.dirty = false);
        self.cache.s3.flush();
    }
}
