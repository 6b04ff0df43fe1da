//! Damage behind the drive: of a store that was full when it was killed, the same rows are read or an
//! error is, whatever place of its annex is hit.
//!
//! `VARVE_ROT=all` hits every sector of 512 bytes, else some.
//!
//! What it shows: without a checksum of what lies there, SQLite took a damaged frame for the end of its
//! log, and a damaged record for the end of its journal: acknowledged rows were missing, or half of a
//! transaction was there.

mod common;

use block::{Rng, crc32c};
use common::cut::Medium;
use common::full::Rig;
use common::image::Image;
use rusqlite::Connection;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Store, StoreError, StoreOptions};

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// Rows, and a checksum of all of them.
fn rows(db: &Connection) -> rusqlite::Result<(u64, u32)> {
    let mut select = db.prepare("SELECT k, v FROM t ORDER BY k")?;
    let mut found = select.query([])?;
    let (mut count, mut sum) = (0, 0);
    while let Some(row) = found.next()? {
        sum = crc32c(sum, &row.get::<_, i64>(0)?.to_le_bytes());
        sum = crc32c(sum, &row.get::<_, Vec<u8>>(1)?);
        count += 1;
    }
    Ok((count, sum))
}

/// What a look at an image found.
#[derive(Debug, PartialEq)]
enum Found {
    Rows(u64, u32),
    /// An error, and whether it is that of damage.
    Error(String, bool),
}

fn look(rig: &Rig, medium: &mut Image, bytes: &Vec<u8>, bug: Option<Bug>) -> Found {
    medium.restore(bytes);
    let store = match Store::mount_image(medium.drive(), StoreOptions::default()) {
        Ok(store) => store,
        Err(error) => {
            return Found::Error(error.to_string(), matches!(error, StoreError::Damaged(_)));
        }
    };
    if let Some(bug) = bug {
        store.plant(bug.into());
    }
    rig.stores.add(&rig.name, &store);
    let db = common::open(&rig.name, rig.vfs()).unwrap();
    let found = rows(&db);
    let found = match found {
        Ok((count, sum)) => Found::Rows(count, sum),
        Err(error) => {
            let said = common::ask(&db, "PRAGMA varve_error");
            let typed = said.contains("CRC32C");
            Found::Error(format!("{error}: {said}"), typed)
        }
    };
    let _ = medium.image();
    drop(db);
    rig.stores.remove(&rig.name);
    found
}

/// A full store whose DELETE was under way, its journal behind the drive: the image as its kill left it,
/// and where the annex begins.
fn killed_with_a_journal(rig: &Rig, medium: &mut Image) -> (Vec<u8>, usize) {
    let store = Store::format_image(medium.drive(), StoreOptions::default()).unwrap();
    rig.fill(&store);
    rig.stores.remove(&rig.name);
    drop(store);
    let start = medium.image();
    let mut cut = 40;
    loop {
        medium.restore(&start);
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let db = rig.open(&store);
        {
            let power = medium.power();
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at) = (0, cut);
        }
        assert!(db.execute_batch("DELETE FROM t WHERE k % 4 = 0").is_err(), "no cut met a journal");
        let bytes = medium.image();
        drop(db);
        rig.stores.remove(&rig.name);
        drop(store);
        let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
        let hot = store.objects().iter().any(|(name, size)| name == "main-journal" && *size > 0);
        let _ = medium.image();
        if hot && bytes.len() > start.len() {
            return (bytes, start.len());
        }
        cut += 40;
    }
}

/// The same with a log, whose newest commits lie behind the drive.
fn killed_with_a_log(rig: &Rig, medium: &mut Image) -> (Vec<u8>, usize) {
    let store = Store::format_image(medium.drive(), StoreOptions::default()).unwrap();
    rig.fill(&store);
    let start = medium.image().len();
    let bytes = medium.image();
    rig.stores.remove(&rig.name);
    drop(store);
    medium.restore(&bytes);
    let store = Store::mount_image(medium.drive(), StoreOptions::default()).unwrap();
    let db = rig.open(&store);
    assert_eq!(common::ask(&db, "PRAGMA journal_mode=WAL"), "wal");
    db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
    for k in 0..20 {
        db.execute("UPDATE t SET v = randomblob(900) WHERE k % 40 = ?1", [k]).unwrap();
    }
    let bytes = medium.image();
    drop(db);
    rig.stores.remove(&rig.name);
    assert!(bytes.len() > start, "its log lies behind the drive");
    (bytes, start)
}

/// Hits one place after the other; what was silent, and how often damage was told.
fn hit(
    rig: &Rig,
    medium: &mut Image,
    (bytes, start): &(Vec<u8>, usize),
    bug: Option<Bug>,
) -> (u64, u64, Vec<String>) {
    let clean = look(rig, medium, bytes, None);
    assert!(matches!(clean, Found::Rows(..)), "{clean:?}");
    let all = std::env::var("VARVE_ROT").is_ok_and(|v| v == "all");
    let mut rng = Rng::stream(1, "sqlite-vfs/rot");
    let (mut hits, mut told, mut silent) = (0, 0, Vec::new());
    // An odd number of sectors, so that all places in a page have their turn.
    let sectors = if all { 1 } else { ((bytes.len() - start) / SECTOR / 80) | 1 };
    let step = sectors * SECTOR;
    for at in (*start..bytes.len()).step_by(step) {
        let mut bit = bytes.clone();
        let which = 8 * at + rng.below(8 * SECTOR as u64) as usize;
        bit[which / 8] ^= 1 << (which % 8);
        let mut zero = bytes.clone();
        let (from, to) = (at / PAGE * PAGE, (at / PAGE * PAGE + PAGE).min(bytes.len()));
        zero[from.max(*start)..to].fill(0);
        // Every sector is whole, at another one's place.
        let mut moved = bytes.clone();
        let other = if at == *start { at + SECTOR } else { *start };
        moved.copy_within(other..other + SECTOR, at);
        for (what, bytes) in [("bit", bit), ("zeroes", zero), ("another sector", moved)] {
            let found = look(rig, medium, &bytes, bug);
            hits += 1;
            match found {
                Found::Error(_, true) => told += 1,
                Found::Error(text, false) => {
                    silent.push(format!("{what} at {at}: not typed: {text}"))
                }
                found if found == clean => {}
                found => silent.push(format!("{what} at {at}: {found:?} for {clean:?}")),
            }
        }
    }
    (hits, told, silent)
}

fn good(what: &str, make: impl Fn(&Rig, &mut Image) -> (Vec<u8>, usize)) {
    let (rig, mut medium) = (Rig::new(), Image::blank());
    let killed = make(&rig, &mut medium);
    let (hits, told, silent) = hit(&rig, &mut medium, &killed, None);
    println!("{what}: {hits} hits, {told} told, {} silent", silent.len());
    let count = silent.len();
    assert!(silent.is_empty(), "{count} of {hits}: {:?}", &silent[..count.min(5)]);
    assert!(told > 50, "{told} of {hits}");
}

#[test]
fn a_damaged_journal_of_a_full_image_is_an_error() {
    good("journal", killed_with_a_journal);
}

#[test]
fn a_damaged_log_of_a_full_image_is_an_error() {
    good("log", killed_with_a_log);
}

#[test]
fn the_alarm_works() {
    let (rig, mut medium) = (Rig::new(), Image::blank());
    let killed = killed_with_a_log(&rig, &mut medium);
    let (hits, _, silent) = hit(&rig, &mut medium, &killed, Some(Bug::BehindUnchecked));
    println!("{hits} hits, {} silent: {:?}", silent.len(), silent.first());
    assert!(silent.len() >= 3, "{silent:?}");
}
