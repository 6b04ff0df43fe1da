//! `sstables`: a synthetic LSM tenant, nothing but whole files written and deleted.
//!
//! Source: the synthetic mix of the isolation experiments: 64 MiB files written in 512 KiB
//! requests beside a Zipf 0.95 target over 4 GB at 60 : 1, with and without discards, with and
//! without 4–16 KiB point reads. The mix says no more; the rest is chosen here: a live set of
//! 2 GiB, the oldest file deleted (discarded) when a new one would exceed it, slots of an area of
//! the live set and one file more taken in turn, so that each address is written again once per
//! round; a share of requests reads 4, 8, 12 or 16 KiB, equally likely, at a uniform 4 KiB page
//! of a uniform live file that is whole.
//!
//! Invariants: a file is written front to back, by one file at a time; a request never crosses a
//! file; nothing is written where a live file lies; reads touch live files only.

use std::sync::Arc;

use block::{AppId, Bytes, Rng, Span, UNIT_BYTES};

use super::clock::{Arrival, ArrivalClock};
use super::fields::{Fields, percent_text, span_text};
use super::recipe::Asked;
use super::simple::arrival_text;
use super::{Generator, Source};
use crate::{BLOCK_RECORDS, Flags, Record, SourceError, TraceOp};

#[derive(Clone, Debug)]
struct Tables {
    seed: u64,
    app: String,
    file: u64,
    block: u64,
    /// Files alive at most; there is one slot more.
    live: u64,
    read_ppm: u64,
    discard: bool,
    flush: bool,
    count: u64,
    arrival: Arrival,
}

pub(super) fn build(
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Arc<dyn Generator>, SourceError> {
    let file = fields.size("file", 64 << 20, UNIT_BYTES, UNIT_BYTES)?.0;
    let block = fields.size("bs", 512 << 10, UNIT_BYTES, UNIT_BYTES)?.0;
    let live = fields.size("live", 2 << 30, file, UNIT_BYTES)?.0 / file;
    let read_ppm = fields.percent("read", 0)?;
    let discard = fields.switch("discard", true)?;
    let flush = fields.switch("flush", true)?;
    let count = fields.count("count", 1_000_000, 1)?;
    let arrival = fields.arrival(Arrival::Fixed(Span::from_us(10)), count)?;
    if read_ppm == 1_000_000 {
        return Err(fields.wrong("read", "100 %", "less than 100 %: there is nothing to read"));
    }
    let (seed, app) = (asked.seed, asked.draws.to_string());
    Ok(Arc::new(Tables { seed, app, file, block, live, read_ppm, discard, flush, count, arrival }))
}

impl Generator for Tables {
    fn open(&self) -> Box<dyn Source + Send> {
        let stream =
            |purpose: &str| Rng::stream(self.seed, &format!("{}/sstables/{purpose}", self.app));
        Box::new(TableSource {
            operations: stream("operation"),
            addresses: stream("address"),
            clock: ArrivalClock::new(self.arrival, stream("arrival")),
            written: 0,
            whole: 0,
            left: self.count,
            of: self.clone(),
        })
    }

    fn describe(&self) -> Vec<(String, String)> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let out = [
            ("file", Bytes(self.file).human()),
            ("bs", Bytes(self.block).human()),
            ("live", Bytes(self.live * self.file).human()),
            ("read", percent_text(self.read_ppm)),
            ("discard", switch(self.discard)),
            ("flush", switch(self.flush)),
            ("count", self.count.to_string()),
            ("iat", span_text(self.arrival.mean())),
            ("arrival", arrival_text(self.arrival).to_string()),
            ("point reads", "4, 8, 12 or 16 KiB of a live file, uniform".to_string()),
        ];
        out.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn extent(&self) -> Bytes {
        Bytes((self.live + 1) * self.file)
    }
}

struct TableSource {
    of: Tables,
    operations: Rng,
    addresses: Rng,
    clock: ArrivalClock,
    /// Bytes of the file being written.
    written: u64,
    /// Files written whole so far.
    whole: u64,
    left: u64,
}

impl TableSource {
    /// Reads a piece of one of the live files.
    fn point(&mut self) -> (u64, u64) {
        let alive = self.whole.min(self.of.live);
        let file = self.whole - 1 - self.addresses.below(alive);
        let pages = self.of.file / UNIT_BYTES;
        let len = self.addresses.between(1, 4).min(pages);
        let page = self.addresses.below(pages - len + 1);
        (self.slot(file) + page * UNIT_BYTES, len * UNIT_BYTES)
    }

    fn slot(&self, file: u64) -> u64 {
        file % (self.of.live + 1) * self.of.file
    }
}

impl Source for TableSource {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while self.left > 0 && block.len() + 3 <= BLOCK_RECORDS {
            self.left -= 1;
            let at = self.clock.tick();
            let mut push = |op, (offset, len): (u64, u64)| {
                let (offset, len, app) = (Bytes(offset), Bytes(len), AppId(0));
                let (response, flags, hint) = (None, Flags::default(), 0);
                block.push(Record { at, offset, len, response, app, op, flags, hint });
            };
            let reads = self.operations.ratio(self.of.read_ppm, 1_000_000);
            if reads && self.whole > 0 {
                push(TraceOp::Read, self.point());
                continue;
            }
            let (slot, of) = (self.slot(self.whole), &self.of);
            let len = of.block.min(of.file - self.written);
            push(TraceOp::Write, (slot + self.written, len));
            self.written += len;
            if self.written < of.file {
                continue;
            }
            if of.flush {
                push(TraceOp::Flush, (0, 0));
            }
            (self.written, self.whole) = (0, self.whole + 1);
            if self.of.discard && self.whole > self.of.live {
                push(TraceOp::Discard, (self.slot(self.whole - 1 - self.of.live), self.of.file));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::parse_recipe;
    use crate::tenant::{AddressMap, Merge, MergeConfig, Order, Share};

    fn records(source: &mut dyn Source) -> Vec<Record> {
        let (mut block, mut all) = (Vec::new(), Vec::new());
        while source.fill(&mut block).is_ok() && !block.is_empty() {
            all.extend_from_slice(&block);
        }
        all
    }

    #[test]
    fn files_are_written_once_discarded_once_and_read_while_they_live() {
        let text = "sstables,file=1000k,bs=64k,live=10000k,read=40,count=20k";
        let all = records(&mut *parse_recipe(text, 1).unwrap().open());
        let mut live = [false; 11 * 250];
        let (mut reads, mut discards, mut sizes) = (0, 0, [0; 5]);
        for r in &all {
            let pages = (r.offset.0 / 4096) as usize..((r.offset.0 + r.len.0) / 4096) as usize;
            match r.op {
                TraceOp::Write => {
                    pages.for_each(|page| assert!(!std::mem::replace(&mut live[page], true)));
                }
                TraceOp::Discard => {
                    discards += 1;
                    pages.for_each(|page| assert!(std::mem::replace(&mut live[page], false)));
                }
                TraceOp::Read => {
                    reads += 1;
                    sizes[pages.len()] += 1;
                    pages.for_each(|page| assert!(live[page]));
                }
                _ => {}
            }
        }
        assert!((7_700..8_200).contains(&reads), "{reads}");
        assert!(sizes[1..].iter().all(|n| *n > reads / 5), "{sizes:?}");
        assert!(discards > 700, "{discards}");
        let off = records(&mut *parse_recipe(&format!("{text},discard=off"), 1).unwrap().open());
        assert!(off.iter().all(|r| r.op != TraceOp::Discard));
    }

    #[test]
    fn the_mix_of_the_isolation_experiments_is_a_merge_of_two_recipes() {
        let target = "zipf,size=4GB,theta=0.95,read=30,count=4000,app=A";
        let tenants = || {
            vec![
                parse_recipe(target, 1).unwrap().tenant("A"),
                parse_recipe("sstables,app=B", 1).unwrap().tenant("B"),
            ]
        };
        let share = Share { leader: 0, follower: 1, leader_share: 1, follower_share: 60 };
        let config = MergeConfig { order: Order::Ratio(share), ..MergeConfig::default() };
        assert_eq!(config.map, AddressMap::Partition);
        let mut merge = Merge::new(tenants(), config).unwrap();
        let all = records(&mut merge);
        let units = merge.stats().iter().map(|s| s.units).collect::<Vec<_>>();
        assert_eq!(units[0], 4000);
        // The last request may overshoot by its 128 units.
        assert!((240_000..240_128).contains(&units[1]), "{units:?}");
        assert!(
            all.iter()
                .all(|r| (r.app.0 == 1) == (r.offset.0 >= 4_000_317_440) || r.op == TraceOp::Flush)
        );
    }
}
