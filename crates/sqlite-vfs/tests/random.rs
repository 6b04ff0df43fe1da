//! The same random SQL on stock SQLite and on a store: equal results and equal contents after every
//! transaction, by every way and mode.

mod common;

use block::{RamDevice, Rng, Sectors};
use common::{api, ask, open, unique};
use rusqlite::Connection;
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores, Way};

const DUMP: &str = "SELECT group_concat(a || ':' || b || ':' || hex(c), '|') FROM \
    (SELECT * FROM t ORDER BY a)";

fn statement(rng: &mut Rng) -> String {
    let (key, other) = (rng.below(300), rng.below(300));
    let length = rng.between(1, 3_000);
    match rng.below(12) {
        0..=4 => format!("REPLACE INTO t VALUES({key}, {other}, zeroblob({length}))"),
        5 | 6 => format!("UPDATE t SET b = b + 1 WHERE a BETWEEN {key} AND {key} + 20"),
        7 => format!("DELETE FROM t WHERE a BETWEEN {key} AND {key} + 10"),
        8 => format!("UPDATE t SET c = zeroblob({length}) WHERE a % 7 = {}", key % 7),
        9 => "SAVEPOINT s; DELETE FROM t WHERE a % 3 = 0; ROLLBACK TO s; RELEASE s".to_string(),
        10 => format!("INSERT OR IGNORE INTO t VALUES({key}, -1, x'0102')"),
        _ => format!(
            "CREATE TABLE IF NOT EXISTS u{}(x); DROP TABLE IF EXISTS u{}",
            key % 5,
            other % 5
        ),
    }
}

fn same(ours: &Connection, stock: &Connection, what: &str) {
    assert_eq!(ask(ours, DUMP), ask(stock, DUMP), "{what}");
}

fn run(settings: &str, options: StoreOptions, seed: u64, reopen: bool) {
    let store = Store::format(Box::new(RamDevice::new(Sectors(32 * 2_048))), options).unwrap();
    let (stores, vfs, name) = (Stores::new(), unique("random"), unique("store"));
    stores.register(&api(), &vfs, false, None).unwrap();
    stores.add(&name, &store);
    let what = format!("{settings} {options:?} seed {seed}");
    let connect = || {
        let db = open(&name, &vfs).unwrap();
        db.execute_batch(settings).unwrap();
        db
    };
    let (mut ours, stock) = (connect(), Connection::open_in_memory().unwrap());
    let create = "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b INT, c BLOB); \
                  CREATE INDEX IF NOT EXISTS i ON t(b)";
    for db in [&ours, &stock] {
        db.execute_batch(create).unwrap();
    }
    let mut rng = Rng::new(seed);
    for round in 0..60 {
        let mut sql = String::from("BEGIN;");
        for _ in 0..rng.between(1, 12) {
            sql += &statement(&mut rng);
            sql += ";";
        }
        sql += if rng.ratio(1, 4) { "ROLLBACK" } else { "COMMIT" };
        let results = [&ours, &stock].map(|db| db.execute_batch(&sql).map_err(|e| e.to_string()));
        assert_eq!(results[0], results[1], "{what}: {sql}");
        same(&ours, &stock, &what);
        if reopen && round % 10 == 9 {
            drop(ours);
            ours = connect();
            same(&ours, &stock, &what);
        }
    }
    assert_eq!(ask(&ours, "PRAGMA integrity_check"), "ok", "{what}");
    let pages = ask(&ours, "PRAGMA page_count");
    drop(ours);
    // The same bytes through a fresh mount.
    let main = store.objects().into_iter().find(|(name, _)| name == "main").unwrap();
    let size: u64 = pages.parse().unwrap();
    assert!(main.1.is_multiple_of(size), "{main:?} {pages}");
}

#[test]
fn rollback_modes() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"] {
        for (extra, seed) in [
            ("PRAGMA cache_size=10;", 1),
            ("PRAGMA locking_mode=EXCLUSIVE;", 2),
            ("PRAGMA page_size=1024; PRAGMA cache_size=20;", 3),
            ("PRAGMA page_size=512; PRAGMA auto_vacuum=FULL;", 4),
            ("PRAGMA page_size=8192; PRAGMA auto_vacuum=FULL; PRAGMA synchronous=OFF;", 5),
        ] {
            let settings = format!("{extra} PRAGMA journal_mode={journal};");
            run(&settings, StoreOptions::default(), seed, true);
            run(&settings, StoreOptions { group: 30, ..StoreOptions::default() }, seed, true);
            if journal != "MEMORY" {
                let way = Way::JournalLife;
                run(&settings, StoreOptions { way, ..StoreOptions::default() }, seed, false);
            }
        }
    }
}

#[test]
fn logs() {
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
        for (extra, seed) in [
            ("PRAGMA wal_autocheckpoint=30;", 11),
            ("PRAGMA wal_autocheckpoint=10; PRAGMA locking_mode=EXCLUSIVE;", 12),
            ("PRAGMA page_size=1024; PRAGMA wal_autocheckpoint=50;", 13),
            ("PRAGMA page_size=16384; PRAGMA wal_autocheckpoint=50; PRAGMA cache_size=5", 14),
        ] {
            let settings = format!("{extra}; PRAGMA journal_mode=WAL;");
            run(&settings, StoreOptions { checkpoint, ..StoreOptions::default() }, seed, true);
        }
    }
}
