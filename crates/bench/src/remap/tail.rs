//! Latency of random writes through a host log on a modelled drive, with and without cleaning.

use std::collections::BinaryHeap;

use ::remap::{HostLog, LogOptions};
use block::{BlockDevice, Bytes, Lba, Request, Rng, Sectors, Span, Time};
use lab::histogram::Histogram;
use ssd::Drive;

use super::text;
use crate::args::Args;

/// Sectors of a block of 4 KiB.
const SECTORS: u64 = 8;
/// Requests in flight where the sustained rate is measured.
const DEPTH: usize = 32;

/// What is run: the drive, the log and the load.
struct Plan {
    drive: ssd::Params,
    options: LogOptions,
    /// Blocks of the file that is overwritten while the log cleans.
    blocks: u64,
    writes: u64,
    seed: u64,
}

/// The drive of `varve reproduce remap`: an eighth of the paper's, whole map in DRAM; a line is a
/// 256th of it, a segment half a line.
fn drive(mib: u64, pairs: &[String]) -> Result<ssd::Params, String> {
    let pages = (mib * 1024 / 256 / 256).max(1);
    let mut config = ssd::preset("paper-remap").map_err(text)?.config;
    let own = [
        "geometry.channels=4".to_string(),
        "geometry.dies=2".to_string(),
        "line=superblock".to_string(),
        "link.rate=775 MB/s".to_string(),
        "buffer.size=8 MiB".to_string(),
        format!("capacity={mib} MiB"),
        format!("geometry.pages={pages}"),
        format!("nand.erase={} us", 5000 * pages / 512),
        "map.mode=full".to_string(),
    ];
    for pair in own.iter().chain(pairs) {
        config.set_pair(pair).map_err(text)?;
    }
    config.resolve().map_err(text)
}

/// A log and the time of its next request.
struct Run {
    log: HostLog<Drive>,
    rng: Rng,
    blocks: u64,
}

impl Run {
    fn write(&mut self, at: Time, lpn: u64, count: u64) -> Result<Time, String> {
        let request = Request::write(Lba(lpn * SECTORS), Sectors(count * SECTORS));
        self.log.submit(at, request).map_err(text)
    }

    fn random(&mut self, at: Time) -> Result<Time, String> {
        let lpn = self.rng.below(self.blocks);
        self.write(at, lpn, 1)
    }

    /// A file of `blocks`, written once in order and `times` at random, in no time.
    fn prepare(plan: &Plan, blocks: u64, times: u64) -> Result<Run, String> {
        let mut device = Drive::new(&plan.drive).map_err(text)?;
        device.set_timing(false);
        let log = HostLog::format(device, &plan.options).map_err(text)?;
        let at = log.now();
        let mut run = Run { log, rng: Rng::stream(plan.seed, "bench/remap/tail"), blocks };
        for lpn in (0..blocks).step_by(256) {
            run.write(at, lpn, (blocks - lpn).min(256))?;
        }
        for _ in 0..blocks * times {
            run.random(at)?;
        }
        run.log.device_mut().set_timing(true);
        Ok(run)
    }

    /// Writes a second with [`DEPTH`] in flight.
    fn sustained(mut self, writes: u64) -> Result<f64, String> {
        let start = self.log.now();
        let (mut flying, mut now) = (BinaryHeap::new(), start);
        for _ in 0..writes {
            if flying.len() == DEPTH
                && let Some(std::cmp::Reverse(first)) = flying.pop()
            {
                now = now.max(first);
            }
            flying.push(std::cmp::Reverse(self.random(now)?));
        }
        let end = flying.into_iter().map(|done| done.0).max().unwrap_or(now);
        Ok(writes as f64 * 1e12 / end.since(start).as_ps().max(1) as f64)
    }

    /// Latencies of writes that come at `rate` a second in the mean, at exponential distances.
    fn paced(mut self, writes: u64, rate: f64, late: bool) -> Result<Found, String> {
        let (mut at, start) = (self.log.now(), self.log.now());
        let before = *self.log.counters();
        let mut all = Histogram::default();
        for _ in 0..writes {
            let gap = -(1.0 - self.rng.unit_f64()).ln() / rate * 1e12;
            at = at.checked_add(Span::from_ps(gap as u64)).ok_or("the end of time")?;
            let took = self.random(at)?.since(at);
            all.add(took);
            if late && took > Span::from_us(100) {
                let c = self.log.counters();
                println!(
                    "late at_us {} took_us {} gc {} checkpoints {} free {}",
                    at.since(start).as_ns() / 1000,
                    took.as_ns() / 1000,
                    c.gc,
                    c.checkpoints,
                    self.log.engine().free_segments()
                );
            }
        }
        self.log.check().map_err(text)?;
        let c = self.log.counters();
        let user = (c.user - before.user).max(1) as f64;
        Ok(Found { all, wa: (c.written() - before.written()) as f64 / user })
    }
}

/// Latencies, and blocks written below for each block of the client.
struct Found {
    all: Histogram,
    wa: f64,
}

impl Found {
    fn print(&self, name: &str) {
        let us = |span: Option<Span>| span.map_or(f64::NAN, |s| s.as_ns() as f64 / 1000.0);
        println!(
            "{name} p50_us {:.1} p99_us {:.1} p999_us {:.1} most_us {:.1} blocks_per_write {:.3}",
            us(self.all.percentile(5000)),
            us(self.all.percentile(9900)),
            us(self.all.percentile(9990)),
            us(self.all.max()),
            self.wa,
        );
    }
}

/// `remap tail`.
///
/// # Errors
/// Bad arguments; the log finds an invariant broken.
pub fn run(mut args: Args) -> Result<(), String> {
    let mib = args.number("mib", 256)?;
    let fill = args.number("fill", 80)?;
    let share = args.number("share", 50)?;
    let rate = args.number("rate", 0)?;
    let seed = args.number("seed", 1)?;
    let late = args.flag("late");
    let mut options = LogOptions { payload: false, ..LogOptions::default() };
    options.segment = Bytes((mib * 1024 / 256 / 2 * 1024).max(64 << 10));
    for pair in args.values("set")? {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("--set {pair}: N=V"))?;
        options.set(name, value).map_err(text)?;
    }
    let drive = drive(mib, &args.values("drive")?)?;
    args.finish()?;
    let blocks = mib * fill / 100 * 256;
    let plan = Plan { drive, options, blocks, writes: blocks, seed };
    let rate = match rate {
        0 => {
            let all = Run::prepare(&plan, plan.blocks, 2)?.sustained(plan.writes)?;
            println!("sustained_writes_per_s {all:.0}");
            all * share as f64 / 100.0
        }
        rate => rate as f64,
    };
    println!("rate_writes_per_s {rate:.0}");
    let idle = Run::prepare(&plan, plan.blocks / 2, 0)?.paced(plan.blocks / 4, rate, false)?;
    let busy = Run::prepare(&plan, plan.blocks, 2)?.paced(plan.writes, rate, late)?;
    idle.print("without_cleaning");
    busy.print("with_cleaning");
    let ratio = |per_10k| {
        let of = |f: &Found| f.all.percentile(per_10k).map_or(f64::NAN, |s| s.as_ps() as f64);
        of(&busy) / of(&idle)
    };
    println!("ratio p50 {:.2} p99 {:.2} p999 {:.2}", ratio(5000), ratio(9900), ratio(9990));
    Ok(())
}
