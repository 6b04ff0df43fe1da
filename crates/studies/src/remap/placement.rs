//! Which head takes a block: write amplification of the log alone, by placement, beside what could be had
//! if it were known when each block dies (not in the paper).

use std::sync::Arc;

use block::{BlockDevice, Bytes, DeviceError, Lba, Lpn, Request, Rng, Sectors, Time};
use lab::LabError;
use lab::input::{Fit, Origin, Workload};
use remap::{HostLog, KNOWN_CLASSES, Known, LogError};
use report::study::{Check, Plot, Study, Table, Value};
use report::values;
use workload::TraceOp;

use super::{Options, SEED, Scale, section};
use crate::text::{change, ratio};

/// Blocks of a segment.
const SEGMENT: u64 = 128;
/// Blocks of the client at the default scale, and with `--quick`.
const BLOCKS: [u32; 2] = [131_072, 32_768];
/// A block of the client that was never written again.
const NEVER: u32 = u32::MAX;

/// A device that keeps nothing.
struct Nothing(u64);

impl BlockDevice for Nothing {
    fn capacity(&self) -> Sectors {
        Sectors(self.0 * 8)
    }
    fn submit(&mut self, at: Time, _: Request<'_>) -> Result<Time, DeviceError> {
        Ok(at)
    }
}

/// Writes of single blocks: the space is filled in order, then come these.
struct Load {
    name: &'static str,
    blocks: u32,
    writes: Vec<u32>,
    /// From here on writes are measured.
    from: usize,
    /// For each write of [`Load::all`], its block's next.
    next: Vec<u32>,
    /// The class of each block by how often it is written.
    classes: Vec<u8>,
}

impl Load {
    fn new(name: &'static str, blocks: u32, writes: Vec<u32>, from: usize) -> Load {
        let all: Vec<u32> = (0..blocks).chain(writes.iter().copied()).collect();
        let mut next = vec![NEVER; all.len()];
        let mut last = vec![NEVER; blocks as usize];
        let mut often = vec![0u32; blocks as usize];
        for (i, block) in all.iter().enumerate().rev() {
            next[i] = std::mem::replace(&mut last[*block as usize], i as u32);
            often[*block as usize] += 1;
        }
        let mut ranks: Vec<u32> = (0..blocks).collect();
        ranks.sort_unstable_by_key(|block| (u32::MAX - often[*block as usize], *block));
        let mut classes = vec![0; blocks as usize];
        for (rank, block) in (0u64..).zip(&ranks) {
            // Classes of about equal traffic under a skew like Zipf's.
            let octave = (u64::from(blocks) / (rank + 1)).max(1).ilog2();
            classes[*block as usize] = match octave {
                13.. => 0,
                10..13 => 1,
                7..10 => 2,
                5..7 => 3,
                3..5 => 4,
                _ => 5,
            };
        }
        Load { name, blocks, writes, from, next, classes }
    }

    /// Drawn writes: warmed up, then measured.
    fn drawn(name: &'static str, blocks: u32, draw: impl Fn(&mut Rng) -> u32) -> Load {
        let mut rng = Rng::stream(SEED, &format!("reproduce/remap/placement/{name}"));
        let writes = (0..10 * blocks).map(|_| draw(&mut rng)).collect();
        Load::new(name, blocks, writes, 8 * blocks as usize)
    }

    /// The same of a recipe of fio's jobs.
    fn recipe(name: &'static str, blocks: u32, recipe: &str) -> Result<Load, LabError> {
        let whole = format!("fio,{recipe},bs=4KiB,size={}KiB,count={}", 4 * blocks, 10 * blocks);
        let writes = blocks_of(Origin::Recipe(whole), Fit::Exact)?;
        Ok(Load::new(name, blocks, writes, 8 * blocks as usize))
    }

    /// A trace, four times: the last is measured. Blocks that it never writes are left out.
    fn traced(name: &'static str, path: std::path::PathBuf) -> Result<Load, LabError> {
        let found = blocks_of(Origin::Files(vec![path.into()]), Fit::Compact(Bytes(1 << 20)))?;
        let mut names: Vec<u32> = found.clone();
        names.sort_unstable();
        names.dedup();
        let of = |block: &u32| names.binary_search(block).unwrap_or(0) as u32;
        let once: Vec<u32> = found.iter().map(of).collect();
        let writes: Vec<u32> = once.iter().copied().cycle().take(4 * once.len()).collect();
        Ok(Load::new(name, names.len() as u32, writes, 3 * once.len()))
    }
}

/// The blocks that a load writes, one after the other.
fn blocks_of(origin: Origin, fit: Fit) -> Result<Vec<u32>, LabError> {
    let workload = Workload { origin: Some(origin), fit, ..Workload::default() };
    let mut source = workload.prepare(SEED)?.open(SEED, Bytes(1 << 42))?;
    let (mut block, mut found) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut block).map_err(|e| LabError::Input(e.to_string()))?;
        if block.is_empty() {
            return Ok(found);
        }
        for record in block.iter().filter(|record| record.op == TraceOp::Write) {
            let end = (record.offset.0 + record.len.0).div_ceil(4096);
            found.extend((record.offset.0 / 4096) as u32..end as u32);
        }
    }
}

/// Somebody who knows the load: how often each block is written, or when it is written next.
#[derive(Debug)]
struct Oracle {
    next: Vec<u32>,
    classes: Vec<u8>,
    /// When each block is written next.
    death: Vec<u32>,
    /// A quarter of a class of lifetimes; 0: classes are by how often blocks are written.
    step: u64,
}

impl Oracle {
    fn class(&self, lpn: Lpn, clock: u64) -> u8 {
        if self.step == 0 {
            return self.classes[lpn.index()];
        }
        let left = u64::from(self.death[lpn.index()]).saturating_sub(clock);
        // Each class lives four times as long as the one before.
        let class = (left / self.step).checked_ilog2().map_or(0, |log| log / 2 + 1);
        (class as u8).min(KNOWN_CLASSES - 1)
    }
}

impl Known for Oracle {
    fn written(&mut self, lpn: Lpn, clock: u64) -> u8 {
        self.death[lpn.index()] = self.next[clock as usize];
        self.class(lpn, clock)
    }
    fn moved(&mut self, lpn: Lpn, clock: u64) -> u8 {
        self.class(lpn, clock)
    }
}

/// A way of placing blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Placed(&'static str, &'static str),
    Often,
    Clairvoyant,
}

const WAYS: [(&str, &str, Way); 6] = [
    ("two_greedy", "two, greedy", Way::Placed("two", "greedy")),
    ("two", "two", Way::Placed("two", "cost-benefit")),
    ("sepbit", "sepbit", Way::Placed("sepbit", "cost-benefit")),
    ("auto", "auto", Way::Placed("auto", "cost-benefit")),
    ("often", "known: how often", Way::Often),
    ("clairvoyant", "known: when each dies", Way::Clairvoyant),
];

/// Blocks written for each of the client's in the measured part: with copies alone, and all of them. None: a
/// log this small has no room for so much beside its least reserve.
fn run(load: &Load, fill: u64, way: Way) -> Result<Option<[(u64, u64); 2]>, LabError> {
    let failed = |e: LogError| LabError::Failed(format!("placement, {}: {e}", load.name));
    let physical = u64::from(load.blocks) * 100 / fill;
    let mut options = remap::LogOptions::default();
    let (placement, policy) = match way {
        Way::Placed(placement, policy) => (placement, policy),
        Way::Often | Way::Clairvoyant => ("known", "cost-benefit"),
    };
    let segment = format!("{} KiB", SEGMENT * 4);
    for (name, value) in [
        ("payload", "none"),
        ("reserve", "5"),
        ("segment", &segment),
        ("placement", placement),
        ("gc.victim", policy),
    ] {
        options.set(name, value).map_err(failed)?;
    }
    options.capacity = Bytes(u64::from(load.blocks) * 4096);
    // Super block and roots lie beside the segments.
    let device = Nothing(physical.next_multiple_of(SEGMENT) + SEGMENT);
    let mut log = match HostLog::format(device, &options) {
        Err(LogError::Shape(_)) => return Ok(None),
        formatted => formatted.map_err(failed)?,
    };
    if matches!(way, Way::Often | Way::Clairvoyant) {
        let clairvoyant = way == Way::Clairvoyant;
        log.know(Box::new(Oracle {
            next: load.next.clone(),
            classes: load.classes.clone(),
            death: vec![NEVER; load.blocks as usize],
            step: if clairvoyant { (physical / 128).max(1) } else { 0 },
        }));
    }
    let write = |log: &mut HostLog<Nothing>, lpn: u32| {
        let request = Request::write(Lba(u64::from(lpn) * 8), Sectors(8));
        log.submit(Time::ZERO, request).map(|_| ()).map_err(|e| failed(e.into()))
    };
    (0..load.blocks).try_for_each(|lpn| write(&mut log, lpn))?;
    load.writes[..load.from].iter().try_for_each(|lpn| write(&mut log, *lpn))?;
    let before = *log.counters();
    load.writes[load.from..].iter().try_for_each(|lpn| write(&mut log, *lpn))?;
    log.check().map_err(failed)?;
    let now = log.counters();
    let user = now.user - before.user;
    Ok(Some([(user + now.gc - before.gc, user), (now.written() - before.written(), user)]))
}

/// The traces of the project's own captures.
const TRACES: [(&str, &str); 5] = [
    ("tpcc, MariaDB on ext4", "tpcc_run_mariadb_ext4.csv.zst"),
    ("YCSB A, RocksDB on ext4", "ycsb_a_rocksdb_ext4.csv.zst"),
    ("SQLite, WAL, on ext4", "sqlite_wal_full_ext4.csv.zst"),
    ("varmail on ext4", "filebench_varmail_ext4.csv.zst"),
    ("fio, random, on ext4", "fio_randwrite_ext4.csv.zst"),
];

type Loads = Vec<(Arc<Load>, &'static [u64])>;

fn loads(options: &Options) -> Result<Loads, LabError> {
    let blocks = BLOCKS[usize::from(options.scale == Scale::Quick)];
    let all = u64::from(blocks);
    let zipf = "rw=randwrite,norandommap=on,distribution=zipf:0.99";
    let hot = |rng: &mut Rng| match rng.ratio(4, 5) {
        true => 5 * rng.below(all / 5) as u32,
        false => (5 * rng.below(all / 5) + 1 + rng.below(4)) as u32,
    };
    let uniform = |rng: &mut Rng| rng.below(all) as u32;
    let mut loads: Loads = vec![
        (Arc::new(Load::recipe("Zipf 0.99", blocks, zipf)?), &[80, 90]),
        (Arc::new(Load::drawn("20/80", blocks, hot)), &[80, 90]),
        (Arc::new(Load::drawn("uniform", blocks, uniform)), &[80, 90]),
    ];
    if options.scale != Scale::Quick {
        for (name, file) in TRACES {
            loads.push((Arc::new(Load::traced(name, options.data.join(file))?), &[80, 90]));
        }
    }
    Ok(loads)
}

/// What `auto` may write for each block of the client, in hundredths, without headers and the map.
const GOALS: [(&str, u64, u64); 4] =
    [("Zipf 0.99", 80, 200), ("Zipf 0.99", 90, 330), ("20/80", 80, 245), ("20/80", 90, 470)];

/// What a load has to show: a goal, with 5 % for headers and the map; under uniform writes what greedy
/// has, and on a trace the better of the two placements, with 5 %.
fn goal(load: &str, fill: u64, found: &[[(u64, u64); 2]]) -> Check {
    let (copies, all) = (|way: usize| found[way][0], found[3][1]);
    // In ten thousandths.
    let of = |(written, user): (u64, u64)| written * 10_000 / user.max(1);
    let known = GOALS.iter().find(|(name, at, _)| *name == load && *at == fill);
    let (what, here, most) = match known {
        Some((.., most)) => ("with headers and map at most", of(all), most * 105),
        None if load == "uniform" => {
            ("at most 1.05 of greedy's", of(copies(3)), of(copies(0)) * 21 / 20)
        }
        None => {
            let better = of(copies(1)).min(of(copies(2)));
            ("at most 1.05 of the better placement's", of(copies(3)), better * 21 / 20)
        }
    };
    Check {
        what: format!("placement, {load}, {fill} %: auto writes {what} {}", ratio((most, 10_000))),
        found: ratio((here, 10_000)).to_string(),
        holds: here <= most,
    }
}

/// The table, and how near `auto` comes to what could be known.
pub(super) fn run_all(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let mut jobs = Vec::new();
    for (load, fills) in loads(options)? {
        for fill in fills {
            jobs.extend(WAYS.map(|(.., way)| (load.clone(), *fill, way)));
        }
    }
    let found = crate::parallel::beside(options.threads, &jobs, |(load, fill, way)| {
        run(load, *fill, *way)
    })?;
    let names = [("load", "load"), ("fill", "fill"), ("segments", "segments")];
    let ways = WAYS.map(|(id, title, _)| (id, title));
    let more = [("auto_all", "auto, headers and map too"), ("gap", "auto against when each dies")];
    let mut table = Table::new(names.into_iter().chain(ways).chain(more));
    for (jobs, found) in jobs.chunks(WAYS.len()).zip(found.chunks(WAYS.len())) {
        let (load, fill, _) = &jobs[0];
        let segments = u64::from(load.blocks) * 100 / fill / SEGMENT;
        let mut row: Vec<Value> = values![load.name, format!("{fill} %"), segments].to_vec();
        let Some(found) = found.iter().copied().collect::<Option<Vec<_>>>() else {
            row.extend(std::iter::repeat_n(Value::Absent, WAYS.len() + 2));
            table.row(row);
            continue;
        };
        row.extend(found.iter().map(|[copies, _]| ratio(*copies)));
        row.push(ratio(found[3][1]));
        let [(auto, user), (best, others)] = [found[3][0], found[5][0]];
        row.push(change(auto * others, best * user));
        table.row(row);
        if options.scale != Scale::Quick {
            study.checks.push(goal(load.name, *fill, &found));
        }
    }
    study.sections.push(
        section(
            "placement",
            "Which head takes a block: write amplification of the host log (not in the paper)",
            "Writes of 4 KiB, one at a time, no drive below; segments of 128 blocks, cleaned by cost-benefit \
             but for the first column; the client's blocks and their copies for each block written, without \
             headers and the map unless said. Drawn loads are written eight times over before, traces three \
             times. A log 95 % full is not there: the least reserve is 5 %, beside headers. Known: six classes for the client and six for copies, of blocks written about equally \
             often, or that die at about the same time; nobody can know that, it is what is left to gain.",
            table,
        )
        .plot(Plot::bars("write amplification, 80 % full", "load", WAYS.map(|(id, ..)| id)).only("fill", "80 %"))?,
    );
    Ok(())
}
