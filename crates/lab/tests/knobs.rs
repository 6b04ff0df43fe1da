//! Every key of the schema changes a number. Each row names a base configuration, a second value
//! and the figure that must differ; a key without a row fails the test, and so does a row whose
//! figure stays.

use std::collections::BTreeMap;

use block::{
    AppId, BlockDevice, Data, Hint, Lba, Lpn, Op, Remap, Request, Rng, Sectors, StreamId, Time,
    Transactional,
};
use ssd::{Config, Drive, SCHEMA, Stats};

/// Key, base configuration over [`BASE`] (`-key`: without that of `BASE`), second value, figure.
type Row = (&'static str, &'static [&'static str], &'static str, &'static str);

/// A small drive that cleans, evicts and is never idle for long.
const BASE: &[&str] = &[
    "geometry.channels=2",
    "geometry.dies=2",
    "geometry.planes=2",
    "geometry.blocks=48",
    "geometry.pages=24",
    "geometry.page=8 KiB",
    "line=die",
    "op=40 %",
    "bus.rate=400 MB/s",
    "buffer.size=256 KiB",
];

const LOG: &[&str] = &["ftl=hybrid-log", "op=60 %", "hybrid.log_blocks=10 %"];
const CKPT: &[&str] = &["nand.oob=full", "ckpt.mode=interval", "op=60 %"];
const TWO_TYPES: &[&str] =
    &["geometry.cell_bits=2", "nand.read=40 us, 80 us", "nand.program=200 us, 600 us"];
const CACHED: &[&str] = &["nand.cache_ops=on"];
const SUSPEND: &[&str] = &["nand.suspend=both", "nand.t_suspend=5 us", "nand.program=900 us"];
const PAGED: &[&str] = &["map.mode=paged", "map.cache=32 KiB", "op=60 %"];
const STREAMS: &[&str] = &["streams.policy=app", "streams.count=2"];
const COLD: &[&str] = &["wl.mode=dynamic+static", "wl.delta=2", "wl.period=10"];
const IDLE: &[&str] = &["gc.background=on", "gc.idle=1 ms", "gc.bg_start=20 %"];
const TX: &[&str] = &["nand.oob=full", "op=60 %", "tx.mode=nolog", "tx.max_open=8"];
const TX_WIDE: &[&str] =
    &["-line", "nand.oob=full", "op=200 %", "tx.mode=nolog", "tx.max_open=8", "tx.pages=100"];
const BIG_LINES: &[&str] = &[
    "geometry.pages=4096",
    "geometry.page=4 KiB",
    "geometry.blocks=64",
    "geometry.channels=1",
    "geometry.dies=1",
    "geometry.planes=1",
    "line=superblock",
    "buffer.policy=none",
    "buffer.size=0",
    "op=100 %",
    "timing=off",
];

const ROWS: &[Row] = &[
    ("bad.factory", &["bad.reserve=10 %", "op=60 %"], "3 %", "bad blocks"),
    ("bad.reserve", &[], "10 %", "logical pages"),
    ("buffer.policy", &[], "fifo", "hits"),
    ("buffer.size", &[], "512 KiB", "hits"),
    ("buffer.staging", &["buffer.staging=1"], "64", "write latency"),
    ("buffer.subunit", &[], "mask", "rmw reads"),
    ("buffer.write", &[], "through", "write latency"),
    ("bus.cmd", &[], "1 us", "read latency"),
    ("bus.oob", &[], "on", "bus busy"),
    ("bus.page_time", &["bus.rate=none"], "30 us", "read latency"),
    ("bus.rate", &[], "200 MB/s", "read latency"),
    ("capacity", &["geometry.blocks=0", "capacity=24 MiB"], "32 MiB", "logical pages"),
    ("ckpt.interval", CKPT, "25 %", "metadata programs"),
    ("ckpt.mode", CKPT, "none", "metadata programs"),
    ("dram.latency", &[], "10 us", "write latency"),
    ("dram.rate", &[], "100 MB/s", "write latency"),
    ("dram.size", &["-buffer.size", "dram.size=1 MiB"], "2 MiB", "buffer slots"),
    ("ftl", &["op=60 %"], "hybrid-log", "merges"),
    ("fw.complete", &[], "3 us", "read latency"),
    ("fw.cores", &["fw.read=200 us"], "4", "read latency"),
    ("fw.latency.per_unit", &[], "3 us", "write latency"),
    ("fw.latency.read", &[], "9 us", "read latency"),
    ("fw.latency.read_4k", &["fw.latency.read=9 us"], "3 us", "read latency"),
    ("fw.latency.write", &[], "9 us", "write latency"),
    ("fw.per_unit", &[], "3 us", "write latency"),
    ("fw.read", &[], "9 us", "read latency"),
    ("fw.read_4k", &["fw.read=9 us"], "3 us", "read latency"),
    ("fw.write", &[], "9 us", "write latency"),
    ("gc.background", &["gc.idle=1 ms", "gc.bg_start=20 %"], "on", "background victims"),
    ("gc.bg_start", IDLE, "9 %", "background victims"),
    ("gc.exact", BIG_LINES, "off", "erases and copies"),
    ("gc.idle", IDLE, "30 ms", "background victims"),
    ("gc.pace", &[], "burst", "write latency"),
    ("gc.per_stream", STREAMS, "on", "erases and copies"),
    ("gc.reserve", &[], "12", "erases and copies"),
    ("gc.start", &[], "16", "erases and copies"),
    ("gc.start_share", &[], "10 %", "erases and copies"),
    ("gc.stop", &["gc.start=10", "gc.pace=burst"], "20", "erases and copies"),
    ("gc.victim", &[], "fifo", "erases and copies"),
    ("geometry.blocks", &[], "64", "logical pages"),
    ("geometry.cell_bits", &["nand.one_shot=on"], "2", "page programs"),
    ("geometry.channels", &[], "4", "read latency"),
    ("geometry.dies", &[], "4", "read latency"),
    ("geometry.oob", &["bus.oob=on"], "64", "bus busy"),
    ("geometry.page", &[], "16 KiB", "page programs"),
    ("geometry.pages", &[], "32", "logical pages"),
    ("geometry.planes", &[], "1", "page programs"),
    ("hybrid.assoc", LOG, "block", "merges"),
    ("hybrid.log_blocks", LOG, "20 %", "merges"),
    ("line", &[], "channel", "erases and copies"),
    ("link.rate", &[], "100 MB/s", "read latency"),
    ("map.cache", PAGED, "96 KiB", "map misses"),
    ("map.evict", PAGED, "lru", "map misses"),
    ("map.mode", &["op=60 %"], "paged", "map misses"),
    ("nand.cache_ops", &[], "on", "flush latency"),
    ("nand.erase", &[], "20 ms", "read latency"),
    ("nand.independent_planes", &[], "on", "read latency"),
    ("nand.multi_plane", &[], "off", "write latency"),
    ("nand.one_shot", &["geometry.cell_bits=2"], "on", "flush latency"),
    ("nand.oob", &[], "full", "stamps are kept"),
    ("nand.page_types", TWO_TYPES, "lsb-msb", "read latency"),
    ("nand.program", &[], "900 us", "write latency"),
    ("nand.read", &[], "90 us", "read latency"),
    ("nand.read_4k", &[], "20 us", "read latency"),
    ("nand.suspend", SUSPEND, "none", "suspensions"),
    ("nand.suspend_max", SUSPEND, "1", "suspensions"),
    ("nand.suspend_min", SUSPEND, "500 us", "suspensions"),
    ("nand.t_cbsy", CACHED, "50 us", "flush latency"),
    ("nand.t_rcbsy", CACHED, "50 us", "read latency"),
    ("nand.t_resume", SUSPEND, "100 us", "write latency"),
    ("nand.t_suspend", SUSPEND, "90 us", "read latency"),
    ("op", &[], "80 %", "logical pages"),
    ("order", &["line=superblock"], "PWCD", "read latency"),
    ("placement", &["line=superblock"], "dynamic", "read latency"),
    ("plp.mode", &[], "full", "flush latency"),
    ("plp.pages", &["plp.mode=capacitor", "plp.pages=1"], "40", "flush latency"),
    ("queue_depth", &[], "1", "time in the host's queue"),
    ("sched", &[], "read-first", "read latency"),
    ("streams.count", STREAMS, "1", "erases and copies"),
    ("streams.policy", &[], "single", "erases and copies"),
    ("timing", &[], "off", "read latency"),
    ("tx.commit", TX_WIDE, "barrier", "commit latency"),
    ("tx.lock", TX, "ignore", "transactions"),
    ("tx.losers", TX, "8", "transactions"),
    ("tx.max_open", TX, "4", "limits of transactions"),
    ("tx.mode", &["nand.oob=full", "op=60 %"], "nolog", "limits of transactions"),
    ("tx.pages", TX, "64", "limits of transactions"),
    ("tx.pairs", TX_WIDE, "4", "transactions"),
    ("tx.span", TX, "16", "limits of transactions"),
    ("unit", &[], "8 KiB", "rmw reads"),
    ("wl.delta", COLD, "40", "wear-levelling copies"),
    ("wl.mode", &["wl.delta=2", "wl.period=10"], "dynamic+static", "wear-levelling copies"),
    ("wl.period", COLD, "400", "wear-levelling copies"),
];

/// What a run adds up.
#[derive(Default)]
struct Sums {
    latency: [u64; 4],
    queued: u64,
    stamps: bool,
    commits: u64,
    limits: String,
    tx: String,
}

/// Transactions of a few pages, some of them aborted, and pages that change their names.
fn transactions(d: &mut Drive, at: Time) -> u64 {
    let mut rng = Rng::stream(5, "knobs/tx");
    let pages = d.capacity().0 / 8;
    let (mut at, mut latency, mut open) = (at, 0, Vec::new());
    for i in 0..3_000u64 {
        if let Ok(tid) = d.tx_begin() {
            open.push(tid);
        }
        for tid in &open {
            let page = Lpn(rng.below(pages) as u32);
            // A page of another transaction, or no room: the next one will do.
            at = d.tx_write(at, *tid, page, Data::None).unwrap_or(at);
        }
        if open.len() > 3 || i % 3 == 0 {
            if open.is_empty() {
                continue;
            }
            let tid = open.remove(0);
            let end = match rng.below(3) {
                0 => d.tx_abort(at, tid).unwrap(),
                _ => d.tx_commit(at, &[tid]).unwrap(),
            };
            latency += end.since(at).as_ps();
            at = end;
        }
        if i % 100 == 99 {
            for tid in open.drain(..) {
                at = d.tx_abort(at, tid).unwrap();
            }
            let first = rng.below(pages - 16) as u32;
            let pairs: Vec<_> = (first..first + 8).map(|p| (Lpn(p), Lpn(p + 8))).collect();
            at = d.remap(at, &pairs).unwrap();
        }
    }
    for tid in open {
        at = d.tx_abort(at, tid).unwrap();
    }
    latency
}

fn run(config: &Config) -> (Stats, Sums) {
    let mut d = Drive::new(&config.resolve().unwrap()).unwrap();
    let pages = d.capacity().0 / 8;
    let mut sums = Sums::default();
    let stamp = Request::write(Lba(0), Sectors(8)).with(Data::WriteStamps(&[7]));
    sums.stamps = d.submit(Time::ZERO, stamp).is_ok();
    d.set_timing(false);
    for page in 0..pages {
        d.submit(Time::ZERO, Request::write(Lba(page * 8), Sectors(8))).unwrap();
    }
    d.set_timing(config.text("timing") == "on");
    let mut rng = Rng::stream(5, "knobs");
    let depth = config.resolve().unwrap().queue_depth as usize;
    let (mut at, mut flight) = (Time::from_us(1_000_000), Vec::<Time>::new());
    let first = at.as_ps();
    let mut arrival = first;
    // Two drive writes at least, so that every policy has something to decide.
    for i in 0..(4 * pages).max(8_000) {
        arrival += rng.below(2 * 250_000_000);
        // Now and then the host pauses: time for work in the background.
        arrival += if i % 400 == 399 { 100_000_000_000 } else { 0 };
        let request = request(&mut rng, pages);
        // The drive takes so many commands at a time; the rest wait in the host's queue.
        at = at.max(Time::from_ps(arrival));
        flight.retain(|end| *end > at);
        if flight.len() >= depth {
            let index = (0..flight.len()).min_by_key(|i| flight[*i]).unwrap();
            at = at.max(flight.swap_remove(index));
        }
        sums.queued += at.as_ps() - arrival.min(at.as_ps());
        let op = request.op as usize;
        let end = d.submit(at, request).unwrap();
        sums.latency[op] += end.since(at).as_ps();
        flight.push(end);
    }
    if config.text("tx.mode") != "off" {
        sums.commits = transactions(&mut d, at);
    }
    d.check().unwrap();
    sums.limits = format!("{:?}", d.tx_limits());
    sums.tx = format!("{:?}", d.tx_stats());
    (d.stats(), sums)
}

/// Nine of ten writes go to a tenth of the pages; requests of 512 B to 16 KiB.
fn request(rng: &mut Rng, pages: u64) -> Request<'static> {
    let hot = rng.ratio(9, 10);
    let space = if hot { pages / 10 } else { pages - 8 };
    let page = rng.below(space);
    let sectors = *rng.pick(&[1u64, 8, 8, 8, 16, 32]);
    let (lba, sectors) = (Lba(page * 8), Sectors(sectors));
    let request = match rng.below(100) {
        0..50 => Request::write(lba, sectors),
        50..97 => Request::read(Lba(rng.below(pages - 8) * 8), sectors),
        97 => Request::discard(lba, Sectors(32)),
        _ => Request::flush(),
    };
    let hint = Hint { app: AppId(u16::from(hot)), stream: StreamId(u8::from(hot)) };
    Request { hint, ..request }
}

fn figures(config: &Config) -> BTreeMap<&'static str, String> {
    let (s, sums) = run(config);
    let hits: u64 = s.apps.iter().map(|a| a.read_hits + a.write_hits).sum();
    let busy: u64 = s.nand.channel_busy.iter().map(|b| b.as_ps()).sum();
    let latency = |op: Op| sums.latency[op as usize].to_string();
    BTreeMap::from([
        ("bad blocks", s.bad_blocks.to_string()),
        ("logical pages", (s.logical_units).to_string()),
        ("hits", hits.to_string()),
        ("buffer slots", s.buffer.slots.to_string()),
        ("bus busy", busy.to_string()),
        ("read latency", latency(Op::Read)),
        ("write latency", latency(Op::Write)),
        ("flush latency", latency(Op::Flush)),
        ("rmw reads", s.nand.reads[nand::ReadCause::Rmw as usize].to_string()),
        ("metadata programs", s.nand.programs[nand::Cause::Metadata as usize].to_string()),
        ("merges", format!("{:?}", s.merges)),
        ("background victims", s.gc.background.to_string()),
        ("erases and copies", format!("{} {}", s.nand.erases, s.gc.pages)),
        ("page programs", s.nand.page_programs.to_string()),
        ("map misses", s.map.misses.to_string()),
        ("suspensions", s.nand.suspends.to_string()),
        ("wear-levelling copies", s.gc.wl_pages.to_string()),
        ("stamps are kept", sums.stamps.to_string()),
        ("commit latency", sums.commits.to_string()),
        ("limits of transactions", sums.limits),
        ("transactions", format!("{} {} {}", sums.tx, s.nand.erases, s.gc.pages)),
        ("time in the host's queue", sums.queued.to_string()),
    ])
}

fn config(row: &Row, second: bool) -> Config {
    let mut config = Config::default();
    let without = |pair: &&&str| {
        let key = pair.split('=').next().unwrap_or_default();
        !row.1.iter().any(|other| other.strip_prefix('-') == Some(key))
    };
    let more = row.1.iter().filter(|pair| !pair.starts_with('-'));
    for pair in BASE.iter().filter(without).chain(more) {
        config.set_pair(pair).unwrap();
    }
    if second {
        config.set_pair(&format!("{}={}", row.0, row.2)).unwrap();
    }
    // A paged map has a cache only where the map is paged.
    if config.text("map.mode") == "paged" && config.text("map.cache") == "0" {
        config.set_pair("map.cache=32 KiB").unwrap();
    }
    config
}

#[test]
fn every_key_has_a_row() {
    let keys: Vec<&str> = SCHEMA.iter().map(|key| key.name).collect();
    let rows: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    assert_eq!(keys, rows);
}

#[test]
fn every_key_changes_its_number() {
    let still: Vec<String> = ROWS
        .iter()
        .filter_map(|row| {
            let (a, b) = (config(row, false), config(row, true));
            for c in [&a, &b] {
                if let Err(error) = c.resolve() {
                    return Some(format!("{}: {error}", row.0));
                }
            }
            let (a, b) = (&figures(&a)[row.3], &figures(&b)[row.3]);
            (a == b).then(|| format!("{} = {}: {} stays {a}", row.0, row.2, row.3))
        })
        .collect();
    assert!(still.is_empty(), "{still:#?}");
}
