//! Rules that hold for every drive and load.

use std::collections::BTreeMap;

use block::{
    AppId, BlockDevice, Lba, Op, Request, Rng, SECTOR_BYTES, Sectors, Time, UNIT_BYTES, parse_rate,
    parse_time,
};
use nand::OpKind;
use ssd::{Config, Drive, KeyKind, SCHEMA, Stats};

use super::setup::{config, drive, fill, media, quiet, serve, with};
use super::timing::Shape;
use super::{Check, Job, Trouble};

const SECTION: &str = "rules";

/// A small drive that cleans, evicts and pages its map within a few thousand requests.
const SMALL: &[&str] = &[
    "geometry.channels=2",
    "geometry.dies=2",
    "geometry.planes=2",
    "geometry.blocks=32",
    "geometry.pages=32",
    "geometry.page=8 KiB",
    "line=die",
    "op=28 %",
    "bus.rate=800 MB/s",
    "link.rate=3200 MB/s",
    "fw.read=2 us",
    "fw.write=3 us",
    "buffer.size=256 KiB",
];

/// Variants of [`SMALL`] under which every rule must hold.
const VARIANTS: &[(&str, &[&str])] = &[
    ("write-back", &[]),
    ("write-through", &["buffer.write=through"]),
    ("no buffer", &["buffer.policy=none", "buffer.size=0"]),
    ("paged map", &["map.mode=paged", "map.cache=64 KiB"]),
    ("units of 8 KiB", &["unit=8 KiB"]),
    ("cached operations", &["nand.cache_ops=on", "nand.t_cbsy=5 us"]),
    ("suspension", &["nand.suspend=both", "nand.t_suspend=20 us", "nand.t_resume=5 us"]),
    ("one-shot", &["nand.one_shot=on", "geometry.cell_bits=2"]),
    ("background cleaning", &["gc.background=on", "gc.pace=burst"]),
];

/// Picoseconds between two requests of the mixed load, about: no queue grows without end.
const GAP: u64 = 400_000_000;

pub fn jobs(quick: bool) -> Vec<Job> {
    let requests = if quick { 6_000 } else { 20_000 };
    let mut jobs: Vec<Job> = VARIANTS
        .iter()
        .map(|(name, pairs)| {
            Job::new(SECTION, format!("rules: {name}"), move || accounts(name, pairs, requests))
        })
        .collect();
    jobs.push(Job::new(SECTION, "rules: bookings", move || bookings(requests)));
    jobs.push(Job::new(SECTION, "rules: scale", scale));
    jobs.push(Job::new(SECTION, "rules: unit laws", move || unit_laws(requests)));
    jobs.push(Job::new(SECTION, "rules: order", move || order(requests)));
    jobs
}

/// A mixed load of two applications; what was submitted, by operation and by application.
#[derive(Default)]
struct Submitted {
    ops: [u64; 4],
    units: [u64; 4],
    apps: BTreeMap<u16, u64>,
    ends: Vec<Time>,
}

/// Submits `count` requests with `gap` picoseconds on average between them, then a flush.
fn mixed(d: &mut Drive, count: u64, gap: u64) -> Result<Submitted, Trouble> {
    let pages = d.capacity().bytes().0 / UNIT_BYTES;
    let per_page = UNIT_BYTES / SECTOR_BYTES;
    let mut rng = Rng::stream(2, "selfcheck/mixed");
    let mut done = Submitted::default();
    let mut at = quiet(d).as_ps();
    for _ in 0..count {
        at += gap / 4 * rng.below(8);
        let length = 1 + rng.below(4);
        let first = rng.below(pages - length);
        let (lba, sectors) = (Lba(first * per_page), Sectors(length * per_page));
        let app = rng.below(2) as u16;
        let request = match rng.below(100) {
            0..55 => Request::write(lba, sectors),
            55..95 => Request::read(lba, sectors),
            95..99 => Request::discard(lba, sectors),
            _ => Request::flush(),
        };
        let op = request.op as usize;
        done.ops[op] += 1;
        if request.op != Op::Flush {
            done.units[op] += length;
        }
        if matches!(request.op, Op::Read | Op::Write) {
            *done.apps.entry(app).or_default() += length;
        }
        done.ends.push(d.submit(Time::from_ps(at), request.for_app(AppId(app)))?);
    }
    done.ops[Op::Flush as usize] += 1;
    done.ends.push(d.submit(Time::from_ps(at), Request::flush())?);
    Ok(done)
}

/// Served = submitted, queues drained, C7 and C8, and the two sums that must be one.
fn accounts(name: &str, pairs: &[&str], requests: u64) -> Result<Vec<Check>, Trouble> {
    let mut d = drive(&with(&config(SMALL)?, pairs)?)?;
    let bytes = d.capacity().bytes().0;
    fill(&mut d, bytes, 8 * UNIT_BYTES)?;
    let before = d.stats();
    let done = mixed(&mut d, requests, GAP)?;
    let stats = d.stats();
    let served: Vec<(u64, u64)> = (stats.host.iter().zip(&before.host))
        .map(|(now, then)| (now.ops - then.ops, now.units - then.units))
        .collect();
    let submitted: Vec<(u64, u64)> =
        done.ops.iter().zip(done.units).map(|(ops, units)| (*ops, units)).collect();
    let apps: BTreeMap<u16, u64> = stats
        .apps
        .iter()
        .enumerate()
        .map(|(app, n)| {
            let then = before.apps.get(app).copied().unwrap_or_default();
            let filled = then.read_units + then.write_units;
            (app as u16, n.read_units + n.write_units - filled)
        })
        .filter(|(_, units)| *units > 0)
        .collect();
    Ok(vec![
        Check::exact(SECTION, format!("{name}: served requests and pages"), &submitted, &served),
        Check::exact(SECTION, format!("{name}: served pages by application"), &done.apps, &apps),
        Check::exact(
            SECTION,
            format!("{name}: dirty pages after a flush"),
            &0,
            &stats.buffer.dirty,
        ),
        Check::exact(
            SECTION,
            format!("{name}: erases and wear"),
            &stats.wear.sum,
            &stats.nand.erases,
        ),
        holds_true(&d, name),
        translation_pages(&mut d, name)?,
        Check::holds(
            SECTION,
            format!("{name}: cleaning took place"),
            "erases",
            format!("{} erases, {} copies", stats.nand.erases, stats.gc.pages),
            stats.nand.erases > 0 && stats.gc.victims > 0,
        ),
    ])
}

/// Translation pages ordered are programmed, counted by the array over the drive's whole life;
/// what is left after a clean stop fits the one program group that the map's head assembles.
fn translation_pages(d: &mut Drive, name: &str) -> Result<Check, Trouble> {
    d.shutdown(quiet(d))?;
    let stats = d.stats();
    let (map, g) = (&stats.map, d.nand().geometry());
    let slots = u64::from(g.slots_per_page);
    let ordered = (map.evict_programs + map.gc_programs + map.checkpoint_programs) * slots;
    let found = stats.nand.programs[nand::Cause::Map as usize];
    let group = slots * u64::from(g.planes_per_die);
    Ok(Check::holds(
        SECTION,
        format!("{name}: slots of translation pages programmed"),
        &format!("{ordered}, less at most {group} being assembled"),
        found.to_string(),
        found <= ordered && ordered - found < group,
    ))
}

fn holds_true(d: &Drive, name: &str) -> Check {
    let found = d.check();
    let text = found.as_ref().map_or_else(ToString::to_string, |()| "hold".to_string());
    Check::holds(SECTION, format!("{name}: C7 and C8"), "hold", text, found.is_ok())
}

/// No die does two things at once, and each bus is busy exactly as long as its bytes need.
fn bookings(requests: u64) -> Result<Vec<Check>, Trouble> {
    let more = ["buffer.policy=none", "buffer.size=0", "nand.oob=full", "bus.cmd=150 ns"];
    let config = with(&config(SMALL)?, &more)?;
    let shape = Shape::new(&config);
    let mut d = drive(&config)?;
    let bytes = d.capacity().bytes().0;
    fill(&mut d, bytes, 8 * UNIT_BYTES)?;
    d.reset_stats();
    d.nand_mut().keep_journal();
    mixed(&mut d, requests, GAP)?;
    let mut by_die: BTreeMap<u32, Vec<(Time, Time)>> = BTreeMap::new();
    let mut last = None;
    for record in d.nand().journal().filter(|r| r.kind != OpKind::MarkBad) {
        let die = d.nand().die_of(record.block);
        // Planes programmed together are one booking.
        if last.replace((die, record.start, record.end)) != Some((die, record.start, record.end)) {
            by_die.entry(die).or_default().push((record.start, record.end));
        }
    }
    let overlaps = |list: &Vec<(Time, Time)>| {
        let mut list = list.clone();
        list.sort_unstable();
        list.windows(2).filter(|pair| pair[0].1 > pair[1].0).count()
    };
    let booked: usize = by_die.values().map(Vec::len).sum();
    let found: usize = by_die.values().map(overlaps).sum();
    let stats = d.stats();
    let now = quiet(&d);
    let longest = stats.nand.die_busy.iter().chain(&stats.nand.channel_busy).max();
    let checks = vec![
        Check::exact(SECTION, format!("overlaps among {booked} bookings of dies"), &0, &found),
        Check::holds(
            SECTION,
            "no die or bus is busy for longer than the run".to_string(),
            "less than the run",
            format!("{longest:?} of {now:?}"),
            longest.is_some_and(|busy| *busy <= now.since(Time::ZERO)) && booked > 100,
        ),
        bus_sum(&shape)?,
    ];
    Ok(checks)
}

/// Bus time of a load whose operations can be counted: whole pages written, 4 KiB read.
fn bus_sum(shape: &Shape) -> Result<Check, Trouble> {
    let more = ["buffer.policy=none", "buffer.size=0", "buffer.write=through", "bus.cmd=150 ns"];
    let mut d = drive(&with(&config(SMALL)?, &more)?)?;
    let (pages, reads) = (400u64, 700u64);
    let writes = (0..pages).map(|i| (false, i * shape.page, shape.page));
    let start = quiet(&d);
    serve(&mut d, start, 8, writes)?;
    let mut rng = Rng::stream(3, "selfcheck/bus");
    let reads_at: Vec<_> = (0..reads)
        .map(|_| (true, rng.below(pages) * shape.page + UNIT_BYTES, UNIT_BYTES))
        .collect();
    let start = quiet(&d);
    serve(&mut d, start, 8, reads_at)?;
    let expected =
        pages * (shape.cmd + shape.bus(shape.page)) + reads * (shape.cmd + shape.bus(UNIT_BYTES));
    let found: u64 = d.stats().nand.channel_busy.iter().map(|busy| busy.as_ps()).sum();
    let name = format!("bus time of {pages} page programs and {reads} reads of 4 KiB, ps");
    Ok(Check::exact(SECTION, name, &expected, &found))
}

/// Half the blocks: the same latency and the same bandwidth.
fn scale() -> Result<Vec<Check>, Trouble> {
    let mut checks = Vec::new();
    for preset in ["paper-remap", "mqsim-default", "samsung-970pro"] {
        let mut found = Vec::new();
        for blocks in ["geometry.blocks=32", "geometry.blocks=16"] {
            let config = with(&media(preset)?, &[blocks])?;
            let shape = Shape::new(&config);
            let mut d = drive(&config)?;
            fill(&mut d, 32 * shape.row(), shape.row())?;
            let at = quiet(&d);
            let idle = serve(&mut d, at, 1, [(true, 0, UNIT_BYTES)])?[0].since(at);
            let start = quiet(&d);
            let rows = (0..32).map(|i| (true, i * shape.row(), shape.row()));
            let ends = serve(&mut d, start, 4, rows)?;
            let last = ends.iter().max().copied().unwrap_or(start);
            found.push((idle, last.since(start)));
        }
        let name = format!("{preset}: idle read and time of 32 rows at half the blocks");
        checks.push(Check::exact(SECTION, name, &found[0], &found[1]));
    }
    Ok(checks)
}

/// Twice every latency and half of every rate, at twice the arrivals: twice every end.
fn unit_laws(requests: u64) -> Result<Vec<Check>, Trouble> {
    let mut checks = Vec::new();
    for (name, pairs) in VARIANTS {
        // Rates that divide 10^12, so that no transfer is rounded.
        let more = ["bus.rate=800 MB/s", "link.rate=3200 MB/s", "dram.rate=8 GB/s"];
        let base = with(&with(&config(SMALL)?, &more)?, pairs)?;
        let twice = doubled(&base)?;
        let mut ends = Vec::new();
        for (config, gap) in [(&base, GAP), (&twice, 2 * GAP)] {
            let mut d = drive(config)?;
            let bytes = d.capacity().bytes().0;
            fill(&mut d, bytes, 8 * UNIT_BYTES)?;
            let start = quiet(&d);
            let done = mixed(&mut d, requests, gap)?;
            ends.push(done.ends.iter().map(|end| end.since(start).as_ps()).collect::<Vec<_>>());
        }
        let wrong = ends[0].iter().zip(&ends[1]).position(|(once, twice)| 2 * once != *twice);
        checks.push(Check::holds(
            SECTION,
            format!("{name}: twice the latencies and half the rates"),
            "twice every end",
            wrong.map_or_else(
                || format!("{} ends, all twice", ends[0].len()),
                |i| format!("request {i}: {} and {} ps", ends[0][i], ends[1][i]),
            ),
            wrong.is_none(),
        ));
    }
    Ok(checks)
}

/// Every time of a configuration doubled, every rate halved.
fn doubled(base: &Config) -> Result<Config, Trouble> {
    let mut config = base.clone();
    let twice = |text: &str| parse_time(text).map(|t| format!("{} ps", 2 * t.as_ps()));
    for key in SCHEMA {
        let text = base.text(key.name);
        let text = match key.kind {
            KeyKind::Time => twice(text)?,
            KeyKind::Times => {
                let parts = text.split(',').filter(|t| !t.trim().is_empty());
                parts.map(twice).collect::<Result<Vec<_>, _>>()?.join(", ")
            }
            KeyKind::Rate => format!("{} B/s", parse_rate(text)? / 2),
            _ => continue,
        };
        let text = if text == "0 B/s" { "none".to_string() } else { text };
        if text != base.text(key.name) && !(text.is_empty() || text == "0 ps") {
            config.set_pair(&format!("{}={text}", key.name))?;
        }
    }
    Ok(config)
}

/// The same run alone and beside three others on other threads: the same operations.
fn order(requests: u64) -> Result<Vec<Check>, Trouble> {
    let one = || -> Result<(u64, String), String> {
        let run = || -> Result<(u64, Stats), Trouble> {
            let mut d = drive(&config(SMALL)?)?;
            let bytes = d.capacity().bytes().0;
            fill(&mut d, bytes, 8 * UNIT_BYTES)?;
            mixed(&mut d, requests, GAP)?;
            Ok((d.stats().event_hash, d.stats()))
        };
        run().map(|(hash, stats)| (hash, format!("{stats:?}"))).map_err(|trouble| trouble.0)
    };
    let alone = one().map_err(Trouble)?;
    let beside: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked".to_string())).collect()
    });
    let mut same = true;
    for result in beside {
        same &= result.and_then(|inner| inner).map_err(Trouble)? == alone;
    }
    Ok(vec![Check::holds(
        SECTION,
        "five runs, four of them at once".to_string(),
        "the same operations and counters",
        format!("event hash {:016x}", alone.0),
        same && alone.0 != 0,
    )])
}
