//! Transactions over two stores, and super-journals that a cut leaves without one.

use varve_sqlite_vfs::{Store, StoreOptions, Stores};

use crate::common::cut::{Medium, Ram};
use crate::common::{api, ask, open, unique};

/// A transaction over two stores, with the power of both cut at operation `cut`: what is there
/// afterwards, whether COMMIT was answered, and the operations.
fn over_two_stores(cut: u64, journal: &str) -> (String, String, bool, u64) {
    let (vfs, one, two, stores) = (unique("two"), unique("one"), unique("two"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let (mut first, mut second) = (Ram::blank(), Ram::blank());
    let connect = || {
        let db = open(&one, &vfs)?;
        db.execute_batch(&format!(
            "PRAGMA journal_mode={journal}; ATTACH 'file:{two}' AS q; PRAGMA q.journal_mode={journal}"
        ))?;
        Ok::<_, rusqlite::Error>(db)
    };
    let options = StoreOptions::default();
    stores.add(&one, &Store::format(first.power_on(), options).unwrap());
    stores.add(&two, &Store::format(second.power_on_with(first.power()), options).unwrap());
    let db = connect().unwrap();
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
    db.execute_batch("CREATE TABLE q.u(a); INSERT INTO q.u VALUES(1)").unwrap();
    {
        let power = first.power();
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at) = (0, cut);
    }
    let done = db.execute_batch("BEGIN; UPDATE t SET a = 2; UPDATE q.u SET a = 2; COMMIT").is_ok();
    let operations = first.power().lock().unwrap().operations;
    let _ = (first.image(), second.image());
    drop(db);
    stores.add(&one, &Store::mount(first.power_on(), options).unwrap());
    stores.add(&two, &Store::mount(second.power_on_with(first.power()), options).unwrap());
    let db = connect().unwrap();
    (ask(&db, "SELECT a FROM t"), ask(&db, "SELECT a FROM q.u"), done, operations)
}

#[test]
fn two_stores_commit_through_durable_journals() {
    for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
        let (one, two, done, operations) = over_two_stores(0, journal);
        assert_eq!((one.as_str(), two.as_str(), done), ("2", "2", true));
        assert!(operations > 20, "{operations}");
        for cut in 1..=operations {
            let (one, two, done, _) = over_two_stores(cut, journal);
            assert_eq!(one, two, "{journal} cut {cut}");
            assert!(one == "2" || (one == "1" && !done), "{journal} cut {cut}: {one} {done}");
        }
    }
}

/// A power cut between a super-journal and the journals that name it leaves one that nobody would ever remove: the
/// next one to become durable takes it away.
#[test]
fn super_journals_that_decide_nothing_are_taken_away() {
    let (vfs, name, stores) = (unique("left"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let options = StoreOptions::default();
    let mut medium = Ram::blank();
    medium.hold(20);
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    let connect = || {
        let db = open(&name, &vfs).unwrap();
        db.execute_batch(&format!("PRAGMA cache_size=8; ATTACH 'file:{name}/q' AS q")).unwrap();
        db
    };
    let rows = "(k INTEGER PRIMARY KEY, v BLOB);
        WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 100) INSERT INTO";
    let fill = "SELECT i, randomblob(900) FROM x";
    let sql = format!("CREATE TABLE t{rows} t {fill}; CREATE TABLE q.u{rows} q.u {fill}");
    connect().execute_batch(&sql).unwrap();
    drop(store);
    let supers = |store: &Store| {
        let objects = store.objects();
        objects.iter().filter(|(name, _)| name.contains("-mj")).count()
    };
    let both =
        "BEGIN; UPDATE t SET v = randomblob(900); UPDATE q.u SET v = randomblob(900); COMMIT";
    let (mut most, mut left, mut cut, mut done) = (0, 0, 1, false);
    while !done {
        stores.remove(&name);
        let store = Store::mount(medium.power_on(), options).unwrap();
        stores.add(&name, &store);
        let before = supers(&store);
        most = most.max(before);
        left += usize::from(before > 0);
        assert!(most <= 2 && cut < 2_000, "cut {cut}: {:?}", store.objects());
        let db = connect();
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), "100");
        assert_eq!(ask(&db, "SELECT count(*) FROM q.u"), "100");
        let power = medium.power();
        {
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at) = (0, cut);
        }
        done = db.execute_batch(both).is_ok();
        cut += 1;
        assert!(!done || supers(&store) == 0, "{:?}", store.objects());
        let _ = medium.image();
    }
    println!("{cut} cuts, behind {left} of them a super-journal was there, {most} at a time");
    assert!(left > 0, "no cut left any");
}
