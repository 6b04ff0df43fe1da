//! A full store: a DELETE that outgrows the drive, with its journal behind the drive, and power cuts at
//! the operations of the file; and a device that has nothing behind it.

mod common;

use common::ask;
use common::cut::{Medium, Ram};
use common::full::Rig;
use common::image::Image;
use rusqlite::ErrorCode;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Store, StoreOptions};

const DELETE: &str = "DELETE FROM t WHERE k % 4 = 0";

/// Cuts the power at every `stride`-th operation of the DELETE; how many cuts, and what was wrong.
fn cuts(rig: &Rig, start: &Vec<u8>, rows: i64, stride: u64) -> (u64, Vec<String>) {
    let mut medium = Image::blank();
    let (mut cut, mut cuts, mut operations, mut bad) = (0, 0, 0, Vec::new());
    loop {
        medium.restore(start);
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let db = rig.open(&store);
        {
            let power = medium.power();
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at) = (0, cut);
        }
        let done = db.execute_batch(DELETE).is_ok();
        if cut == 0 {
            operations = medium.power().lock().unwrap().operations;
            assert!(done && store.stats().fallbacks > 0, "{:?}", store.stats());
            assert!(medium.image().len() > start.len(), "its journal lay behind the drive");
        }
        // The power is off before the connection is closed.
        let _ = medium.image();
        drop(db);
        rig.stores.remove(&rig.name);
        drop(store);
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let db = rig.open(&store);
        let found: i64 = ask(&db, "SELECT count(*) FROM t").parse().unwrap_or(-1);
        let sound = ask(&db, "PRAGMA integrity_check") == "ok";
        if !sound || !(found == rows - rows / 4 || found == rows && !done) {
            bad.push(format!("cut {cut}, done {done}: {found} of {rows} rows, sound {sound}"));
        }
        drop(db);
        rig.stores.remove(&rig.name);
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
fn a_delete_that_outgrows_a_full_image_is_whole_after_any_cut() {
    let (rig, mut medium) = (Rig::new(), Image::blank());
    let store = Store::format_image(medium.drive(), StoreOptions::default()).unwrap();
    let rows = rig.fill(&store);
    rig.stores.remove(&rig.name);
    drop(store);
    let start = medium.image();
    let (cuts, bad) = cuts(&rig, &start, rows, if everything() { 1 } else { 23 });
    println!("{cuts} cuts, {} bad", bad.len());
    assert!(bad.is_empty(), "{} of {cuts}: {:?}", bad.len(), bad.first());
    assert!(cuts > 20, "{cuts}");
}

#[test]
fn where_nothing_is_behind_a_delete_that_fails_leaves_everything_as_it_was() {
    let after = |bug: Option<Bug>| {
        let (rig, mut medium) = (Rig::new(), Ram::blank());
        medium.hold(100);
        let store = Store::format(medium.power_on(), StoreOptions::default()).unwrap();
        let rows = rig.fill(&store);
        if let Some(bug) = bug {
            store.plant(bug.into());
        }
        let (db, other) = (rig.open(&store), rig.open(&store));
        let error = db.execute_batch(DELETE).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
        let said = ask(&db, "PRAGMA varve_error");
        assert!(said.contains("too full to hold its journal"), "{said}");
        [db, other].iter().all(|db| {
            let count = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
            count == Ok(rows)
                && ask(db, "PRAGMA integrity_check") == "ok"
                && db
                    .execute_batch("DELETE FROM t WHERE k = (SELECT max(k) FROM t); ROLLBACK")
                    .is_err()
                && db.execute_batch("BEGIN; DELETE FROM t WHERE k < 40; ROLLBACK").is_ok()
                && count == db.query_row("SELECT count(*) + 1 FROM t", [], |row| row.get(0))
                && db.execute_batch("INSERT INTO t(v) VALUES(randomblob(900))").is_ok()
        })
    };
    assert!(after(None));
    assert!(!after(Some(Bug::JournalLeft)), "a journal that is played back into a full store");
}

/// One error of the file at an operation of the DELETE: what was written since the last sync is in
/// an unknown state then, and no later sync can answer for it. So nothing is written any more, behind
/// the drive as little as on it, until the store is opened anew.
#[test]
fn after_one_error_of_the_file_nothing_is_written() {
    let (rig, mut medium) = (Rig::new(), Image::blank());
    let store = Store::format_image(medium.drive(), StoreOptions::default()).unwrap();
    let rows = rig.fill(&store);
    rig.stores.remove(&rig.name);
    drop(store);
    let start = medium.image();
    let (mut cut, mut bad, mut tried) = (1, Vec::new(), 0);
    loop {
        medium.restore(&start);
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let db = rig.open(&store);
        let power = medium.power();
        {
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at, power.once) = (0, cut, true);
        }
        let done = db.execute_batch(DELETE).is_ok();
        let met = power.lock().unwrap().operations >= cut;
        let _ = db.execute_batch("ROLLBACK");
        let again = db.execute_batch("DELETE FROM t WHERE k = 1").is_ok();
        drop(db);
        rig.stores.remove(&rig.name);
        drop(store);
        let later = power.lock().unwrap().operations.saturating_sub(cut);
        if !met {
            break;
        }
        if done || again || later > 0 {
            bad.push(format!(
                "error {cut}: done {done}, another {again}, {later} operations later"
            ));
        }
        let _ = medium.image();
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let db = rig.open(&store);
        let found: i64 = ask(&db, "SELECT count(*) FROM t").parse().unwrap_or(-1);
        let sound = ask(&db, "PRAGMA integrity_check") == "ok";
        if !sound || !(found == rows || found == rows - rows / 4) {
            bad.push(format!("error {cut}: {found} of {rows} rows, sound {sound}"));
        }
        drop(db);
        rig.stores.remove(&rig.name);
        tried += 1;
        cut += if everything() { 1 } else { 17 };
    }
    println!("{tried} errors, {} bad", bad.len());
    assert!(bad.is_empty(), "{} of {tried}: {:?}", bad.len(), &bad[..bad.len().min(5)]);
    assert!(tried > 20, "{tried}");
}

/// The host has no room when a journal grows behind the drive: the statement is refused and says why, nothing is
/// lost, and the store goes on. No error of the file is behind it, after which nothing may be written.
#[test]
fn a_host_without_room_refuses_the_statement_and_the_store_goes_on() {
    let (rig, mut medium) = (Rig::new(), Image::blank());
    let store = Store::format_image(medium.drive(), StoreOptions::default()).unwrap();
    let rows = rig.fill(&store);
    rig.stores.remove(&rig.name);
    drop(store);
    let start = medium.image();
    let (mut cut, mut met) = (1, 0);
    while met < 5 {
        medium.restore(&start);
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let db = rig.open(&store);
        let power = medium.power();
        {
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at) = (0, cut);
            (power.once, power.full) = (true, true);
        }
        let done = db.execute_batch(DELETE);
        assert!(power.lock().unwrap().operations >= cut, "{met} met, none after {cut}");
        let said = ask(&db, "PRAGMA varve_error");
        if said.contains("no room for the image to grow") {
            met += 1;
            let error = done.unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{cut}: {said}");
            let _ = db.execute_batch("ROLLBACK");
            assert_eq!(ask(&db, "SELECT count(*) FROM t"), rows.to_string(), "{cut}");
            db.execute_batch("DELETE FROM t WHERE k = 1").unwrap();
            drop(db);
            rig.stores.remove(&rig.name);
            store.flush().unwrap();
            drop(store);
            let _ = medium.image();
            let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
            let db = rig.open(&store);
            assert_eq!(ask(&db, "SELECT count(*) FROM t"), (rows - 1).to_string(), "{cut}");
            assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok", "{cut}");
            drop(db);
            rig.stores.remove(&rig.name);
        } else {
            drop(db);
            rig.stores.remove(&rig.name);
            drop(store);
        }
        cut += 3;
    }
}
