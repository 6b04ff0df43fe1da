//! The captured pairs: a database's trace beside a RocksDB store's, on one drive.

use std::path::{Path, PathBuf};

use block::Bytes;
use workload::tenant::{Factor, Merge, MergeConfig, Tenant};
use workload::{ReadOptions, Source};

use lab::LabError;

/// A target and a log-structured store.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Its name in the tables.
    pub name: &'static str,
    /// What it is made of.
    pub doc: &'static str,
    target: &'static str,
    store: &'static [&'static str],
    /// The target's clock is slowed down so many times.
    stretch: u64,
    /// Rounds of the store; its whole area is discarded between them.
    rounds: u64,
}

/// The pairs of the captured traces.
pub const PAIRS: [Pair; 4] = [
    Pair {
        name: "P1",
        doc: "SQLite in WAL mode beside RocksDB under YCSB load",
        target: "sqlite_wal_full",
        store: &["ycsb_load_rocksdb"],
        stretch: 1,
        rounds: 1,
    },
    Pair {
        name: "P2",
        doc: "TPC-C on MariaDB beside RocksDB under YCSB load, then run A",
        target: "tpcc_run_mariadb",
        store: &["ycsb_load_rocksdb", "ycsb_a_rocksdb"],
        stretch: 1,
        rounds: 1,
    },
    Pair {
        name: "P3",
        doc: "P2 with the target slowed 10 times and the store looped 6 times",
        target: "tpcc_run_mariadb",
        store: &["ycsb_load_rocksdb", "ycsb_a_rocksdb"],
        stretch: 10,
        rounds: 6,
    },
    Pair {
        name: "P4",
        doc: "SQLite beside RocksDB load and run A, the target slowed 20 times, the store looped 4 times",
        target: "sqlite_wal_full",
        store: &["ycsb_load_rocksdb", "ycsb_a_rocksdb"],
        stretch: 20,
        rounds: 4,
    },
];

fn file(folder: &Path, name: &str) -> Result<PathBuf, LabError> {
    let path = folder.join(format!("{name}_ext4.csv.zst"));
    if path.is_file() {
        return Ok(path);
    }
    Err(LabError::Input(format!(
        "{}: no such file; the captured traces lie in the project's folder `data`: run from there, or give --data DIR",
        path.display()
    )))
}

impl Pair {
    /// The merged stream: own address areas, clocks from 0, flushes dropped, ended by the shorter.
    pub fn open(&self, folder: &Path) -> Result<Box<dyn Source>, LabError> {
        let options = ReadOptions::default;
        let slow = Factor::new(self.stretch, 1).expect("a factor of at least 1");
        let target = Tenant::new("target")
            .trace(file(folder, self.target)?, options())
            .stretch(slow)
            .drop_flushes();
        let mut store = Tenant::new("store");
        for name in self.store {
            store = store.trace(file(folder, name)?, options());
        }
        let store = store.rounds(self.rounds, true).drop_flushes();
        let tenants = vec![target.scan_extent()?, store.scan_extent()?];
        Ok(Box::new(Merge::new(tenants, MergeConfig::default())?))
    }
}

/// The drive of the paper.
pub const CAPACITY: Bytes = Bytes(300 << 30);
