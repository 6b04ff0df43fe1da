//! The host log: what planning costs, how long an opening takes, what memory the map takes, and
//! what cleaning copies.

mod durable;
mod tail;
mod verify;

use std::time::Instant;

use ::remap::{BLOCK, HostLog, LogOptions, Work, recover};
use block::{BlockDevice, Bytes, DeviceError, Lpn, Op, Request, Rng, Sectors, Time, parse_size};
use lab::bare::BareLog;

use crate::args::Args;
use crate::meter;

/// Text of the `remap` command.
pub const HELP: &str = "\
varve-bench remap plan [--mapped 32GiB] [--count 4000000]
    CPU time of one planned 4 KiB write and of one lookup, at random places of that many mapped
    bytes; the same with a CRC and a copy of 4 KiB; allocations in all.
varve-bench remap open [--mapped 4GiB,16GiB,64GiB,256GiB]
    A log on memory that keeps metadata only is filled, checkpointed, overwritten at random until the
    next checkpoint is almost due, and left without closing. Prints seconds and CPU seconds of the
    opening, records replayed, and memory of the map per GiB. Data has no payload, so no CRC of data
    is checked.
varve-bench remap clean [--fill 50,60,70,80,90,95] [--policy greedy] [--segments 2000] [--start 0]
    Uniform random overwrites of 4 KiB on segments of 2 MiB, no payload: blocks written by user and
    cleaning for each block of the user, beside the formula fill = (u - 1) / ln u, 1 / (1 - u).
    --start is gc.start; `min` is the lowest there can be.
varve-bench remap tail [--mib 256] [--fill 80] [--share 50 | --rate WRITES] [--seed 1] [--late]
                       [--set NAME=VALUE].. [--drive KEY=VALUE]..
    Latency, in virtual time on a modelled drive of that many MiB, of random 4 KiB writes that come
    at --share per cent of the rate the log sustains while it cleans (or --rate a second), at
    exponential distances: while a file of --fill per cent is overwritten the third time, and while
    one half as large is for the first, when nothing is cleaned; and the ratio of the two. --set is
    an option of the log, --drive a key of the drive; --late prints each write above 100 us.
varve-bench remap durable --file FILE [--size 2GiB] [--span 512MiB] [--writers 32] [--seconds 3] [--runs 3]
    Durable 4 KiB writes at random places of --span bytes, so many in flight, on a new file of --size
    bytes that is written once before each run and removed at the end: each writer with a sync of
    its own (alone), the file as it is served without a log (pass_through: writers share syncs), and
    below a host log; in turn. Prints commits a second and the ratios of the medians.
varve-bench remap verify [--size 512MiB] [--count 200000] [--runs 3] [--file FILE]
    A host log in memory (or on a new file, removed at the end): random 4 KiB writes and reads, and
    reads of 1 MiB in order, of a log that keeps no CRCs (without), keeps them (off) and compares every
    read with them (on); blocks written for each of the user, bytes of the map; ratios of the medians.";

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn plan(mut args: Args) -> Result<(), String> {
    let mapped = args.value("mapped")?.unwrap_or_else(|| "32GiB".to_string());
    let mapped = parse_size(&mapped).map_err(text)?;
    let count = args.number("count", 4_000_000)?;
    args.finish()?;
    let mut log = BareLog::filled(mapped).map_err(text)?;
    log.forget();
    let mut rng = Rng::stream(1, "bench/remap");
    let mut done = 0;
    let (allocations, cpu) = (meter::allocations(), meter::cpu_seconds()?);
    while done < count && log.overwrite(&mut rng) != Work::Full {
        done += 1;
    }
    let seconds = meter::cpu_seconds()? - cpu;
    println!("mapped {}", mapped.human());
    println!("writes {done}");
    println!("ns_per_write {:.1}", seconds * 1e9 / done as f64);
    println!(
        "allocations_per_write {:.5}",
        (meter::allocations() - allocations) as f64 / done as f64
    );
    let engine = &log.engine;
    let (cpu, mut sum) = (meter::cpu_seconds()?, 0u64);
    for _ in 0..count {
        let lpn = Lpn(rng.below(u64::from(engine.geometry().logical)) as u32);
        sum += u64::from(matches!(engine.lookup(lpn), ::remap::Place::At(_)));
    }
    println!("ns_per_lookup {:.1}", (meter::cpu_seconds()? - cpu) * 1e9 / count as f64);
    println!("lookups_mapped {sum}");
    let source: Vec<u8> = (0..64 << 20).map(|i: u32| (i >> 5) as u8).collect();
    let mut target = vec![0; 1 << 20];
    let (cpu, n) = (meter::cpu_seconds()?, 16_384u64.min(done));
    for _ in 0..n {
        let from = rng.below((source.len() / BLOCK) as u64) as usize * BLOCK;
        let to = rng.below((target.len() / BLOCK) as u64) as usize * BLOCK;
        let block = &source[from..from + BLOCK];
        target[to..to + BLOCK].copy_from_slice(block);
        sum += u64::from(block::crc32c(0, block));
    }
    println!("ns_per_crc_and_copy {:.1}", (meter::cpu_seconds()? - cpu) * 1e9 / n as f64);
    println!("check {}", sum % 1000 + u64::from(target[0]));
    engine.check().map_err(text)
}

fn open(mut args: Args) -> Result<(), String> {
    let sizes = args.value("mapped")?.unwrap_or_else(|| "4GiB,16GiB,64GiB,256GiB".to_string());
    args.finish()?;
    for size in sizes.split(',') {
        let mapped = parse_size(size).map_err(text)?;
        let log = BareLog::filled(mapped).map_err(text)?;
        let (options, memory) = (log.options.clone(), log.engine.memory());
        let (mut store, since) = log.left_behind(&mut Rng::stream(1, "bench/remap"));
        let (start, cpu) = (Instant::now(), meter::cpu_seconds()?);
        let found = recover(&mut store, &options, true, block::Plant::default()).map_err(text)?;
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), meter::cpu_seconds()? - cpu);
        let gib = mapped.0 as f64 / (1u64 << 30) as f64;
        println!(
            "mapped {} log_blocks {since} records {} pages {} open_s {seconds:.3} cpu_s {cpu:.3} \
             map_kib_per_gib {:.1}",
            mapped.human(),
            found.summary.records,
            found.summary.pages,
            memory as f64 / 1024.0 / gib,
        );
        found.engine.check().map_err(text)?;
    }
    println!("peak_rss_kib {}", meter::peak_rss_kib()?);
    Ok(())
}

/// A device that is done at once and keeps nothing.
struct Nothing(u64);

impl BlockDevice for Nothing {
    fn capacity(&self) -> Sectors {
        Sectors(self.0 * 8)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match request.op {
            Op::Read | Op::Write | Op::Flush | Op::Discard => Ok(at),
        }
    }
}

/// Live share of a victim and write amplification of greedy cleaning at this fill, uniform random.
fn formula(fill: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let u: f64 = (low + high) / 2.0;
        if (u - 1.0) / u.ln() < fill { low = u } else { high = u }
    }
    1.0 / (1.0 - low)
}

fn clean(mut args: Args) -> Result<(), String> {
    let fills = args.value("fill")?.unwrap_or_else(|| "50,60,70,80,90,95".to_string());
    let policy = args.value("policy")?.unwrap_or_else(|| "greedy".to_string());
    let segments = args.number("segments", 2000)?;
    let start = args.value("start")?.unwrap_or_else(|| "min".to_string());
    args.finish()?;
    for fill in fills.split(',') {
        let fill: u64 = fill.trim().parse().map_err(|_| format!("--fill {fill}: per cent"))?;
        // Super block and roots take a few segments more.
        let physical = segments * 512 + 2048;
        let mut options = LogOptions::default();
        let capacity = Bytes(segments * 512 * fill / 100 * BLOCK as u64);
        let start = if start == "min" { "1" } else { &start };
        let set =
            [("payload", "none"), ("reserve", "5"), ("gc.victim", &policy), ("gc.start", start)];
        for (name, value) in set {
            options.set(name, value).map_err(text)?;
        }
        options.capacity = capacity;
        let mut log = HostLog::format(Nothing(physical), &options).map_err(text)?;
        let logical = u64::from(log.engine().geometry().logical);
        let mut rng = Rng::stream(1, "bench/remap/clean");
        let write = |log: &mut HostLog<Nothing>, lpn: u64| {
            let request = Request::write(block::Lba(lpn * 8), Sectors(8));
            log.submit(Time::ZERO, request).map(|_| ()).map_err(text)
        };
        for lpn in 0..logical {
            write(&mut log, lpn)?;
        }
        for _ in 0..3 * logical {
            write(&mut log, rng.below(logical))?;
        }
        let (before, cpu) = (*log.counters(), meter::cpu_seconds()?);
        for _ in 0..2 * logical {
            write(&mut log, rng.below(logical))?;
        }
        let (c, cpu) = (log.counters(), meter::cpu_seconds()? - cpu);
        let user = (c.user - before.user) as f64;
        let share = |now: u64, then: u64| (now - then) as f64 / user;
        let g = log.engine().geometry();
        println!(
            "fill {:.3} wa {:.3} formula {:.3} header {:.4} meta {:.4} root {:.4} all {:.3} \
             gc_start {} ns_per_write {:.0}",
            logical as f64 / (f64::from(g.segments) * f64::from(g.segment)),
            1.0 + share(c.gc, before.gc),
            formula(logical as f64 / (f64::from(g.segments) * f64::from(g.segment))),
            share(c.header, before.header),
            share(c.meta, before.meta),
            share(c.root, before.root),
            share(c.written(), before.written()),
            log.engine().gc_start(),
            cpu * 1e9 / user,
        );
        log.check().map_err(text)?;
    }
    Ok(())
}

/// The `remap` command.
///
/// # Errors
/// Bad arguments; the log finds an invariant broken.
pub fn run(mut words: Vec<String>) -> Result<(), String> {
    let what = if words.is_empty() { String::new() } else { words.remove(0) };
    let args = Args::new(words);
    match what.as_str() {
        "plan" => plan(args),
        "open" => open(args),
        "clean" => clean(args),
        "tail" => tail::run(args),
        "durable" => durable::run(args),
        "verify" => verify::run(args),
        other => Err(format!("`{other}`: expected plan, open, clean, tail, durable or verify")),
    }
}
