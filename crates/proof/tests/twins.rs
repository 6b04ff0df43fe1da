//! Every policy of the registry agrees with its naive twin on every access.

use block::{AppId, Lpn, Op, Rng};
use ssd::{BufferShape, HitAccess};
use varve_proof::twin::{first_difference, shrunk};

/// Requests of all sizes over a small space: hot pages, runs, discards and flushes.
fn accesses(rng: &mut Rng, pages: u32, count: usize) -> Vec<HitAccess> {
    let mut out = Vec::with_capacity(count);
    let mut request = 0;
    let hot = rng.between(1, u64::from(pages) / 2);
    while out.len() < count {
        request += 1;
        let op = match rng.below(100) {
            0 => Op::Flush,
            1..4 => Op::Discard,
            4..44 => Op::Read,
            _ => Op::Write,
        };
        let long = rng.ratio(1, 3);
        let len = if long { rng.between(2, 24) } else { 1 };
        let space = if rng.ratio(2, 3) { hot } else { u64::from(pages) };
        let first = rng.below(space);
        let len = len.min(u64::from(pages) - first);
        for page in first..first + len {
            out.push(HitAccess {
                page: Lpn(page as u32),
                op,
                app: AppId(0),
                request,
                len: (len * 4096) as u32,
                next_use: u64::MAX,
            });
            if op == Op::Flush {
                break;
            }
        }
    }
    next_uses(&mut out);
    out
}

/// Tells every access when its page is used next.
fn next_uses(out: &mut [HitAccess]) {
    let pages = out.iter().map(|a| a.page.0 + 1).max().unwrap_or(0);
    let mut next = vec![u64::MAX; pages as usize];
    for (at, access) in out.iter_mut().enumerate().rev() {
        access.next_use = next[access.page.0 as usize];
        match access.op {
            Op::Read | Op::Write => next[access.page.0 as usize] = at as u64,
            Op::Discard => next[access.page.0 as usize] = u64::MAX,
            Op::Flush => {}
        }
    }
}

/// Policies with the options worth trying beside the defaults.
const POLICIES: &[&str] = &[
    "aoi(cap=3, chunk=16 KiB)",
    "aoi(cap=3, chunk=32 KiB, lat=literal, program_unit=3)",
    "aoi(cap=2, chunk=64 KiB, lat=per-request, threshold=8 KiB)",
    "aoi(cap=3, chunk=32 KiB, lat=frontier)",
    "aoi(cap=3, chunk=32 KiB, lat=mapped-any, program_unit=1)",
    "aoi(cap=3, chunk=128 KiB, lat=evidence, program_unit=4)",
    "aoi(cap=3, chunk=32 KiB, lat=sweep, charge=bits)",
    "aoi(cap=3, chunk=16 KiB, read_hit_to_bar=on)",
    "aoi(inner=s3-fifo, chunk=16 KiB)",
    "aoi(inner=s3-fifo(small=30 %), chunk=16 KiB, cap=3, program_unit=2)",
    "none",
    "fifo",
    "lru",
    "clock",
    "sieve",
    "2q",
    "2q(in=50 %, out=10 %)",
    "2q(in=0 %, out=200 %)",
    "arc",
    "lirs",
    "lirs(hir=30 %)",
    "lirs(hir=100 %)",
    "s3-fifo",
    "s3-fifo(small=40 %, ghost=20 %, hits=1)",
    "s3-fifo(small=100 %, ghost=0 %)",
    "w-tinylfu",
    "w-tinylfu(window=30 %)",
    "w-tinylfu(window=100 %)",
    "belady",
    "belady(clean=on)",
    "2-level-lru",
    "2-level-lru(borrow=on)",
    "2-level-lru(hot=80 %)",
    "cflru",
    "cflru(window=75 %)",
    "cflru(window=100 %)",
    "lru-wsr",
    "ccf-lru",
    "ad-lru",
    "ad-lru(min_lc=10 %)",
    "ad-lru(min_lc=100 %)",
    "pt-lru",
    "pt-lru(p=50 %)",
    "vbbms",
    "vbbms(random=30 %, random_block=5, sequential_block=9)",
    "bplru",
    "fab",
];

#[test]
fn policies_agree_with_their_twins() {
    for policy in POLICIES {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let shape = BufferShape {
                planes: rng.between(1, 4) as u32,
                page_entries: 1 << rng.below(3),
                block_pages: 8 << rng.below(2),
                seed,
                ..BufferShape::alone(rng.between(9, 64) as usize, rng.between(64, 400) as u32)
            };
            let list = accesses(&mut rng, shape.pages, 2500);
            if let Some((at, how)) = first_difference(policy, shape, &list) {
                let few = shrunk(policy, shape, &list);
                let few: Vec<String> =
                    few.iter().map(|a| format!("{:?} {} #{}", a.op, a.page.0, a.request)).collect();
                panic!("{policy}, seed {seed}, {shape:?}: access {at}: {how}\n{}", few.join("\n"));
            }
        }
    }
}

/// Isolation behind its gate, whose shadows need larger buffers, and longer lists to change its mind.
#[test]
fn a_gated_policy_agrees_with_its_twin() {
    let mut switched = 0;
    for policy in [
        "aoi(inner=s3-fifo, gate=shadow, period=20, chunk=16 KiB)",
        "aoi(inner=s3-fifo, gate=shadow, period=50, chunk=16 KiB, weight=page, cap=9, program_unit=4)",
        "aoi(inner=s3-fifo(small=30 %, ghost=50 %, hits=1), gate=shadow, period=30, chunk=64 KiB)",
    ] {
        for seed in 0..16 {
            let mut rng = Rng::new(seed);
            let (entries, pages) = (rng.between(64, 200) as usize, rng.between(512, 2000) as u32);
            let shape = BufferShape { seed, ..BufferShape::alone(entries, pages) };
            let list = accesses(&mut rng, shape.pages, 12_000);
            if let Some((at, how)) = first_difference(policy, shape, &list) {
                panic!("{policy}, seed {seed}, {shape:?}: access {at}: {how}");
            }
            let mut sim = ssd::HitSim::new(policy, shape).unwrap();
            sim.play(&list);
            let of = sim.occupancy();
            switched += of.iter().find(|(name, _)| *name == "gate switches").unwrap().1;
        }
    }
    assert!(switched > 20, "the gate moved {switched} times: nothing was compared");
}

/// Every policy takes a queue beside it: none is left without room, and where no page is append-only
/// it does as it does alone.
#[test]
fn every_policy_can_be_the_inner_one() {
    let alone: Vec<&&str> = POLICIES
        .iter()
        .filter(|policy| !["none", "belady", "aoi"].iter().any(|name| policy.starts_with(name)))
        .collect();
    for (inner, seed) in alone.iter().flat_map(|inner| (0..6).map(move |seed| (inner, seed))) {
        let mut rng = Rng::new(seed);
        let (entries, pages) = (rng.between(64, 160) as usize, rng.between(200, 900) as u32);
        let shape = BufferShape { seed, ..BufferShape::alone(entries, pages) };
        let list = accesses(&mut rng, pages, 4000);
        for options in ["cap=1", "cap=20, program_unit=5", "cap=9, gate=shadow, period=7"] {
            let policy = format!("aoi(inner={inner}, chunk=16 KiB, threshold=4 KiB, {options})");
            let mut sim = ssd::HitSim::new(&policy, shape).unwrap();
            for (at, access) in list.iter().enumerate() {
                sim.play(std::slice::from_ref(access));
                sim.check().unwrap_or_else(|what| panic!("{policy}, seed {seed}: {at}: {what}"));
            }
        }
        let ordinary = format!("aoi(inner={inner}, chunk=16 KiB, threshold=1 MiB, cap=3)");
        let mut gated = ssd::HitSim::new(&ordinary, shape).unwrap();
        // The table of chunks takes one entry.
        let left = BufferShape { entries: entries - 1, ..shape };
        let mut plain = ssd::HitSim::new(inner, left).unwrap();
        for sim in [&mut gated, &mut plain] {
            sim.play(&list);
        }
        let hits = [&gated, &plain]
            .map(|sim| sim.apps().iter().map(|a| a.read_hits + a.write_hits).sum::<u64>());
        assert_eq!(hits[0], hits[1], "{ordinary}, seed {seed}");
    }
}

/// The first accesses of a captured trace, its pages numbered from 0 in order of appearance so that
/// they fill a small space; neighbours stay neighbours within 64 pages.
fn captured(name: &str, count: usize) -> Vec<HitAccess> {
    use workload::{Source, TraceOp};
    let path = format!("{}/../../data/{name}_ext4.csv.zst", env!("CARGO_MANIFEST_DIR"));
    let options = workload::ReadOptions::default();
    let mut source = workload::open(std::path::Path::new(&path), &options).unwrap();
    let (mut out, mut block, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut request = 0;
    while out.len() < count {
        source.fill(&mut block).unwrap();
        assert!(!block.is_empty(), "{name} is long enough");
        for record in &block {
            request += 1;
            let op = match record.op {
                TraceOp::Read => Op::Read,
                TraceOp::Write | TraceOp::Zero => Op::Write,
                TraceOp::Flush => Op::Flush,
                TraceOp::Discard => Op::Discard,
            };
            let first = record.offset.0 / 4096;
            let pages = if op == Op::Flush { 1 } else { record.len.0.div_ceil(4096).min(512) };
            for page in first..first + pages {
                let place = places.iter().position(|p| *p == page / 64).unwrap_or_else(|| {
                    places.push(page / 64);
                    places.len() - 1
                });
                out.push(HitAccess {
                    page: Lpn(place as u32 * 64 + (page % 64) as u32),
                    op,
                    app: AppId(0),
                    request,
                    len: record.len.0 as u32,
                    next_use: u64::MAX,
                });
            }
        }
    }
    out.truncate(count);
    next_uses(&mut out);
    out
}

#[test]
fn policies_agree_with_their_twins_on_captured_traces() {
    for name in ["sqlite_wal_full", "tpcc_run_mariadb", "ycsb_load_rocksdb"] {
        let list = captured(name, 12_000);
        let pages = list.iter().map(|a| a.page.0).max().unwrap() + 1;
        for policy in POLICIES {
            let shape = BufferShape { block_pages: 16, ..BufferShape::alone(128, pages) };
            if let Some((at, how)) = first_difference(policy, shape, &list) {
                panic!("{policy} on {name}: access {at}: {how}");
            }
        }
    }
}

#[test]
fn every_policy_has_a_twin() {
    let shape = BufferShape::alone(512, 4096);
    for info in ssd::policies() {
        assert!(varve_proof::twin::twin(info.name, shape).is_some(), "{} has no twin", info.name);
        let tried = POLICIES.iter().any(|p| p.split('(').next() == Some(info.name));
        assert!(tried, "{} is not tried", info.name);
    }
}
