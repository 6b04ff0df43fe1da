//! A device that spans few numbers of transactions, or opens few: a long one does not keep others from committing, and no COMMIT that met
//! such a limit can be repeated into nothing.

mod common;

use block::{RamDevice, Sectors, TxId, TxLimits};
use common::{api, ask, open, unique};
use rusqlite::{Connection, ErrorCode};
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

const SCHEMA: &str = "CREATE TABLE t(k INTEGER PRIMARY KEY, v INT, b BLOB);
    WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 60)
    INSERT INTO t SELECT i, 0, zeroblob(3500) FROM x";

struct Rig {
    stores: Stores,
    store: Store,
    vfs: String,
    name: String,
}

impl Rig {
    fn new(limits: TxLimits, log_pages: Option<u32>) -> Rig {
        let (vfs, name, stores) = (unique("limits"), unique("limits-store"), Stores::new());
        stores.register(&api(), &vfs, false, None).unwrap();
        let options = StoreOptions { log_pages, ..StoreOptions::default() };
        let device = RamDevice::new(Sectors(8 * 2_048)).with_limits(limits);
        let store = Store::format(Box::new(device), options).unwrap();
        stores.add(&name, &store);
        Rig { stores, store, vfs, name }
    }
    fn open(&self, object: &str) -> Connection {
        let db = open(&format!("{}/{object}", self.name), &self.vfs).unwrap();
        db.execute_batch("PRAGMA cache_size=8").unwrap();
        db
    }
    /// What the device has committed.
    fn versions(&self, object: &str) -> String {
        let db = self.open(object);
        let found = ask(&db, "SELECT group_concat(DISTINCT v) FROM t");
        format!("{found} {}", ask(&db, "PRAGMA integrity_check"))
    }
}

fn limits(max_open: u32, span: u64) -> TxLimits {
    TxLimits { max_open, pages: 400, span, next: TxId(1) }
}

#[test]
fn who_commits_is_not_kept_from_it_by_a_transaction_that_is_open() {
    for (limits, several) in [(limits(64, 40), false), (limits(3, 16_384), true)] {
        let rig = Rig::new(limits, None);
        let names: Vec<String> = (0..5).map(|number| format!("long{number}")).collect();
        let long: Vec<Connection> = names.iter().map(|name| rig.open(name)).collect();
        let long = &long[..if several { 5 } else { 1 }];
        let short = rig.open("short");
        for db in long.iter().chain([&short]) {
            db.execute_batch(SCHEMA).unwrap();
        }
        // Each spills more than it keeps.
        for db in long {
            db.execute_batch("BEGIN; UPDATE t SET v = 1").unwrap();
        }
        for version in 1..100 {
            short.execute_batch(&format!("UPDATE t SET v = {version}")).unwrap();
            assert_eq!(ask(&short, "SELECT group_concat(DISTINCT v) FROM t"), version.to_string());
        }
        for (number, db) in long.iter().enumerate() {
            assert_eq!(ask(db, "SELECT group_concat(DISTINCT v) FROM t"), "1");
            db.execute_batch(if number % 2 == 0 { "COMMIT" } else { "ROLLBACK" }).unwrap();
        }
        for (number, name) in names.iter().take(long.len()).enumerate() {
            let expected = if number % 2 == 0 { "1 ok" } else { "0 ok" };
            assert_eq!(rig.versions(name), expected, "{name}");
        }
        assert_eq!(rig.versions("short"), "99 ok");
        rig.stores.remove(&rig.name);
    }
}

/// Two databases in one COMMIT, whose last step is the end of a super-journal, and one alone.
#[test]
fn a_commit_that_meets_a_limit_is_not_to_be_repeated() {
    for two in [false, true] {
        // Its records do not fit into the log, so it asks for a number when it commits.
        let rig = Rig::new(TxLimits { pages: 100, ..limits(1, 16_384) }, Some(2));
        let (long, short) = (rig.open("long"), rig.open("short"));
        long.execute_batch(SCHEMA).unwrap();
        short.execute_batch(&SCHEMA.replace("i < 60", "i < 3")).unwrap();
        if two {
            short
                .execute_batch(&format!("ATTACH '{}/other' AS q; CREATE TABLE q.u(v)", rig.name))
                .unwrap();
        }
        rig.store.plant(Bug::LimitsTold.into());
        long.execute_batch("BEGIN; UPDATE t SET v = 1").unwrap();
        short.execute_batch("BEGIN; UPDATE t SET v = 1, b = randomblob(3500)").unwrap();
        if two {
            short.execute_batch("INSERT INTO q.u VALUES(1)").unwrap();
        }
        let told = short.execute_batch("COMMIT").expect_err("the device has no number for it");
        assert_ne!(told.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{told}");
        // It was rolled back, and SQLite knows.
        assert!(short.is_autocommit());
        assert!(short.execute_batch("COMMIT").is_err());
        long.execute_batch("COMMIT").unwrap();
        assert_eq!((rig.versions("short"), rig.versions("long")), ("0 ok".into(), "1 ok".into()));
        rig.stores.remove(&rig.name);
    }
}
