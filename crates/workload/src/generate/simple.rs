//! The plain generators: one address law over equal blocks, a mix of operations, an arrival law.

use block::{AppId, Bytes, Rng};

use super::clock::{Arrival, ArrivalClock};
use super::dist::{Exponential, Hotspot, Latest, Pareto};
use super::fields::{percent_text, span_text};
use super::scatter::Scatter;
use super::zipf::Zipf;
use super::{Generator, Source};
use crate::{BLOCK_RECORDS, Flags, Record, SourceError, TraceOp};

/// Which block is next. Items and ranks are blocks of `bs` bytes.
#[derive(Clone, Debug)]
pub enum Addresses {
    /// One after the other, round and round.
    Sequential,
    /// Every block equally likely.
    Uniform,
    /// Zipf ranks; scattered over the space if the flag is set, else the hottest first.
    Zipf(f64, bool),
    /// `hot_ppm` of the space takes `hits_ppm` of the accesses; scattered if the flag is set.
    Hotspot(u64, u64, bool),
    /// The Pareto principle with this h; scattered if the flag is set.
    Pareto(f64, bool),
    /// Exponential with this share of the space as its mean; scattered if the flag is set.
    Exponential(f64, bool),
    /// Writes append round and round; reads go back from the newest block by Zipf ranks.
    Latest(f64),
}

/// The stream that says where hot blocks lie: the same in every pass of a recipe.
pub(super) const SCATTER: &str = "scatter";

/// What a request is: millionths of reads and of discards, the rest are writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// Millionths of the requests that read.
    pub read_ppm: u64,
    /// Millionths of the requests that discard.
    pub discard_ppm: u64,
    /// A flush follows each this many writes; 0 = never.
    pub flush_every: u64,
}

/// A plain generator's parameters.
#[derive(Clone, Debug)]
pub struct Simple {
    /// Its name in the list.
    pub name: &'static str,
    /// Seed of its streams.
    pub seed: u64,
    /// First part of the name of the stream that scatters what is hot.
    pub app: String,
    /// First part of its other streams' names.
    pub draws: String,
    /// Which block is next.
    pub addresses: Addresses,
    /// First byte of its space.
    pub base: Bytes,
    /// Number of blocks, at least 1.
    pub blocks: u64,
    /// Bytes of a block.
    pub block: Bytes,
    /// The operations.
    pub mix: Mix,
    /// Requests, flushes not counted.
    pub count: u64,
    /// When requests arrive.
    pub arrival: Arrival,
}

impl Simple {
    fn stream(&self, purpose: &str) -> Rng {
        let app = if purpose == SCATTER { &self.app } else { &self.draws };
        Rng::stream(self.seed, &format!("{app}/{}/{purpose}", self.name))
    }

    fn scatter(&self, wanted: bool) -> Option<Scatter> {
        wanted.then(|| Scatter::new(self.blocks, &mut self.stream(SCATTER)))
    }

    /// A source for one address law: one loop for each law, so that the law is not looked up for
    /// every request.
    fn source<L: Law + Send + 'static>(&self, law: L) -> Box<dyn Source + Send> {
        Box::new(SimpleSource {
            law,
            addresses: self.stream("address"),
            operations: self.stream("operation"),
            clock: ArrivalClock::new(self.arrival, self.stream("arrival")),
            base: self.base.0,
            block: self.block.0,
            mix: self.mix,
            left: self.count,
            writes: 0,
        })
    }
}

impl Generator for Simple {
    fn open(&self) -> Box<dyn Source + Send> {
        let n = self.blocks;
        match self.addresses {
            Addresses::Sequential => self.source(Sequential { next: 0, n }),
            Addresses::Uniform => self.source(move |rng: &mut Rng| rng.below(n)),
            Addresses::Zipf(theta, scatter) => {
                let zipf = Zipf::new(n, theta);
                self.source(Scattered(move |rng: &mut Rng| zipf.draw(rng), self.scatter(scatter)))
            }
            Addresses::Hotspot(hot, hits, scatter) => {
                let law = Hotspot::new(n, hot, hits);
                self.source(Scattered(move |rng: &mut Rng| law.draw(rng), self.scatter(scatter)))
            }
            Addresses::Pareto(h, scatter) => {
                let law = Pareto::new(n, h);
                self.source(Scattered(move |rng: &mut Rng| law.draw(rng), self.scatter(scatter)))
            }
            Addresses::Exponential(mean, scatter) => {
                let law = Exponential::new(mean * n as f64);
                let draw = move |rng: &mut Rng| law.draw_below(n, rng);
                self.source(Scattered(draw, self.scatter(scatter)))
            }
            Addresses::Latest(theta) => {
                self.source(Newest { law: Latest::new(n, theta), written: 0, n })
            }
        }
    }

    fn describe(&self) -> Vec<(String, String)> {
        let text = |value: f64| format!("{value}");
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let mut out: Vec<(&str, String)> = match self.addresses {
            Addresses::Sequential | Addresses::Uniform => vec![],
            Addresses::Zipf(theta, scatter) => {
                vec![("theta", text(theta)), ("scatter", switch(scatter))]
            }
            Addresses::Hotspot(hot, hits, scatter) => vec![
                ("hot", percent_text(hot)),
                ("hits", percent_text(hits)),
                ("scatter", switch(scatter)),
            ],
            Addresses::Pareto(h, scatter) => vec![("h", text(h)), ("scatter", switch(scatter))],
            Addresses::Exponential(mean, scatter) => {
                vec![("mean", text(mean)), ("scatter", switch(scatter))]
            }
            Addresses::Latest(theta) => vec![("theta", text(theta))],
        };
        out.extend([
            ("base", self.base.human()),
            ("size", Bytes(self.blocks * self.block.0).human()),
            ("bs", self.block.human()),
            ("read", percent_text(self.mix.read_ppm)),
            ("discard", percent_text(self.mix.discard_ppm)),
            ("flush", self.mix.flush_every.to_string()),
            ("count", self.count.to_string()),
            ("iat", span_text(self.arrival.mean())),
            ("arrival", arrival_text(self.arrival).to_string()),
        ]);
        out.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn extent(&self) -> Bytes {
        Bytes(self.base.0 + self.blocks * self.block.0)
    }
}

/// `fixed` or `exp`.
pub(super) fn arrival_text(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Fixed(_) => "fixed",
        Arrival::Exponential(_) => "exp",
    }
}

/// An address law at work.
trait Law {
    /// The next block for a request that does `op`.
    fn next(&mut self, op: TraceOp, rng: &mut Rng) -> u64;
}

impl<F: FnMut(&mut Rng) -> u64> Law for F {
    #[inline(always)]
    fn next(&mut self, _: TraceOp, rng: &mut Rng) -> u64 {
        self(rng)
    }
}

struct Sequential {
    next: u64,
    n: u64,
}

impl Law for Sequential {
    #[inline(always)]
    fn next(&mut self, _: TraceOp, _: &mut Rng) -> u64 {
        let block = self.next;
        self.next = if block + 1 == self.n { 0 } else { block + 1 };
        block
    }
}

struct Scattered<F>(F, Option<Scatter>);

impl<F: FnMut(&mut Rng) -> u64> Law for Scattered<F> {
    #[inline(always)]
    fn next(&mut self, _: TraceOp, rng: &mut Rng) -> u64 {
        let rank = (self.0)(rng);
        match &self.1 {
            Some(scatter) => scatter.apply(rank),
            None => rank,
        }
    }
}

struct Newest {
    law: Latest,
    /// Blocks written so far; the newest is `(written - 1) % n`.
    written: u64,
    n: u64,
}

impl Law for Newest {
    fn next(&mut self, op: TraceOp, rng: &mut Rng) -> u64 {
        if op == TraceOp::Write {
            self.written += 1;
            return (self.written - 1) % self.n;
        }
        // Before the first write there is only block 0.
        let newest = self.written.max(1) - 1;
        self.law.draw(newest, rng) % self.n
    }
}

struct SimpleSource<L> {
    law: L,
    addresses: Rng,
    operations: Rng,
    clock: ArrivalClock,
    base: u64,
    block: u64,
    mix: Mix,
    left: u64,
    writes: u64,
}

impl<L: Law> SimpleSource<L> {
    #[inline(always)]
    fn operation(&mut self) -> TraceOp {
        let Mix { read_ppm, discard_ppm, .. } = self.mix;
        let draw = self.operations.below(1_000_000);
        if draw < read_ppm {
            TraceOp::Read
        } else if draw < read_ppm + discard_ppm {
            TraceOp::Discard
        } else {
            TraceOp::Write
        }
    }
}

impl<L: Law> Source for SimpleSource<L> {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        // A write may bring a flush with it.
        while self.left > 0 && block.len() + 2 <= BLOCK_RECORDS {
            self.left -= 1;
            let op = self.operation();
            let at = self.clock.tick();
            let number = self.law.next(op, &mut self.addresses);
            let record = Record {
                at,
                offset: Bytes(self.base + number * self.block),
                len: Bytes(self.block),
                response: None,
                app: AppId(0),
                op,
                flags: Flags::default(),
                hint: 0,
            };
            block.push(record);
            if op == TraceOp::Write && self.mix.flush_every > 0 {
                self.writes += 1;
                if self.writes == self.mix.flush_every {
                    self.writes = 0;
                    let (offset, len) = (Bytes(0), Bytes(0));
                    block.push(Record { op: TraceOp::Flush, offset, len, ..record });
                }
            }
        }
        Ok(())
    }
}
