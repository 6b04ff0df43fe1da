//! An error of the device behind a commit or within one, then more commits, then a power cut.

use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores, Way};

use crate::common::cut::{Medium, Ram};
use crate::common::{api, ask, open, unique};

/// One error at an operation of a transaction that outgrows the device, then commits that need no
/// durable journal, then a power cut: what is there, what was acknowledged, whether it is sound.
fn an_error_then_commits(
    way: Way,
    journal: &str,
    bug: Option<Bug>,
    cut: u64,
) -> (u64, i64, i64, bool) {
    let (vfs, name, stores) = (unique("later"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let options = StoreOptions { way, ..StoreOptions::default() };
    let mut medium = Ram::blank();
    medium.hold(20);
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    if let Some(bug) = bug {
        store.plant(bug.into());
    }
    let db = open(&name, &vfs).unwrap();
    db.execute_batch(&format!(
        "PRAGMA journal_mode={journal}; PRAGMA cache_size=8; CREATE TABLE c(v INT);
         INSERT INTO c VALUES(0); CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 100)
         INSERT INTO t SELECT i, randomblob(900) FROM x"
    ))
    .unwrap();
    let power = medium.power();
    {
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at, power.once) = (0, cut, true);
    }
    let mut acknowledged = 0;
    // It grows: to take it back needs few pages, and no durable journal again.
    let grow = "INSERT INTO t SELECT NULL, randomblob(900) FROM t; UPDATE c SET v = 1";
    for step in [grow, "UPDATE c SET v = 2"] {
        match db.execute_batch(&format!("BEGIN; {step}; COMMIT")) {
            Ok(()) => acknowledged = i64::from(step.as_bytes()[step.len() - 1] - b'0'),
            Err(_) => drop(db.execute_batch("ROLLBACK")),
        }
    }
    let operations = power.lock().unwrap().operations;
    let _ = medium.image();
    drop(db);
    drop(store);
    stores.add(&name, &Store::mount(medium.power_on(), options).unwrap());
    let db = open(&name, &vfs).unwrap();
    let sound = ask(&db, "PRAGMA integrity_check") == "ok";
    let found = ask(&db, "SELECT v FROM c").parse().unwrap_or(-1);
    (operations, found, acknowledged, sound)
}

/// A durable journal whose removal failed is still there, and would be played back over what was
/// committed since.
#[test]
fn a_durable_journal_that_was_not_removed_is_not_forgotten() {
    let bad = |bug: Option<Bug>| {
        let mut bad = Vec::new();
        for way in [Way::Controls, Way::JournalLife] {
            for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
                let (operations, found, ..) = an_error_then_commits(way, journal, bug, 0);
                assert!(operations > 40 && found == 2, "{operations} operations: {found}");
                for cut in 1..=operations {
                    let (_, found, told, sound) = an_error_then_commits(way, journal, bug, cut);
                    if !sound || found < told {
                        bad.push(format!("{way:?} {journal}, error {cut}: {found}, told {told}"));
                    }
                }
            }
        }
        bad
    };
    let found = bad(None);
    assert!(found.is_empty(), "{}: {:?}", found.len(), found.first());
    assert!(bad(Some(Bug::CopyForgotten)).len() >= 3);
}

/// One transaction lets one database shrink by an extent and another one grow by some; the error comes
/// when it is durable and its free extents are discarded. Answers the operations and what is wrong.
fn an_error_after_the_commit(cut: u64) -> (u64, Vec<String>) {
    let (vfs, name, stores) = (unique("after"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let mut medium = Ram::blank();
    let options = StoreOptions::default();
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    let two =
        |db: &rusqlite::Connection| db.execute_batch(&format!("ATTACH 'file:{name}/two' AS q"));
    let db = open(&name, &vfs).unwrap();
    two(&db).unwrap();
    // With a super-journal SQLite shrinks files after the commit, not in it.
    for schema in ["main", "q"] {
        db.execute_batch(&format!("PRAGMA {schema}.journal_mode=MEMORY")).unwrap();
    }
    let rows = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 400)
        INSERT INTO";
    db.execute_batch(&format!(
        "PRAGMA auto_vacuum=FULL; CREATE TABLE t(v); CREATE TABLE q.u(v);
         {rows} t SELECT randomblob(3900) FROM x"
    ))
    .unwrap();
    let power = medium.power();
    {
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at, power.once) = (0, cut, true);
    }
    let moved = format!("BEGIN; DELETE FROM t; {rows} q.u SELECT randomblob(3900) FROM x; COMMIT");
    let mut least = i64::from(db.execute_batch(&moved).is_ok());
    let _ = db.execute_batch("ROLLBACK");
    let operations = power.lock().unwrap().operations;
    // Whatever COMMIT answered, it is there as a whole or not at all.
    let seen = ask(&db, "SELECT count(*) FROM q.u");
    let more = db.execute_batch("INSERT INTO q.u VALUES(1)").is_ok();
    // Extents that the second database has now must not be free for the first one.
    if db.execute_batch(&format!("{rows} t SELECT randomblob(3900) FROM x")).is_ok() {
        least += 2;
    }
    let _ = medium.image();
    drop(db);
    drop(store);
    let mut bad = Vec::new();
    if !["0", "400"].contains(&seen.as_str()) && !seen.contains("I/O") {
        bad.push(format!("told {least}: {seen} rows of the second database"));
    }
    match Store::mount(medium.power_on(), options) {
        Err(error) => bad.push(error.to_string()),
        Ok(store) => {
            stores.add(&name, &store);
            let db = open(&name, &vfs).unwrap();
            two(&db).unwrap();
            for schema in ["main", "q"] {
                bad.push(ask(&db, &format!("PRAGMA {schema}.integrity_check")));
            }
            bad.retain(|said| said != "ok");
            let count = |sql: &str| ask(&db, &format!("SELECT count(*) FROM {sql}"));
            let found = (count("t"), count("u WHERE v <> 1"));
            if more && count("u WHERE v = 1") != "1" {
                bad.push("the last row of the second database is lost".to_string());
            }
            let fits = match least {
                0 => matches!((found.0.as_str(), found.1.as_str()), ("400", "0") | ("0", "400")),
                1 => found.1 == "400",
                2 => found.0 == "800" || found.0 == "400",
                _ => (found.0.as_str(), found.1.as_str()) == ("400", "400"),
            };
            if !fits {
                bad.push(format!("told {least}: {found:?}"));
            }
        }
    }
    (operations, bad)
}

#[test]
fn after_an_error_behind_a_commit_its_extents_are_not_given_away() {
    let (operations, bad) = an_error_after_the_commit(0);
    assert!(bad.is_empty(), "{bad:?}");
    for cut in operations - 6..=operations {
        let (_, bad) = an_error_after_the_commit(cut);
        assert!(bad.is_empty(), "error {cut} of {operations}: {bad:?}");
    }
}

/// A reader keeps a log from beginning anew, so a commit after its checkpoint brings back the frames that
/// were moved; an error meets that. Answers the operations and what is wrong.
fn an_error_while_frames_come_back(cut: u64) -> (u64, Vec<String>) {
    let (vfs, name, stores) = (unique("back"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let options = StoreOptions { checkpoint: Checkpoint::Remap, ..StoreOptions::default() };
    let mut medium = Ram::blank();
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    let connect = || {
        let db = open(&name, &vfs).unwrap();
        db.execute_batch("PRAGMA cache_size=1; PRAGMA wal_autocheckpoint=0").unwrap();
        db
    };
    let db = connect();
    db.execute_batch(
        "PRAGMA journal_mode=WAL; CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 40)
         INSERT INTO t SELECT i, zeroblob(3000) FROM x; PRAGMA wal_checkpoint;
         UPDATE t SET v = CAST(printf('%03000d', k) AS BLOB)",
    )
    .unwrap();
    let rows = "SELECT sum(CAST(v AS INT)) || ' ' || count(*) FROM t";
    let reader = connect();
    reader.execute_batch("BEGIN").unwrap();
    let before = ask(&reader, rows);
    assert_eq!(before, "820 40");
    db.execute_batch("PRAGMA wal_checkpoint").unwrap();
    assert!(store.stats().remapped > 0, "{:?}", store.stats());
    let power = medium.power();
    {
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at, power.once) = (0, cut, true);
    }
    let (mut bad, mut told) = (Vec::new(), 0);
    for v in 1..=2 {
        if db
            .execute_batch(&format!("UPDATE t SET v = CAST('{}' AS BLOB) WHERE k = 1", v * 100))
            .is_ok()
        {
            told = v;
        }
        let seen = ask(&reader, rows);
        if seen != before && !seen.contains("I/O") {
            bad.push(format!("after {v} the reader's {before} are {seen}"));
        }
    }
    let operations = power.lock().unwrap().operations;
    let _ = medium.image();
    drop((db, reader));
    drop(store);
    stores.add(&name, &Store::mount(medium.power_on(), options).unwrap());
    let db = connect();
    let (sound, found) = (ask(&db, "PRAGMA integrity_check"), ask(&db, rows));
    let fits =
        (told..=2).any(|v| found == format!("{} 40", if v == 0 { 820 } else { 819 + v * 100 }));
    if sound != "ok" || !fits {
        bad.push(format!("told {told}: {found}, {sound}"));
    }
    (operations, bad)
}

#[test]
fn moved_frames_that_were_not_brought_back_are_read_where_they_are() {
    let (operations, bad) = an_error_while_frames_come_back(0);
    assert!(operations > 40 && bad.is_empty(), "{operations}: {bad:?}");
    for cut in 1..=operations {
        let (_, bad) = an_error_while_frames_come_back(cut);
        assert!(bad.is_empty(), "error {cut} of {operations}: {bad:?}");
    }
}
