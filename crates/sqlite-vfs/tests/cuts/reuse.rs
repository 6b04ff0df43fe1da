//! Extents that are used again: what lay there before is never found, whatever a power cut leaves of what was
//! written last.

use block::Bytes;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

use crate::common::cut::Medium;
use crate::common::image::Image;
use crate::common::{api, ask, open, unique};

/// A program that prepares a store, and one whose power is cut at every operation.
struct Load {
    /// How often each cut draws what it leaves.
    draws: u32,
    before: &'static [(&'static str, &'static str)],
    /// Each is acknowledged when it returns; by the number of the database.
    steps: &'static [(&'static str, &'static str)],
    /// What is asked of a database afterwards, and the answers after so many steps, or one more.
    asked: (&'static str, &'static str),
    answers: &'static [&'static str],
}

/// Pages that SQLite frees before it has written them are holes in extents that held something else; a
/// record of the log says what is written to them then, by what was there.
const HOLES: Load = Load {
    draws: 2,
    before: &[
        ("", "CREATE TABLE k(v BLOB); CREATE TABLE a(v BLOB)"),
        (
            "",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
              INSERT INTO a SELECT randomblob(3000) FROM n",
        ),
        ("", "PRAGMA varve_flush"),
        ("", "DELETE FROM a"),
        ("", "VACUUM"),
        ("", "PRAGMA varve_flush"),
    ],
    steps: &[
        (
            "",
            "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 350)
              INSERT INTO a SELECT randomblob(3000) FROM n; INSERT INTO k VALUES(x'');
              DELETE FROM a; COMMIT",
        ),
        ("", "INSERT INTO k VALUES(zeroblob(90000))"),
        ("", "INSERT INTO k VALUES(zeroblob(90000))"),
        ("", "INSERT INTO k VALUES(zeroblob(90000))"),
    ],
    asked: ("", "SELECT count(*) FROM k WHERE v = zeroblob(length(v))"),
    answers: &["0", "1", "2", "3", "4"],
};

/// A log that is begun where one of another database was.
const LOGS: Load = Load {
    draws: 32,
    before: &[
        ("", "CREATE TABLE t(v)"),
        ("/b", "CREATE TABLE k(v)"),
        (
            "",
            "PRAGMA journal_mode=WAL; INSERT INTO t VALUES(7), (8), (9); PRAGMA journal_mode=DELETE",
        ),
    ],
    steps: &[("/b", "PRAGMA journal_mode=WAL"), ("/b", "INSERT INTO k VALUES(1)")],
    asked: ("/b", "SELECT count(*) FROM k"),
    answers: &["0", "0", "1"],
};

/// What is wrong after the power goes at operation `cut`, and how many operations there are.
fn at(medium: &mut Image, load: &Load, cut: u64, bug: Option<Bug>) -> (u64, Option<String>) {
    let (vfs, name, stores) = (unique("reuse"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let connect = |database: &str| {
        let db = open(&format!("file:{name}{database}"), &vfs)?;
        db.execute_batch("PRAGMA cache_size=-100000")?;
        Ok::<_, rusqlite::Error>(db)
    };
    let options = StoreOptions { log_pages: Some(256), ..StoreOptions::default() };
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    for (database, sql) in load.before {
        connect(database).unwrap().execute_batch(sql).unwrap();
    }
    // A discard that nothing has followed is lost: what is free holds what it held.
    store.flush().unwrap();
    stores.remove(&name);
    drop(store);
    let store = Store::mount(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    if let Some(bug) = bug {
        store.plant(bug.into());
    }
    {
        let power = medium.power();
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at) = (0, cut);
    }
    let mut told = 0;
    for (database, sql) in load.steps {
        let done = connect(database).and_then(|db| {
            let done = db.execute_batch(sql);
            if done.is_err() || told + 1 == load.steps.len() {
                // The power is off before the connection is closed, or closing would write.
                let _ = medium.image();
            }
            done
        });
        if done.is_err() {
            break;
        }
        told += 1;
    }
    let operations = medium.power().lock().unwrap().operations;
    stores.remove(&name);
    drop(store);
    let (database, question) = load.asked;
    let found =
        Store::mount(medium.power_on(), options).map_err(|e| e.to_string()).and_then(|store| {
            stores.add(&name, &store);
            let db = connect(database).map_err(|e| e.to_string())?;
            let sound = ask(&db, "PRAGMA integrity_check");
            if sound == "ok" { Ok(ask(&db, question)) } else { Err(sound) }
        });
    stores.remove(&name);
    let next = load.answers.get(told + 1).unwrap_or(&load.answers[told]);
    let good = found.as_ref().is_ok_and(|found| *found == load.answers[told] || found == next);
    (operations, (!good).then(|| format!("cut {cut}, {told} steps acknowledged: {found:?}")))
}

/// What is wrong after cuts at all operations, the first of it.
fn first_bad(load: &Load, bug: Option<Bug>) -> Option<String> {
    let (operations, whole) = at(&mut image(0), load, 0, bug);
    let cuts = (1..=operations).flat_map(|cut| (0..load.draws).map(move |seed| (cut, seed)));
    let mut bad = cuts.filter_map(|(cut, seed)| at(&mut image(seed), load, cut, bug).1);
    whole.or_else(|| bad.next())
}

/// Its log is beside the drive: an append to it flushes nothing there.
fn image(seed: u32) -> Image {
    let mut image = Image::sized(Bytes(8 << 20), Bytes(256 << 10));
    image.hold(seed);
    image
}

#[test]
fn what_lay_in_an_extent_before_is_never_found() {
    for load in [&HOLES, &LOGS] {
        assert_eq!(first_bad(load, None), None);
    }
}

#[test]
fn an_extent_that_is_not_blank_is_caught() {
    for (load, bug) in [(&HOLES, Bug::ExtentNotFlushed), (&LOGS, Bug::ExtentNotDiscarded)] {
        assert!(first_bad(load, Some(bug)).is_some(), "{bug:?}");
    }
}
