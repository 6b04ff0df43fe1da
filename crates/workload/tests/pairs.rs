//! The published pairs of captured traces, merged: their unit counts are known from an independent
//! model (specs/isolation.md, 7.3). The parser is this test's own, so that it does not depend on
//! the readers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use block::{AppId, Bytes, Span, Time};
use workload::split::{Splitter, UnitSize};
use workload::tenant::{Factor, Merge, MergeConfig, Tenant};
use workload::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

/// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime,Flags,Comm` in ticks of 100 ns.
struct Captured {
    path: PathBuf,
    lines: std::io::Lines<BufReader<zstd::Decoder<'static, BufReader<std::fs::File>>>>,
}

fn open(name: &str) -> Result<Box<dyn Source>, SourceError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name);
    let io = |source| SourceError::Io { path: path.clone(), source };
    let file = std::fs::File::open(&path).map_err(io)?;
    let decoder = zstd::Decoder::new(file).map_err(io)?;
    let lines = BufReader::new(decoder).lines();
    Ok(Box::new(Captured { path, lines }))
}

impl Source for Captured {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        for line in self.lines.by_ref().take(BLOCK_RECORDS) {
            let line =
                line.map_err(|source| SourceError::Io { path: self.path.clone(), source })?;
            let fields: Vec<&str> = line.split(',').collect();
            let number = |i: usize| fields[i].parse::<u64>().unwrap();
            let op = match fields[3] {
                "Read" => TraceOp::Read,
                "Write" => TraceOp::Write,
                "Flush" => TraceOp::Flush,
                "Discard" => TraceOp::Discard,
                other => panic!("type {other}"),
            };
            block.push(Record {
                at: Time::from_ns(number(0) * 100),
                offset: Bytes(number(4)),
                len: Bytes(number(5)),
                response: Some(Span::from_ns(number(6) * 100)),
                app: AppId(0),
                op,
                flags: Flags::default(),
                hint: 0,
            });
        }
        Ok(())
    }
}

fn tenant(name: &str, files: &[&'static str]) -> Tenant {
    let add = |tenant: Tenant, file: &&'static str| {
        let file = *file;
        tenant.file(move || open(file))
    };
    files.iter().fold(Tenant::new(name), add).drop_flushes()
}

/// Unit accesses (reads and writes), discarded units, and requests of the target and the LSM.
fn merge(target: Tenant, lsm: Tenant) -> [[u64; 3]; 2] {
    let tenants = vec![target.scan_extent().unwrap(), lsm.scan_extent().unwrap()];
    let mut merge = Merge::new(tenants, MergeConfig::default()).unwrap();
    let base = merge.areas()[1].base.0;
    assert_eq!(base % (1 << 20), 0);
    let mut splitter = Splitter::new(UnitSize::PAGE);
    let (mut counts, mut block) = ([[0; 3]; 2], Vec::new());
    loop {
        merge.fill(&mut block).unwrap();
        if block.is_empty() {
            break;
        }
        for record in &block {
            let app = usize::from(record.app.0);
            let units = splitter.split(record).unwrap().len() as u64;
            assert_eq!(app == 1, record.offset.0 >= base);
            counts[app][usize::from(record.op == TraceOp::Discard)] += units;
            counts[app][2] += u64::from(units > 0);
        }
    }
    let stats = merge.stats();
    assert_eq!([stats[0].units, stats[1].units], [counts[0][0], counts[1][0]]);
    counts
}

const LOAD: &str = "ycsb_load_rocksdb_ext4.csv.zst";
const RUN: &str = "ycsb_a_rocksdb_ext4.csv.zst";
const SQLITE: &str = "sqlite_wal_full_ext4.csv.zst";
const TPCC: &str = "tpcc_run_mariadb_ext4.csv.zst";

#[test]
fn p1_has_its_published_units() {
    let counts = merge(tenant("sqlite", &[SQLITE]), tenant("load", &[LOAD]));
    assert_eq!(counts, [[140_986, 1_176, 51_220], [815_681, 1_541_368, 6_916]]);
}

#[test]
fn p2_has_its_published_units() {
    let counts = merge(tenant("tpcc", &[TPCC]), tenant("lsm", &[LOAD, RUN]));
    assert_eq!(counts, [[1_265_178, 0, 253_760], [2_136_172, 3_205_006, 52_694]]);
}

#[test]
fn stretched_and_looped_pairs_equal_the_model() {
    let k = |k| Factor::new(k, 1).unwrap();
    let lsm = || tenant("lsm", &[LOAD, RUN]).scan_extent().unwrap();
    let p3 = merge(tenant("tpcc", &[TPCC]).stretch(k(10)), lsm().rounds(6, true));
    let p4 = merge(tenant("sqlite", &[SQLITE]).stretch(k(20)), lsm().rounds(4, true));
    assert_eq!(p3, [[1_265_178, 0, 253_760], [20_348_548, 33_379_100, 2_461_380]]);
    assert_eq!(p4, [[140_986, 1_176, 51_220], [15_349_506, 25_881_633, 1_653_458]]);
}
