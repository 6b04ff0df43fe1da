//! BATCH_ATOMIC, where SQLite gives up a batch and goes on without it: a COMMIT that is told done has made all of its transaction,
//! also what was written before the batch, and one that fails has made nothing.

mod common;

use common::cut::{Medium, Ram};
use common::{api, ask, batches, open, unique};
use rusqlite::Connection;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

/// A transaction over one database or two of an image.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Rows of about a page in each database.
    rows: [u32; 2],
    /// Pages that SQLite keeps before it spills.
    cache: u32,
    /// Pages that the device keeps for open transactions.
    hold: u32,
    locking: &'static str,
}

/// Two databases with rows of version 0.
fn connect(name: &str, vfs: &str, case: Case) -> Connection {
    let db = open(&format!("file:{name}?batch=1"), vfs).unwrap();
    db.execute_batch(&format!("ATTACH 'file:{name}/two?batch=1' AS q")).unwrap();
    for (schema, rows) in ["main", "q"].into_iter().zip(case.rows) {
        db.execute_batch(&format!(
            "PRAGMA {schema}.journal_mode=MEMORY; PRAGMA {schema}.cache_size={};
             PRAGMA {schema}.locking_mode={};
             CREATE TABLE IF NOT EXISTS {schema}.t(k INTEGER PRIMARY KEY, v INT, b BLOB);
             WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < {rows})
             INSERT OR IGNORE INTO {schema}.t SELECT i, 0, zeroblob(3500) FROM x",
            case.cache, case.locking
        ))
        .unwrap();
    }
    db
}

/// What is wrong after one transaction that writes every page, with an error of the device at operation `error`; operations, and whether it
/// was told done.
fn one(case: Case, error: u64, bug: Option<Bug>) -> (Option<String>, u64, bool) {
    let (vfs, name, stores) = (unique("batch"), unique("batch-store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let mut medium = Ram::blank();
    let store = Store::format(medium.power_on(), StoreOptions::default()).unwrap();
    stores.add(&name, &store);
    drop(connect(&name, &vfs, case));
    stores.remove(&name);
    drop(store);
    medium.hold(case.hold);
    let store = Store::mount(medium.power_on(), StoreOptions::default()).unwrap();
    store.plant(bug.into());
    stores.add(&name, &store);
    let db = connect(&name, &vfs, case);
    let power = medium.power();
    {
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at, power.once) = (0, error, true);
    }
    let done =
        db.execute_batch("BEGIN; UPDATE main.t SET v = 1; UPDATE q.t SET v = 1; COMMIT").is_ok();
    let operations = power.lock().unwrap().operations;
    let _ = db.execute_batch("ROLLBACK");
    // One that holds nothing of what has failed.
    let next = db.execute_batch("INSERT INTO q.t VALUES(1000, 7, NULL)").is_ok();
    drop(db);
    stores.remove(&name);
    drop(store);
    stores.add(&name, &Store::mount(medium.power_on(), StoreOptions::default()).unwrap());
    let db = open(&name, &vfs).unwrap();
    db.execute_batch(&format!("ATTACH 'file:{name}/two' AS q")).unwrap();
    let ask = |sql| ask(&db, sql);
    let expected = format!("{0} {0}", u8::from(done));
    let found = ask("SELECT (SELECT group_concat(DISTINCT v) FROM main.t) || ' ' ||
         (SELECT group_concat(DISTINCT v) FROM q.t WHERE k < 1000)");
    let later = ask("SELECT count(*) FROM q.t WHERE k = 1000") == u8::from(next).to_string();
    let sound =
        ask("PRAGMA main.integrity_check") == "ok" && ask("PRAGMA q.integrity_check") == "ok";
    let unknown = error > 0 && !done && found == "1 1";
    let right = (found == expected || unknown) && later && sound;
    let wrong = (!right).then(|| {
        format!("{case:?}, error {error}, done {done}: {found}, later {later}, sound {sound}")
    });
    (wrong, operations, done)
}

const LOCKINGS: [&str; 2] = ["NORMAL", "EXCLUSIVE"];

#[test]
fn a_batch_that_is_full_takes_nothing_with_it() {
    if !batches() {
        return;
    }
    for locking in LOCKINGS {
        let spilled = Case { rows: [130, 1], cache: 60, hold: 100, locking };
        let two = Case { rows: [60, 60], cache: 1_000, hold: 100, locking };
        let fits = Case { rows: [60, 10], cache: 40, hold: 100, locking };
        for (case, done) in [(spilled, false), (two, false), (fits, true)] {
            let (wrong, operations, told) = one(case, 0, None);
            println!("{case:?}: {operations} operations");
            assert_eq!((wrong, told), (None, done));
        }
        for case in [spilled, two] {
            assert!(one(case, 0, Some(Bug::BatchTakesAll)).0.is_some(), "{case:?}: not found");
        }
    }
}

#[test]
fn an_error_in_a_batch_takes_nothing_with_it() {
    if !batches() {
        return;
    }
    let mut found = 0;
    for locking in LOCKINGS {
        for (rows, cache) in [([150, 20], 90), ([80, 80], 1_000)] {
            let case = Case { rows, cache, hold: 300, locking };
            let operations = one(case, 0, None).1;
            assert!(operations > 100, "{operations}");
            for error in (1..=operations).step_by(5) {
                let (wrong, ..) = one(case, error, None);
                assert_eq!(wrong, None);
                if error % 4 == 1 && found == 0 {
                    found += u32::from(one(case, error, Some(Bug::BatchTakesAll)).0.is_some());
                }
            }
        }
    }
    assert!(found > 0);
}
