//! Two applications in one buffer, against counts that two programs sharing no code with this one
//! agree on: a target beside a log-structured store, merged by their clocks, each in its own area,
//! until the shorter ends; discards honoured, flushes dropped; the table of a 300 GiB drive.

use std::path::Path;

use block::{Lpn, Op};
use ssd::{BufferShape, HitAccess, HitSim};
use workload::split::{UnitSize, unit_range};
use workload::tenant::{Merge, MergeConfig, Tenant};
use workload::{BLOCK_RECORDS, ReadOptions, Source, TraceOp};

const TARGET: usize = 0;
const STORE: usize = 1;
/// 4 KiB pages in a MiB.
const MIB: usize = 256;
const DRIVE_PAGES: u32 = 300 << 18;

/// What a policy must count.
struct Row {
    policy: &'static str,
    /// Target hits of the first pair at 8 and 32 MiB.
    first: [u64; 2],
    /// Target hits of the second pair at 8, 32 and 128 MiB.
    second: [u64; 3],
    /// Second pair at 32 MiB: the store's hits, dirty evictions, read misses.
    rest: [u64; 3],
}

const ROWS: &[Row] = &[
    Row {
        policy: "lru",
        first: [38_104, 65_433],
        second: [78_278, 466_580, 906_948],
        rest: [13_079, 1_631_726, 1_432_865],
    },
    Row {
        policy: "2-level-lru",
        first: [66_390, 113_470],
        second: [291_196, 633_594, 1_071_078],
        rest: [14_225, 1_513_171, 1_339_990],
    },
    Row {
        policy: "cflru",
        first: [38_126, 70_448],
        second: [79_466, 437_838, 872_481],
        rest: [11_888, 1_584_432, 1_458_634],
    },
    Row {
        policy: "vbbms",
        first: [68_669, 118_585],
        second: [321_548, 733_037, 1_146_148],
        rest: [15_181, 1_474_554, 1_234_798],
    },
    Row {
        policy: "aoi(cap=32, charge=bits, lat=literal)",
        first: [38_096, 65_432],
        second: [77_776, 466_386, 907_221],
        rest: [13_063, 1_631_795, 1_432_996],
    },
    Row {
        policy: "aoi(cap=32, charge=bits, lat=per-request)",
        first: [38_879, 78_371],
        second: [92_857, 546_864, 960_445],
        rest: [10_052, 1_595_633, 1_410_781],
    },
    Row {
        policy: "aoi(cap=32, charge=bits, lat=frontier)",
        first: [94_299, 121_127],
        second: [199_011, 875_382, 1_203_843],
        rest: [7_765, 1_487_644, 1_189_398],
    },
    Row {
        policy: "aoi(cap=32, charge=bits, lat=mapped)",
        first: [94_654, 121_347],
        second: [200_442, 876_877, 1_204_365],
        rest: [7_781, 1_487_217, 1_187_896],
    },
    Row {
        policy: "aoi(cap=32, charge=bits, lat=evidence)",
        first: [94_649, 121_338],
        second: [242_990, 736_992, 1_087_935],
        rest: [8_393, 1_617_016, 1_170_454],
    },
    Row {
        policy: "aoi(cap=32, charge=bits, lat=sweep)",
        first: [94_709, 121_234],
        second: [199_402, 863_880, 1_191_501],
        rest: [7_826, 1_499_346, 1_185_988],
    },
];

fn tenant(name: &str, files: &[&str]) -> Tenant {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let mut tenant = Tenant::new(name).drop_flushes();
    for file in files {
        let path = data.join(format!("{file}_ext4.csv.zst"));
        tenant = tenant.trace(path, ReadOptions::default());
    }
    tenant.scan_extent().unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Plays a pair to all buffers at once, block by block.
fn play(target: &str, store: &[&str], buffers: &mut [HitSim]) {
    let tenants = vec![tenant("target", &[target]), tenant("store", store)];
    let mut merge = Merge::new(tenants, MergeConfig::default()).unwrap();
    let (mut records, mut accesses) = (Vec::with_capacity(BLOCK_RECORDS), Vec::new());
    let mut request = 0;
    loop {
        merge.fill(&mut records).unwrap();
        if records.is_empty() {
            return;
        }
        accesses.clear();
        for record in &records {
            let op = match record.op {
                TraceOp::Read => Op::Read,
                TraceOp::Write => Op::Write,
                TraceOp::Discard => Op::Discard,
                other => panic!("{other:?} in a pair"),
            };
            request += 1;
            let pages = unit_range(record, UnitSize::PAGE).unwrap();
            accesses.extend((pages.first..pages.end).map(|page| HitAccess {
                page: Lpn(page as u32),
                op,
                app: record.app,
                request,
                len: u32::try_from(record.len.0).unwrap_or(u32::MAX),
                next_use: u64::MAX,
            }));
        }
        buffers.iter_mut().for_each(|buffer| buffer.play(&accesses));
    }
}

fn buffer(policy: &str, mib: usize) -> HitSim {
    HitSim::new(policy, BufferShape::alone(mib * MIB, DRIVE_PAGES)).unwrap()
}

fn hits(buffer: &HitSim, app: usize) -> u64 {
    buffer.apps()[app].read_hits + buffer.apps()[app].write_hits
}

/// Checks the sizes of a pair: its accesses, and what `expected` wants of each row at each size.
fn check(
    (target, store): (&str, &[&str]),
    accesses: [u64; 2],
    sizes: &[usize],
    expected: impl Fn(&Row) -> &[u64],
) -> Vec<HitSim> {
    let cases: Vec<(&Row, usize)> =
        ROWS.iter().flat_map(|row| (0..sizes.len()).map(move |size| (row, size))).collect();
    let mut buffers: Vec<HitSim> =
        cases.iter().map(|(row, size)| buffer(row.policy, sizes[*size])).collect();
    play(target, store, &mut buffers);
    let mut wrong = Vec::new();
    for ((row, size), buffer) in cases.iter().zip(&buffers) {
        buffer.check().unwrap();
        let units = [TARGET, STORE].map(|app| &buffer.apps()[app]);
        assert_eq!(units.map(|app| app.read_units + app.write_units), accesses);
        let (found, wanted) = (hits(buffer, TARGET), expected(row)[*size]);
        if found != wanted {
            wrong.push(format!("{} {} MiB: {found} hits, not {wanted}", row.policy, sizes[*size]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    buffers
}

#[test]
fn a_small_database_beside_a_load() {
    let pair = ("sqlite_wal_full", ["ycsb_load_rocksdb"].as_slice());
    check(pair, [140_986, 815_681], &[8, 32], |row| &row.first);
}

#[test]
fn a_database_beside_a_load_and_a_run() {
    let pair = ("tpcc_run_mariadb", ["ycsb_load_rocksdb", "ycsb_a_rocksdb"].as_slice());
    let buffers = check(pair, [1_265_178, 2_136_172], &[8, 32, 128], |row| &row.second);
    for (row, buffer) in ROWS.iter().zip(buffers.iter().skip(1).step_by(3)) {
        let misses = buffer.apps().iter().map(|app| app.read_units - app.read_hits).sum();
        let found = [hits(buffer, STORE), buffer.buffer().dirty_evictions, misses];
        assert_eq!(
            found, row.rest,
            "{}: the store's hits, dirty evictions, read misses",
            row.policy
        );
    }
}

/// Single counts of the first pair at 8 MiB, and of the second at 32 MiB with chunks of 4 KiB.
#[test]
fn isolation_follows_its_options() {
    let cases = [
        ("aoi(cap=32, program_unit=4)", 94_610),
        ("aoi(cap=32, program_unit=16)", 94_605),
        ("aoi(cap=8)", 94_709),
        ("aoi(cap=32, chunk=256 KiB)", 104_008),
    ];
    let mut buffers: Vec<HitSim> = cases.iter().map(|(policy, _)| buffer(policy, 8)).collect();
    play("sqlite_wal_full", &["ycsb_load_rocksdb"], &mut buffers);
    for ((policy, expected), buffer) in cases.iter().zip(&buffers) {
        assert_eq!(hits(buffer, TARGET), *expected, "{policy}");
    }
    let mut small = [buffer("aoi(cap=32, chunk=4 KiB)", 32), buffer("aoi(cap=32)", 32)];
    play("tpcc_run_mariadb", &["ycsb_load_rocksdb", "ycsb_a_rocksdb"], &mut small);
    assert_eq!(hits(&small[0], TARGET), 514_596);
    let count = |name: &str| {
        small[1].occupancy().iter().find(|(list, _)| *list == name).map(|(_, count)| *count)
    };
    assert_eq!(count("chunks written large"), Some(1_828));
    assert_eq!(count("chunks written again"), Some(315));
    assert_eq!(count("append-only chunks"), Some(1_665));
}
