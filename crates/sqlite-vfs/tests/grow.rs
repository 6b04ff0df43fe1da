//! A store that begins small and grows with what it gets: whole after any power cut, in every journal mode, up to its
//! limit and to what the host has room for.

mod common;

use block::Bytes;
use common::ask;
use common::cut::Medium;
use common::full::Rig;
use common::image::Image;
use rusqlite::{Connection, ErrorCode};
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{FIRST_CAPACITY, Store, StoreOptions};

const MODES: [&str; 5] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL"];
const LOG: Bytes = Bytes(64 << 10);

/// What a store holds at first, and one day, and whether its log is to stay as it is.
#[derive(Clone, Copy)]
struct Sizes {
    first: Bytes,
    limit: Bytes,
    same_log: bool,
}

/// One of whom nothing is asked: each time a larger image is made behind it.
const NEW: Sizes = Sizes { first: FIRST_CAPACITY, limit: Bytes(256 << 20), same_log: false };
/// One that gets more blocks of the same size.
const SAME: Sizes = Sizes { first: Bytes(4352 << 10), limit: Bytes(6 << 20), same_log: true };

fn rows(count: u64) -> String {
    format!(
        "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < {count})
         INSERT INTO t(v) SELECT randomblob(900) FROM x"
    )
}

fn growing(Sizes { first, limit, .. }: Sizes) -> Image {
    let mut image = Image::sized_to_grow(first, LOG, limit);
    drop(Store::format_image(image.drive(), StoreOptions::default()).unwrap());
    image
}

fn opened(rig: &Rig, medium: &mut Image, sizes: Sizes) -> (Store, Connection) {
    let log_pages = sizes.same_log.then_some((LOG.0 / 4096) as u32);
    let options = StoreOptions { log_pages, ..StoreOptions::default() };
    let store = Store::mount_image(medium.drive(), options).unwrap();
    let db = rig.open(&store);
    (store, db)
}

fn closed(rig: &Rig, store: Store, db: Connection) {
    drop(db);
    rig.stores.remove(&rig.name);
    drop(store);
}

/// A store with so many rows.
fn filled(rig: &Rig, sizes: Sizes, mode: &str, count: u64) -> Vec<u8> {
    let mut medium = growing(sizes);
    let (store, db) = opened(rig, &mut medium, sizes);
    assert_eq!(ask(&db, &format!("PRAGMA journal_mode={mode}")), mode.to_lowercase());
    db.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)").unwrap();
    db.execute_batch(&rows(count)).unwrap();
    closed(rig, store, db);
    medium.image()
}

/// Cuts the power at every `stride`-th operation of an INSERT that lets the store grow.
fn cuts(
    rig: &Rig,
    sizes: Sizes,
    mode: &str,
    (before, more): (u64, u64),
    stride: u64,
) -> (u64, Vec<String>) {
    let start = filled(rig, sizes, mode, before);
    let mut medium = growing(sizes);
    let (mut cut, mut cuts, mut operations, mut bad) = (0, 0, 0, Vec::new());
    loop {
        medium.restore(&start);
        let (store, db) = opened(rig, &mut medium, sizes);
        // (A mode but WAL is the connection's.)
        ask(&db, &format!("PRAGMA journal_mode={mode}"));
        {
            let power = medium.power();
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at) = (0, cut);
        }
        let done = db.execute_batch(&rows(more)).is_ok();
        if cut == 0 {
            operations = medium.power().lock().unwrap().operations;
            assert!(done && store.stats().growths > 0, "{mode}: {:?}", store.stats());
            let (was, is) = (start.len(), medium.drive_bytes());
            let added = is - was < was / 2;
            assert_eq!(added, sizes.first == SAME.first, "{mode}: {was} bytes, {is} now");
        }
        // The power is off before the connection is closed.
        let _ = medium.image();
        closed(rig, store, db);
        let (store, db) = opened(rig, &mut medium, sizes);
        let found = ask(&db, "SELECT count(*) FROM t");
        let sound = ask(&db, "PRAGMA integrity_check");
        let after = (before + more).to_string();
        if sound != "ok" || !(found == after || found == before.to_string() && !done) {
            bad.push(format!("{mode}: cut {cut}, done {done}: {found} rows, {sound}"));
        }
        // And it goes on.
        if let Err(error) = db.execute_batch(&rows(more)) {
            bad.push(format!("{mode}: cut {cut}: {error}: {}", ask(&db, "PRAGMA varve_error")));
        }
        closed(rig, store, db);
        cuts += 1;
        cut += stride;
        if cut > operations {
            return (cuts, bad);
        }
    }
}

fn everything() -> bool {
    std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all")
}

#[test]
fn a_statement_that_lets_it_grow_is_whole_after_any_cut() {
    let rig = Rig::new();
    // (For a large transaction in memory the drive was made larger before that.)
    let few = ["DELETE", "WAL"];
    for (modes, sizes, step, stride) in [
        (&MODES[..], NEW, (20, 1_500), 41),
        (&few[..], NEW, (3_000, 3_000), 211),
        (&few[..], SAME, (900, 1_400), 23),
    ] {
        for mode in modes {
            let (cuts, bad) = cuts(&rig, sizes, mode, step, if everything() { 1 } else { stride });
            println!("{mode} {step:?}: {cuts} cuts, {} bad", bad.len());
            assert!(bad.is_empty(), "{} of {cuts}: {:?}", bad.len(), bad.first());
            assert!(cuts > 5, "{cuts}");
        }
    }
}

/// (With fewer pages for transactions they went on with a journal in the image, and nothing of them was in the log.)
#[test]
fn an_ordinary_transaction_of_a_small_store_fits_its_drive() {
    let rig = Rig::new();
    // In WAL mode a commit is in SQLite's log.
    for mode in MODES.into_iter().filter(|mode| *mode != "WAL") {
        let mut medium = growing(NEW);
        let (store, db) = opened(&rig, &mut medium, NEW);
        ask(&db, &format!("PRAGMA journal_mode={mode}"));
        db.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)").unwrap();
        for first in (1..=100).step_by(10) {
            let rows = first..first + 10;
            let values: Vec<String> = rows.map(|k| format!("({k}, randomblob(3000))")).collect();
            db.execute_batch(&format!("INSERT INTO t VALUES {}", values.join(","))).unwrap();
        }
        for round in 0..40 {
            // From 9 to 30 pages.
            let (first, count) = (1 + round * 7 % 60, 8 + round % 22);
            let range = format!("BETWEEN {first} AND {}", first + count);
            db.execute_batch(&format!("UPDATE t SET v = randomblob(3000) WHERE k {range}"))
                .unwrap();
        }
        let stats = store.stats();
        assert_eq!((stats.fallbacks, stats.growths), (0, 0), "{mode}: {stats:?}");
        assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok", "{mode}");
        closed(&rig, store, db);
    }
}

#[test]
fn one_transaction_makes_a_large_store_of_a_small_one() {
    let rig = Rig::new();
    for mode in MODES {
        let mut medium = growing(NEW);
        let (store, db) = opened(&rig, &mut medium, NEW);
        ask(&db, &format!("PRAGMA journal_mode={mode}"));
        db.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)").unwrap();
        let small = medium.drive_bytes();
        db.execute_batch("BEGIN").unwrap();
        db.execute_batch(&rows(8_000))
            .unwrap_or_else(|error| panic!("{mode}: {error}: {}", ask(&db, "PRAGMA varve_error")));
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), "0", "{mode}");
        db.execute_batch(&rows(8_000)).unwrap();
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), "8000", "{mode}");
        assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok", "{mode}");
        assert!(store.stats().growths >= 3, "{mode}: {:?}", store.stats());
        closed(&rig, store, db);
        let _ = medium.image();
        let (store, db) = opened(&rig, &mut medium, NEW);
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), "8000", "{mode}");
        db.execute_batch("DELETE FROM t").unwrap();
        assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok", "{mode}");
        println!("{mode}: {small} bytes at first, {} now", medium.drive_bytes());
        closed(&rig, store, db);
    }
}

#[test]
fn at_its_limit_it_is_full_and_says_so() {
    let (rig, mut medium) = (Rig::new(), growing(Sizes { limit: Bytes(4 << 20), ..NEW }));
    let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
    let rows = rig.fill(&store);
    assert!(store.stats().growths > 0);
    let db = rig.open(&store);
    db.execute_batch("DELETE FROM t WHERE k % 2 = 0").unwrap();
    assert_eq!(ask(&db, "SELECT count(*) FROM t"), (rows - rows / 2).to_string());
    db.execute_batch("VACUUM").unwrap();
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    closed(&rig, store, db);
}

/// The host has no room at one write of a statement that lets the store grow: it is done or refused, with the reason,
/// and nothing is lost.
/// Its table of objects stays as it is: a database too many is refused when it commits, and nothing else is.
#[test]
fn a_database_too_many_is_refused_and_the_others_go_on() {
    let rig = Rig::new();
    let mut medium = growing(NEW);
    let (store, main) = opened(&rig, &mut medium, NEW);
    main.execute_batch("CREATE TABLE t(v)").unwrap();
    let named = |n: u32| common::open(&format!("{}/d{n}", rig.name), rig.vfs()).unwrap();
    let made =
        (1..100).take_while(|n| named(*n).execute_batch("CREATE TABLE t(v)").is_ok()).count();
    assert!((50..70).contains(&made), "{made}");
    let more = named(100);
    let refused = more.execute_batch("CREATE TABLE t(v)").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
    assert!(ask(&main, "PRAGMA varve_error").contains("object table is full"));
    drop(more);
    main.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    store.flush().unwrap();
    named(1).execute_batch("INSERT INTO t VALUES(1)").unwrap();
    closed(&rig, store, main);
    let (store, main) = opened(&rig, &mut medium, NEW);
    assert_eq!(ask(&main, "SELECT count(*) FROM t"), "1");
    assert_eq!(ask(&named(made as u32), "SELECT count(*) FROM t"), "0");
    // Who does not count learns it too late.
    store.plant(Bug::SlotsUncounted.into());
    // The first two commits go as pages.
    for _ in 0..3 {
        main.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    }
    assert!(named(100).execute_batch("CREATE TABLE t(v)").is_ok());
    assert!(store.flush().is_err());
    closed(&rig, store, main);
}

#[test]
fn a_host_without_room_costs_nothing_that_was_there() {
    let rig = Rig::new();
    let start = filled(&rig, NEW, "DELETE", 20);
    let mut medium = growing(NEW);
    let (mut cut, mut grown) = (1, 0);
    loop {
        medium.restore(&start);
        let (store, db) = opened(&rig, &mut medium, NEW);
        let power = medium.power();
        {
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at) = (0, cut);
            (power.once, power.full) = (true, true);
        }
        let done = db.execute_batch(&rows(900));
        if power.lock().unwrap().operations < cut {
            closed(&rig, store, db);
            break;
        }
        let _ = db.execute_batch("ROLLBACK");
        let expected = if done.is_ok() { 920 } else { 20 };
        if let Err(error) = &done {
            let said = ask(&db, "PRAGMA varve_error");
            assert!(!said.is_empty(), "cut {cut}: {error}");
            // (A drive's own write without room is an error of the file: nothing is written after that.)
            let code = error.sqlite_error_code();
            assert!(
                code == Some(ErrorCode::DiskFull) || code == Some(ErrorCode::SystemIoFailure),
                "{error}"
            );
        }
        grown += u64::from(done.is_ok());
        closed(&rig, store, db);
        let _ = medium.image();
        let (store, db) = opened(&rig, &mut medium, NEW);
        assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok", "{cut}");
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), expected.to_string(), "{cut}");
        closed(&rig, store, db);
        cut += 7;
    }
    assert!(grown > 3, "{grown} grew later");
}
