//! Power cuts at mutating operations of the device below a store: by file controls and with a log at
//! every one, in all other cases at every third or, with `VARVE_CUTS=all`, at every one.

mod common;

use common::crash::{Case, Harness, Outcome, PLAIN};
use common::cut::{Medium, Ram};
use common::{api, ask, open, unique};
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores, Way};

const JOURNALS: [&str; 4] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"];
const LOCKINGS: [&str; 2] = ["NORMAL", "EXCLUSIVE"];

/// Every third operation, which is enough between changes; with `VARVE_CUTS=all` every one.
fn stride() -> u64 {
    if std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all") { 1 } else { 3 }
}

/// Runs a case and wants nothing bad; the cuts made.
fn good(harness: &Harness, case: Case, stride: u64) -> Outcome {
    let outcome = harness.run::<Ram>(case, stride);
    let (count, first) = (outcome.bad.len(), outcome.bad.first());
    assert!(outcome.bad.is_empty(), "{case:?}: {count} of {}: {first:?}", outcome.cuts);
    assert!(outcome.operations >= 4, "{case:?}: {outcome:?}");
    println!("{} cuts, {} operations: {case:?}", outcome.cuts, outcome.operations);
    outcome
}

fn all(journals: &[&'static str], stride: u64, change: impl Fn(Case) -> Option<Case>) -> u64 {
    let (harness, mut cuts) = (Harness::new(), 0);
    for journal in journals {
        for locking in LOCKINGS {
            for two in [false, true] {
                let case = change(Case { journal, locking, two, ..PLAIN });
                cuts += case.map_or(0, |case| good(&harness, case, stride).cuts);
            }
        }
    }
    cuts
}

#[test]
fn by_file_controls() {
    let cuts = all(&JOURNALS, 1, Some);
    assert!(cuts > 2_000, "{cuts}");
}

#[test]
fn by_file_controls_without_syncs() {
    let cuts = all(&JOURNALS, stride(), |case| Some(Case { sync: "OFF", ..case }));
    assert!(cuts > 30, "{cuts}");
}

#[test]
fn in_groups() {
    for way in [Way::Controls, Way::JournalLife] {
        let journals = if way == Way::Controls { &JOURNALS[..] } else { &JOURNALS[..3] };
        let cuts = all(journals, stride(), |case| Some(Case { way, group: 20, ..case }));
        assert!(cuts > 300, "{cuts}");
    }
}

#[test]
fn by_the_life_of_the_journal() {
    let cuts = all(&JOURNALS[..3], stride(), |case| Some(Case { way: Way::JournalLife, ..case }));
    assert!(cuts > 600, "{cuts}");
    // Without syncs SQLite makes no super-journal: two files then commit one after the other.
    let cuts = all(&JOURNALS[..3], stride(), |case| {
        (!case.two).then_some(Case { way: Way::JournalLife, sync: "OFF", ..case })
    });
    assert!(cuts > 5, "{cuts}");
}

#[test]
fn in_batches() {
    for sync in ["FULL", "OFF"] {
        let cuts = all(&JOURNALS, stride(), |case| Some(Case { batch: true, sync, ..case }));
        assert!(cuts > 40, "{cuts}");
    }
}

#[test]
fn one_io_error() {
    let cuts = all(&JOURNALS, stride(), |case| Some(Case { once: true, ..case }));
    assert!(cuts > 500, "{cuts}");
    let cuts = all(&JOURNALS[..3], stride(), |case| {
        Some(Case { once: true, way: Way::JournalLife, ..case })
    });
    assert!(cuts > 300, "{cuts}");
    // The error meets a group whose transactions have been answered.
    for way in [Way::Controls, Way::JournalLife] {
        let cuts =
            all(&JOURNALS[..3], stride(), |case| Some(Case { once: true, group: 20, way, ..case }));
        assert!(cuts > 150, "{cuts}");
    }
}

/// A transaction that the device did not take back has pages that nobody may use: they were given to the next one.
#[test]
fn an_error_while_a_transaction_is_taken_back() {
    good(&Harness::new(), Case { journal: "MEMORY", once: true, ..PLAIN }, 1);
}

#[test]
fn a_transaction_that_outgrows_the_device() {
    let harness = Harness::new();
    for way in [Way::Controls, Way::JournalLife] {
        for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
            for locking in LOCKINGS {
                for (two, sync, once) in [
                    (false, "FULL", false),
                    (false, "OFF", false),
                    (true, "FULL", false),
                    (true, "FULL", true),
                ] {
                    let batch = two && way == Way::Controls;
                    let small = Case { pages: 20, once, batch, ..PLAIN };
                    let case = Case { journal, locking, two, sync, way, ..small };
                    let outcome = good(&harness, case, stride());
                    assert!(outcome.stats.fallbacks > 0, "{case:?}: {outcome:?}");
                }
            }
        }
    }
}

/// Pages that one database collects while another has nearly filled the device: a COMMIT that finds
/// no room for them can only fail, where a write still falls back to durable journals.
#[test]
fn a_group_beside_a_large_transaction() {
    let harness = Harness::new();
    for pages in 20..28 {
        let case = Case { way: Way::JournalLife, group: 20, two: true, pages, ..PLAIN };
        good(&harness, case, 40);
    }
}

#[test]
fn with_a_log() {
    let harness = Harness::new();
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
        for locking in LOCKINGS {
            for (sync, once) in [("FULL", false), ("NORMAL", false), ("FULL", true)] {
                let case = Case { journal: "WAL", locking, sync, checkpoint, once, ..PLAIN };
                let outcome = good(&harness, case, 1);
                let moved = outcome.stats.remapped > 0;
                assert_eq!(moved, checkpoint == Checkpoint::Remap, "{case:?}: {outcome:?}");
            }
        }
    }
}

/// By the life of the journal: one connection leaves a journal without its magic, the next one
/// works without journals, so that its pages are plain and durable at its sync. What a power cut
/// leaves of them.
fn after_a_stale_journal(bug: Option<Bug>) -> String {
    let (vfs, name, stores) = (unique("stale"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let options = StoreOptions { way: Way::JournalLife, ..StoreOptions::default() };
    let mut medium = Ram::blank();
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    if let Some(bug) = bug {
        store.plant(bug.into());
    }
    let first = open(&name, &vfs).unwrap();
    first
        .execute_batch("PRAGMA journal_mode=PERSIST; CREATE TABLE t(a); INSERT INTO t VALUES(1)")
        .unwrap();
    drop(first);
    let second = open(&name, &vfs).unwrap();
    second.execute_batch("PRAGMA journal_mode=MEMORY; UPDATE t SET a = 2").unwrap();
    let _ = medium.image();
    drop(second);
    stores.add(&name, &Store::mount(medium.power_on(), options).unwrap());
    ask(&open(&name, &vfs).unwrap(), "SELECT a FROM t")
}

#[test]
fn a_stale_journal_tags_nothing() {
    assert_eq!(after_a_stale_journal(None), "2");
    assert_ne!(after_a_stale_journal(Some(Bug::MagicUnchecked)), "2");
}

#[test]
fn a_file_that_shrinks() {
    for way in [Way::Controls, Way::JournalLife] {
        let cuts = all(&JOURNALS[..3], stride(), |case| Some(Case { vacuum: true, way, ..case }));
        assert!(cuts > 500, "{cuts}");
    }
}

#[test]
fn one_error_in_a_journal() {
    for way in [Way::Controls, Way::JournalLife] {
        let cuts = all(&JOURNALS[..3], 7, |case| Some(Case { journal_faults: true, way, ..case }));
        assert!(cuts > 500, "{cuts}");
    }
}

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

#[test]
fn planted_bugs_are_found() {
    let harness = Harness::new();
    let two = Case { two: true, ..PLAIN };
    let planted = [
        (Bug::CommitAtSync, Case { journal: "DELETE", ..two }),
        (Bug::PhaseTwoPerFile, Case { journal: "MEMORY", ..two }),
        (Bug::SuperIgnored, two),
        (Bug::SpillUntagged, PLAIN),
        (Bug::SizeOutsideTransaction, Case { grows: true, ..PLAIN }),
        (Bug::PhaseTwoErrorSwallowed, Case { once: true, ..PLAIN }),
        (Bug::HalfGroup, Case { group: 20, ..PLAIN }),
        (Bug::CheckpointTagged, Case { journal: "WAL", locking: "EXCLUSIVE", ..PLAIN }),
        (Bug::SuperWithoutNames, Case { journal_faults: true, ..two }),
    ];
    let mut missed = Vec::new();
    for (bug, case) in planted {
        let mut outcome = harness.run::<Ram>(Case { bug: Some(bug), ..case }, 1);
        if case.journal_faults {
            // Few of the errors in journals come between the two names: more kinds of journals.
            for journal in ["TRUNCATE", "PERSIST"] {
                let more = harness.run::<Ram>(Case { bug: Some(bug), journal, ..case }, 1);
                outcome.cuts += more.cuts;
                outcome.bad.extend(more.bad);
            }
        }
        println!("{bug:?}: {} of {}: {:?}", outcome.bad.len(), outcome.cuts, outcome.bad.first());
        // One finding may be luck.
        if outcome.bad.len() < 3 {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

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

/// A few cuts of every kind, for whoever has seconds: what the others do at length.
#[test]
fn some_cuts_of_every_kind() {
    let harness = Harness::new();
    let two = Case { two: true, ..PLAIN };
    let life = Case { way: Way::JournalLife, ..two };
    let log = Case { journal: "WAL", locking: "EXCLUSIVE", ..PLAIN };
    for case in [
        two,
        Case { journal: "TRUNCATE", locking: "EXCLUSIVE", vacuum: true, ..two },
        Case { journal: "PERSIST", batch: true, grows: true, ..two },
        Case { journal: "MEMORY", ..two },
        life,
        Case { journal: "TRUNCATE", vacuum: true, ..life },
        Case { journal: "PERSIST", grows: true, ..life },
        Case { once: true, ..two },
        Case { once: true, journal: "PERSIST", ..life },
        Case { group: 20, ..two },
        Case { group: 20, journal: "TRUNCATE", ..life },
        Case { pages: 20, ..two },
        Case { pages: 20, once: true, ..life },
        Case { journal_faults: true, ..two },
        log,
        Case { checkpoint: Checkpoint::Remap, locking: "NORMAL", ..log },
        Case { checkpoint: Checkpoint::Remap, once: true, ..log },
    ] {
        good(&harness, case, 31);
    }
}
