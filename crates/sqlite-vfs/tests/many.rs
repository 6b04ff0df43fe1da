//! Several connections of one process, groups, and limits, as applications meet them.

mod common;

use std::thread;

use block::{RamDevice, Sectors, TxId, TxLimits};
use common::{api, ask, open, unique};
use rusqlite::Connection;
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores, Virtual, Way};

struct Rig {
    vfs: String,
    name: String,
    store: Store,
}

impl Rig {
    fn on(device: RamDevice, options: StoreOptions) -> Rig {
        let store = Store::format(Box::new(device), options).unwrap();
        let (stores, vfs, name) = (Stores::new(), unique("vfs"), unique("store"));
        stores.register(&api(), &vfs, false, None).unwrap();
        stores.add(&name, &store);
        Rig { vfs, name, store }
    }

    fn new(options: StoreOptions) -> Rig {
        Rig::on(RamDevice::new(Sectors(32 * 2_048)), options)
    }

    fn open(&self, settings: &str) -> Connection {
        let db = open(&self.name, &self.vfs).unwrap();
        db.execute_batch(settings).unwrap();
        db
    }
}

/// Threads add to accounts of their own and to a common sum; the ledger has what COMMIT has
/// acknowledged.
fn ledger(settings: &'static str, options: StoreOptions) {
    let rig = Rig::new(options);
    let db = rig.open(settings);
    db.execute_batch(
        "CREATE TABLE t(who INT PRIMARY KEY, n INT); CREATE TABLE s(n INT);
        INSERT INTO s VALUES(0); INSERT INTO t VALUES(0, 0), (1, 0), (2, 0)",
    )
    .unwrap();
    let (name, vfs) = (&rig.name, &rig.vfs);
    let acknowledged: Vec<u32> = thread::scope(|scope| {
        let work = |who: u32| {
            let db = open(name, vfs).unwrap();
            db.execute_batch(settings).unwrap();
            db.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
            let mut done = 0;
            for round in 0..60 {
                let sql = format!(
                    "BEGIN IMMEDIATE; UPDATE t SET n = n + 1 WHERE who = {who}; \
                     UPDATE s SET n = n + 1; {}",
                    if round % 5 == 4 { "ROLLBACK" } else { "COMMIT" }
                );
                match db.execute_batch(&sql) {
                    Ok(()) => done += u32::from(round % 5 != 4),
                    Err(_) => {
                        let _ = db.execute_batch("ROLLBACK");
                    }
                }
            }
            done
        };
        let threads: Vec<_> = (0..3).map(|who| scope.spawn(move || work(who))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all: u32 = acknowledged.iter().sum();
    assert!(all > 100, "{settings}: {acknowledged:?}");
    for (who, count) in acknowledged.iter().enumerate() {
        assert_eq!(ask(&db, &format!("SELECT n FROM t WHERE who = {who}")), count.to_string());
    }
    assert_eq!(ask(&db, "SELECT n FROM s"), all.to_string(), "{settings}");
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
}

#[test]
fn threads_lose_nothing_and_see_nothing_half_done() {
    let options = StoreOptions::default();
    ledger("PRAGMA journal_mode=DELETE", options);
    ledger("PRAGMA journal_mode=MEMORY", options);
    ledger("PRAGMA journal_mode=PERSIST", StoreOptions { way: Way::JournalLife, ..options });
    ledger("PRAGMA journal_mode=TRUNCATE", StoreOptions { group: 40, ..options });
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
        let options = StoreOptions { checkpoint, ..options };
        ledger("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=5", options);
    }
}

#[test]
fn a_reader_keeps_its_snapshot_while_the_log_is_moved() {
    let rig = Rig::new(StoreOptions { checkpoint: Checkpoint::Remap, ..StoreOptions::default() });
    let writer = rig.open("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
    writer
        .execute_batch(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
             INSERT INTO t SELECT i, zeroblob(1000) FROM n; UPDATE t SET b = zeroblob(500)",
        )
        .unwrap();
    let reader = rig.open("PRAGMA cache_size=1");
    let question = "SELECT count(*) || ':' || sum(length(b)) FROM t";
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(ask(&reader, question), "50:25000");
    // The whole log goes into the database; the reader still reads it as a log.
    ask(&writer, "PRAGMA wal_checkpoint(PASSIVE)");
    let moved = rig.store.stats().remapped;
    assert!(moved > 0);
    assert_eq!(ask(&reader, question), "50:25000");
    // The log cannot begin anew, so it grows, and what was moved has to come back first.
    writer.execute_batch("UPDATE t SET b = zeroblob(100)").unwrap();
    assert_eq!(ask(&reader, question), "50:25000");
    ask(&writer, "PRAGMA wal_checkpoint(PASSIVE)");
    assert_eq!(ask(&reader, question), "50:25000");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(ask(&reader, question), "50:5000");
    ask(&writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_eq!(ask(&reader, question), "50:5000");
    assert_eq!(ask(&writer, "PRAGMA integrity_check"), "ok");
}

#[test]
fn groups_are_asked_for_and_can_be_flushed() {
    let rig = Rig::new(StoreOptions::default());
    let db = rig.open("CREATE TABLE t(a); INSERT INTO t VALUES(0)");
    let step = "UPDATE t SET a = a + 1";
    let groups = || rig.store.stats().groups;
    db.execute_batch(step).unwrap();
    assert_eq!(groups(), 0);
    assert_eq!(ask(&db, "PRAGMA varve_group=10"), "10");
    for _ in 0..3 {
        db.execute_batch(step).unwrap();
    }
    assert_eq!(groups(), 0, "six page writes wait");
    assert_eq!(ask(&db, "SELECT a FROM t"), "4");
    let other = rig.open("");
    assert_eq!(ask(&other, "SELECT a FROM t"), "4", "what waits is seen by everybody");
    for _ in 0..2 {
        db.execute_batch(step).unwrap();
    }
    assert_eq!(groups(), 1);
    db.execute_batch(step).unwrap();
    assert_eq!(ask(&db, "PRAGMA varve_flush"), "ok");
    assert_eq!(groups(), 2);
    assert!(ask(&db, "PRAGMA varve_stats").contains("groups: 2"));
    db.execute_batch(step).unwrap();
    drop((db, other));
    assert_eq!(groups(), 3, "the last one to close takes the rest along");
    let named = open(&format!("file:{}?group=7", rig.name), &rig.vfs).unwrap();
    assert_eq!(ask(&named, "PRAGMA varve_group"), "7");
    assert!(ask(&named, "PRAGMA varve_group=many").contains("no number"));
}

#[test]
fn limits_are_told_as_what_they_are() {
    let limits = TxLimits { max_open: 64, pages: 20, span: 16_384, next: TxId(1) };
    let device = RamDevice::new(Sectors(8 * 2_048)).with_limits(limits);
    let rig = Rig::on(device, StoreOptions::default());
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO t SELECT zeroblob(1000) FROM n";
    let db = rig.open("PRAGMA journal_mode=MEMORY; PRAGMA cache_size=5; CREATE TABLE t(a)");
    assert_eq!(
        db.execute_batch(fill).unwrap_err().sqlite_error_code(),
        Some(rusqlite::ErrorCode::DiskFull)
    );
    assert!(ask(&db, "PRAGMA varve_error").contains("journal_mode=DELETE"));
    assert_eq!(ask(&db, "SELECT count(*) FROM t"), "0");
    drop(db);
    let db = rig.open("PRAGMA cache_size=5");
    db.execute_batch(fill).unwrap();
    assert!(rig.store.stats().fallbacks > 0);
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    assert_eq!(
        rig.store.objects().len(),
        1,
        "the durable journal is gone: {:?}",
        rig.store.objects()
    );
    // Seven megabytes of extents: an eighth is too much, and then everything is as before.
    let much = fill.replace("200", "9000");
    assert_eq!(
        db.execute_batch(&much).unwrap_err().sqlite_error_code(),
        Some(rusqlite::ErrorCode::DiskFull)
    );
    assert_eq!(ask(&db, "SELECT count(*) FROM t"), "200");
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    db.execute_batch("DELETE FROM t; VACUUM").unwrap();
}

#[test]
fn a_modelled_run_draws_and_tells_time_from_its_own_sources() {
    let run = || {
        let store =
            Store::format(Box::new(RamDevice::new(Sectors(8 * 2_048))), StoreOptions::default())
                .unwrap();
        let (stores, vfs) = (Stores::new(), unique("model"));
        let start = 212_000_000_000_000;
        stores.register(&api(), &vfs, false, Some(Virtual { seed: 7, start })).unwrap();
        stores.add("model-store", &store);
        let db = open("model-store", &vfs).unwrap();
        let first = ask(&db, "SELECT julianday('now')");
        store.advance(block::Time::from_us(86_400_000_000));
        (first, ask(&db, "SELECT julianday('now')"))
    };
    let (first, second) = run();
    assert_eq!(run(), (first.clone(), second.clone()));
    let days: f64 = second.parse::<f64>().unwrap() - first.parse::<f64>().unwrap();
    assert!((days - 1.0).abs() < 1e-6, "{first} {second}");
}
