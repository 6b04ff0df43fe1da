//! Hit ratios against published counts: two programs that share no code with this one agree on
//! them (reads and writes of a trace, 4 KiB pages, every touched page counts whole).

use std::path::{Path, PathBuf};

use block::{AppId, Lpn, Op};
use ssd::{BufferShape, HitAccess, HitSim};
use workload::read::{self, ReadOptions};
use workload::{BLOCK_RECORDS, Source, TraceOp};

/// Accesses and misses of a policy with `entries` entries; ids instead of addresses where
/// `id_bytes` says how many bytes of offset one id takes.
fn misses(
    path: &Path,
    options: &ReadOptions,
    policy: &str,
    entries: usize,
    id_bytes: u64,
) -> (u64, u64) {
    let mut source = read::open(path, options).unwrap_or_else(|e| panic!("{e}"));
    // Sparse addresses become dense numbers in order of first use: a policy sees only identity.
    let mut dense = std::collections::BTreeMap::new();
    let mut sim = HitSim::new(policy, BufferShape::alone(entries, 1 << 21))
        .expect("a policy of the registry");
    let (mut records, mut accesses) = (Vec::with_capacity(BLOCK_RECORDS), Vec::new());
    loop {
        source.fill(&mut records).unwrap_or_else(|e| panic!("{e}"));
        if records.is_empty() {
            break;
        }
        accesses.clear();
        for record in &records {
            let op = match record.op {
                TraceOp::Read => Op::Read,
                TraceOp::Write => Op::Write,
                TraceOp::Flush | TraceOp::Discard | TraceOp::Zero => continue,
            };
            let first = record.offset.0 / id_bytes;
            let last =
                if id_bytes == 4096 { (record.offset.0 + record.len.0 - 1) / 4096 } else { first };
            for page in first..=last {
                let next = dense.len() as u32;
                let page = Lpn(*dense.entry(page).or_insert(next));
                accesses.push(HitAccess {
                    page,
                    op,
                    app: AppId(0),
                    request: 1,
                    len: 4096,
                    next_use: u64::MAX,
                });
            }
        }
        sim.play(&accesses);
    }
    sim.check().unwrap();
    let app = sim.apps()[0];
    let total = app.read_units + app.write_units;
    (total, total - app.read_hits - app.write_hits)
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

#[test]
fn own_traces_to_the_last_miss() {
    let rows: [(&str, u64, usize, u64, u64); 4] = [
        ("sqlite_wal_full_ext4.csv.zst", 140_986, 1024, 120_568, 120_568),
        ("tpcc_run_mariadb_ext4.csv.zst", 1_265_178, 8192, 360_933, 444_902),
        ("filebench_varmail_ext4.csv.zst", 510_276, 32_768, 240_179, 352_174),
        ("ycsb_a_rocksdb_ext4.csv.zst", 2_327_734, 8192, 2_043_340, 2_068_189),
    ];
    for (name, accesses, entries, lru, fifo) in rows {
        let options = ReadOptions::default();
        assert_eq!(
            misses(&data(name), &options, "lru", entries, 4096),
            (accesses, lru),
            "{name} lru"
        );
        assert_eq!(
            misses(&data(name), &options, "fifo", entries, 4096),
            (accesses, fifo),
            "{name} fifo"
        );
    }
}

/// Miss ratios to four digits.
fn assert_ratio(found: (u64, u64), expected: f64, what: &str) {
    let ratio = found.1 as f64 / found.0 as f64;
    assert!((ratio - expected).abs() < 0.000_05, "{what}: {ratio:.5}, expected {expected}");
}

#[test]
fn own_traces_at_other_sizes() {
    let rows = [
        ("sqlite_wal_full_ext4.csv.zst", 2048, 0.2181, 0.4395),
        ("sqlite_wal_full_ext4.csv.zst", 8192, 0.0853, 0.0940),
        ("tpcc_run_mariadb_ext4.csv.zst", 1024, 0.9861, 0.9850),
        ("filebench_varmail_ext4.csv.zst", 8192, 0.9965, 0.9966),
        ("ycsb_a_rocksdb_ext4.csv.zst", 1024, 0.9800, 0.9798),
        ("ycsb_a_rocksdb_ext4.csv.zst", 32_768, 0.7263, 0.7525),
    ];
    for (name, entries, lru, fifo) in rows {
        let options = ReadOptions::default();
        assert_ratio(misses(&data(name), &options, "lru", entries, 4096), lru, name);
        assert_ratio(misses(&data(name), &options, "fifo", entries, 4096), fifo, name);
    }
}

/// Public samples may not be committed: the test reads the folder that `VARVE_PUBLIC_TRACES`
/// names, and says loudly that it checked nothing where that is not set.
#[test]
fn public_samples() {
    let Some(folder) = std::env::var_os("VARVE_PUBLIC_TRACES") else {
        eprintln!(
            "SKIPPED: VARVE_PUBLIC_TRACES is not set; the golden ratios of public samples were not checked"
        );
        return;
    };
    let folder = PathBuf::from(folder);
    let oltp = [
        (1000, 0.6717, 0.7147),
        (2000, 0.5753, 0.6256),
        (5000, 0.4635, 0.5032),
        (10_000, 0.3930, 0.4271),
        (15_000, 0.3537, 0.3858),
    ];
    for (entries, lru, fifo) in oltp {
        let path = folder.join("arc_OLTP.lis.zst");
        let options = ReadOptions { format: Some("arc".to_string()), ..ReadOptions::default() };
        assert_ratio(misses(&path, &options, "lru", entries, 4096), lru, "OLTP lru");
        assert_ratio(misses(&path, &options, "fifo", entries, 4096), fifo, "OLTP fifo");
    }
    let cloud = [
        (48, 0.9030),
        (146, 0.8675),
        (489, 0.8380),
        (1469, 0.8303),
        (4897, 0.8049),
        (9794, 0.7249),
        (19_589, 0.6328),
        (39_179, 0.4303),
    ];
    for (entries, lru) in cloud {
        // The lbn column is the id: a 512-byte sector of offset each.
        let path = folder.join("cloudphysics_114k.csv.zst");
        assert_ratio(
            misses(&path, &ReadOptions::default(), "lru", entries, 512),
            lru,
            "cloudphysics lru",
        );
    }
}
