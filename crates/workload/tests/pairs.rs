//! The published pairs of captured traces, merged: their unit counts are known from an independent
//! model, which shares no code with this crate.

use std::path::Path;

use varve_workload::split::{Splitter, UnitSize};
use varve_workload::tenant::{Factor, Merge, MergeConfig, Tenant};
use varve_workload::{ReadOptions, Source, TraceOp};

fn tenant(name: &str, files: &[&str]) -> Tenant {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let add = |tenant: Tenant, file: &&str| tenant.trace(data.join(file), ReadOptions::default());
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
