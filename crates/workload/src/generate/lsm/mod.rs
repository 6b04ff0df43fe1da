//! `lsm`: a leveled log-structured merge tree, at the level of its files and requests.
//!
//! Source: the parameters and requests are those of RocksDB 6.2 without compression, as seen in
//! the captured traces `ycsb_load_rocksdb` and `ycsb_a_rocksdb` (direct I/O, ext4); keys are
//! YCSB's. Phases: `load` (inserts in hashed order), `run` (YCSB A, B, C or F on a loaded store,
//! with what the load left to compact), `load+run`, `fillrandom` (puts of uniform keys).
//!
//! Modelled: memtables, their log and level-0 files; compactions by score, level 0 whole, others
//! round robin with their overlap below; merges within level 0 while it waits for level 1 (without
//! them a get reads level 0 far too often); trivial moves; files cut at their size; the pace of each
//! thread, and with it how far compaction lags behind (this sets the write amplification of a
//! load); stops and slow-downs at long level 0; block reads of a get from the newest file on, with
//! a block cache; an extent allocator that uses freed space again; the file system's journal,
//! flushes, space set aside and discards. Requests have the sizes that the kernel made of calls.
//!
//! Not modelled: keys in files. A file is a key range, a share of the range's records and a number
//! of puts ([`tree`]); duplicates are what is expected of so many draws, and whether a file holds
//! a key is drawn from a hash of both, so it stays the same while the file lives. Also not:
//! buffered I/O (a page cache under the store; `io_read=128KiB,io_write=1280KiB,cut=off` has its
//! sizes of requests, no more), inserts and scans of the run (YCSB D and E), write-back of inodes
//! and bitmaps, the closing and opening of the store between load and run. The captures discard
//! two and a half to three times the bytes they write, the model about as many as it writes: why
//! ext4 discards more is not known here. Contention for the processor is one rule: in the run an
//! operation takes `iat`, and as long again for each compaction that goes on.
//!
//! `rate`, `insert_iat` and `iat` were chosen so that load and run of `rocksdb-small` come near the
//! two captures; everything else is RocksDB's default. `tests.rs` states how near.
//!
//! Invariants: memory is bounded by the number of files, one memtable's keys, the block cache and
//! one job for each thread; the same recipe gives the same records; no record reaches beyond
//! `area`; times do not fall; only free space is written, but for a file's last page.

mod alloc;
mod cache;
mod engine;
mod job;
mod popularity;
mod tree;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::{Bytes, Span, UNIT_BYTES, parse_time};

use self::engine::{Engine, LsmSource};
use self::job::Sizes;
use super::fields::{Fields, span_text};
use super::recipe::Asked;
use super::ycsb::Workload;
use super::{Generator, Source};
use crate::SourceError;

use self::alloc::Placement;

/// The first MiB holds the store's manifest, the next 64 the file system's journal, in rings.
const JOURNAL: u64 = 1 << 20;
/// Where files start.
const META: u64 = 65 << 20;

/// What the stream holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Load,
    Run,
    LoadRun,
    Fill,
}

impl Phase {
    const NAMES: [(&'static str, Phase); 4] = [
        ("load", Phase::Load),
        ("run", Phase::Run),
        ("load+run", Phase::LoadRun),
        ("fillrandom", Phase::Fill),
    ];
}

const PLACEMENTS: [(&str, Placement); 3] = [
    ("next-fit", Placement::NextFit),
    ("first-fit", Placement::FirstFit),
    ("random", Placement::Random),
];

/// A preset: name, then memtable, file and level 1 in MiB, records.
const PRESETS: [(&str, [u64; 4]); 3] = [
    ("rocksdb-small", [16, 16, 64, 1_000_000]),
    ("rocksdb-default", [64, 64, 256, 10_000_000]),
    ("rocksdb-paper", [64, 64, 256, 200_000_000]),
];

/// Bytes of memory an entry takes beside itself in a memtable.
const NODE: u64 = 39;

struct Params {
    seed: u64,
    app: String,
    preset: &'static str,
    phase: Phase,
    workload: Workload,
    records: u64,
    record: u64,
    count: u64,
    memtable: u64,
    file: u64,
    level1: u64,
    growth: u64,
    trigger: u64,
    slowdown: u64,
    stop: u64,
    sizes: Sizes,
    cache: u64,
    filter: bool,
    area: u64,
    placement: Placement,
    discard: bool,
    threads: u64,
    rate: u64,
    insert_ps: u64,
    op_ps: u64,
}

impl Params {
    /// Entries of a full memtable.
    fn entries(&self) -> u64 {
        (self.memtable / (self.record + NODE)).max(1)
    }

    /// Bytes of a data block: whole entries, 4 KiB or just more.
    fn block(&self) -> u64 {
        UNIT_BYTES.div_ceil(self.record) * self.record
    }
}

fn name_of<T: PartialEq + Copy>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, v)| *v == value).map_or("", |(name, _)| name)
}

pub(super) fn build(
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Arc<dyn Generator>, SourceError> {
    let expected = "`rocksdb-small`, `rocksdb-default` or `rocksdb-paper`";
    let find = |text: &str| PRESETS.into_iter().find(|(name, _)| *name == text);
    let (preset, of) = fields.take("preset", PRESETS[0], expected, find)?;
    let expected = "`load`, `run`, `load+run` or `fillrandom`";
    let find = |text: &str| Phase::NAMES.iter().find(|(name, _)| *name == text).map(|(_, v)| *v);
    let phase = fields.take("phase", Phase::Load, expected, find)?;
    let workload = fields.take("workload", Workload::A, "A, B, C or F", |text| {
        Workload::parse(text).filter(|w| !matches!(w, Workload::D | Workload::E))
    })?;
    let mib = |n: u64| n << 20;
    let records = fields.count("records", of[3], 1_000)?;
    let record = fields.size("record", 1164, 32, 1)?.0;
    let standard = if phase == Phase::Fill { records } else { (records / 5).max(1) };
    let count = fields.count("count", standard, 1)?;
    if records.max(count) > 1_000_000_000 || record > 1 << 20 {
        let found = format!("{records}, {count} and {record}");
        let most = "at most 1G, 1G and 1 MiB";
        return Err(fields.wrong("records, count and record", &found, most));
    }
    let memtable = fields.size("memtable", mib(of[0]), 1 << 20, UNIT_BYTES)?.0;
    let file = fields.size("file", mib(of[1]), 1 << 20, UNIT_BYTES)?.0;
    let level1 = fields.size("level1", mib(of[2]), file, UNIT_BYTES)?.0;
    let growth = fields.count("growth", 10, 2)?;
    let trigger = fields.count("trigger", 4, 1)?;
    let slowdown = fields.count("slowdown", trigger.max(20), trigger)?;
    let stop = fields.count("stop", slowdown.max(36), slowdown)?;
    let io =
        |fields: &mut Fields<'_>, key, default| fields.size(key, default, UNIT_BYTES, UNIT_BYTES);
    let sizes = Sizes {
        read: io(fields, "io_read", 512 << 10)?.0,
        write: io(fields, "io_write", 1 << 20)?.0,
        ahead: io(fields, "ahead", 2 << 20)?.0,
        cut: fields.switch("cut", true)?,
    };
    let cache = fields.size("cache", 8 << 20, 0, 1)?.0;
    let filter = fields.switch("filter", false)?;
    // Half as much as the data is free for compactions, and there is room for a long level 0.
    let data = records * record;
    let standard = (data / 2 * 3 + 40 * memtable.max(file)).next_multiple_of(1 << 20) + META;
    let area = fields.size("area", standard, META + (64 << 20), UNIT_BYTES)?.0;
    let expected = "`next-fit`, `first-fit` or `random`";
    let find = |text: &str| PLACEMENTS.iter().find(|(name, _)| *name == text).map(|(_, v)| *v);
    let placement = fields.take("placement", Placement::NextFit, expected, find)?;
    let discard = fields.switch("discard", true)?;
    let threads = fields.count("threads", 2, 1)?;
    let limits = [("growth", growth, 1_000), ("stop", stop, 10_000), ("threads", threads, 64)];
    for (key, value, most) in limits.into_iter().chain([("cache", cache, 1 << 32)]) {
        if value > most {
            return Err(fields.wrong(key, &value.to_string(), &format!("at most {most}")));
        }
    }
    let rate = fields.size("rate", 190_000_000, 10_000_000, 1)?.0;
    let time = |fields: &mut Fields<'_>, key, default| {
        fields.take(key, Span::from_us(default), "a time of at most 1ms", |text| {
            parse_time(text).ok().filter(|span| *span <= Span::from_us(1_000))
        })
    };
    let insert_ps = time(fields, "insert_iat", 17)?.as_ps();
    let op_ps = time(fields, "iat", 75)?.as_ps();
    let (seed, app) = (asked.seed, asked.draws.to_string());
    Ok(Arc::new(Lsm(Arc::new(Params {
        seed,
        app,
        preset,
        phase,
        workload,
        records,
        record,
        count,
        memtable,
        file,
        level1,
        growth,
        trigger,
        slowdown,
        stop,
        sizes,
        cache,
        filter,
        area,
        placement,
        discard,
        threads,
        rate,
        insert_ps,
        op_ps,
    }))))
}

struct Lsm(Arc<Params>);

impl Generator for Lsm {
    fn open(&self) -> Box<dyn Source + Send> {
        Box::new(LsmSource { engine: Engine::new(self.0.clone()), now: 0, ended: false })
    }

    fn describe(&self) -> Vec<(String, String)> {
        let p = &*self.0;
        let size = |bytes: u64| Bytes(bytes).human();
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let time = |ps| span_text(Span::from_ps(ps));
        let out = [
            ("preset", p.preset.to_string()),
            ("phase", name_of(&Phase::NAMES, p.phase).to_string()),
            ("workload", format!("{:?}", p.workload)),
            ("records", p.records.to_string()),
            ("record", format!("{} B", p.record)),
            ("count", p.count.to_string()),
            ("memtable", format!("{}, {} entries", size(p.memtable), p.entries())),
            ("file", size(p.file)),
            ("level1", size(p.level1)),
            ("growth", p.growth.to_string()),
            ("trigger", p.trigger.to_string()),
            ("slowdown", p.slowdown.to_string()),
            ("stop", p.stop.to_string()),
            ("io_read", size(p.sizes.read)),
            ("io_write", size(p.sizes.write)),
            ("ahead", size(p.sizes.ahead)),
            ("cut", switch(p.sizes.cut)),
            ("cache", size(p.cache)),
            ("filter", switch(p.filter)),
            ("area", size(p.area)),
            ("placement", name_of(&PLACEMENTS, p.placement).to_string()),
            ("discard", switch(p.discard)),
            ("threads", p.threads.to_string()),
            ("rate", format!("{} B a second and thread", p.rate)),
            ("insert_iat", time(p.insert_ps)),
            ("iat", time(p.op_ps)),
        ];
        out.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn extent(&self) -> Bytes {
        Bytes(self.0.area)
    }
}
