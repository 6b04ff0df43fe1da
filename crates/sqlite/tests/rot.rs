//! Damage of a store's image, seen from SQL: the same rows or an error, and `varve sqlite check`
//! ends with 4 where it matters. `crates/live/tests/rot.rs` hits every structure on its own; here
//! every 4 KiB are hit, with real SQLite above.
//!
//! `VARVE_ROT=all` hits every sector of 512 bytes, too.
//!
//! What it shows: a flipped bit in a block's header, or zeroes over a page of records, gave older
//! rows (`sum(b)` 393 for 400) with `integrity_check` ok, and the check called the image sound.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use block::Medium;
use block::{Bytes, Rng};
use live::{ImageDrive, LiveError};
use varve_sqlite_host::image::{Served, check_image, unusable};
use varve_sqlite_vfs::{Store, StoreOptions};

const PAGE: usize = 4096;
const ROWS: i64 = 40;

type Row = (i64, i64, String);

#[derive(Debug)]
struct Memory(Mutex<Vec<u8>>);

impl Medium for Memory {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let there = bytes.get(at as usize..at as usize + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[at as usize..at as usize + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A store of 40 rows, updated 400 times, and closed.
fn closed() -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rot.varve");
    let _ = std::fs::remove_file(&path);
    let store = Store::create(&path, Bytes(3 << 20), StoreOptions::default()).unwrap();
    let served = Served::new("rot-made", store).unwrap();
    let db = served.open("main").unwrap();
    db.execute_batch(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INT, c TEXT); CREATE INDEX t_b ON t (b);",
    )
    .unwrap();
    for a in 1..=ROWS {
        let text = format!("row {a} ").repeat(20);
        db.execute("INSERT INTO t VALUES (?1, 0, ?2)", (a, text)).unwrap();
    }
    for n in 0..400 {
        db.execute("UPDATE t SET b = b + 1 WHERE a = ?1", [n % ROWS + 1]).unwrap();
    }
    drop(db);
    drop(served);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

fn rows(memory: &Arc<Memory>, name: &str) -> Result<Vec<Row>, String> {
    let drive = ImageDrive::open_on(Arc::clone(memory) as _).map_err(|e| e.to_string())?;
    let store =
        Store::mount(Box::new(drive), StoreOptions::default()).map_err(|e| e.to_string())?;
    let served = Served::new(name, store).map_err(|e| e.to_string())?;
    let db = served.open("main").map_err(|e| e.to_string())?;
    let read = || -> rusqlite::Result<Vec<Row>> {
        let mut select = db.prepare("SELECT a, b, c FROM t ORDER BY a")?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    };
    read().map_err(|e| e.to_string())
}

/// 0, or the code with which the check ends.
fn check(memory: &Arc<Memory>, name: &str) -> Result<i32, String> {
    let checked = match ImageDrive::open_on(Arc::clone(memory) as _) {
        Ok(drive) => check_image(drive, name).map(|_| ()),
        Err(error) => Err(unusable(error)),
    };
    match checked {
        Ok(()) => Ok(0),
        Err(error) if error.exit_code() == 4 => Ok(4),
        Err(error) => Err(format!("exit code {}: {error}", error.exit_code())),
    }
}

#[derive(Clone, Copy, Debug)]
enum Hit {
    Bit(usize),
    Zero(usize),
}

#[test]
fn the_same_rows_or_an_error_and_the_check_says_so() {
    let bytes = closed();
    let clean = Arc::new(Memory(Mutex::new(bytes.clone())));
    let expected = rows(&clean, "rot-clean").unwrap();
    assert_eq!(expected.iter().map(|(_, b, _)| b).sum::<i64>(), 400);
    assert_eq!(check(&clean, "rot-clean"), Ok(0));

    let all = std::env::var("VARVE_ROT").is_ok_and(|v| v == "all");
    let mut rng = Rng::stream(1, "sqlite/rot");
    let mut hits = Vec::new();
    for at in (0..bytes.len()).step_by(PAGE) {
        hits.push(Hit::Zero(at));
        // The first sector is the one that counts of a header.
        let sectors = if all { 8 } else { 1 };
        hits.extend((0..sectors).map(|s| Hit::Bit(8 * (at + 512 * s) + rng.below(4096) as usize)));
    }
    let (next, silent) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let counts: [AtomicUsize; 3] = Default::default();
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let work = |worker: usize| {
        let name = format!("rot-{worker}");
        while let Some(hit) = hits.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Each looks at the image as it was hit: whoever opens it may erase what is empty.
            let memory = || {
                let mut bytes = bytes.clone();
                match *hit {
                    Hit::Bit(bit) => bytes[bit / 8] ^= 1 << (bit % 8),
                    Hit::Zero(at) => bytes[at..at + PAGE].fill(0),
                }
                Arc::new(Memory(Mutex::new(bytes)))
            };
            let (found, code) = (rows(&memory(), &name), check(&memory(), &name));
            let right = match (&found, &code) {
                (Ok(found), Ok(0 | 4)) => *found == expected,
                (Err(_), Ok(4)) => true,
                _ => false,
            };
            if !right {
                let found = found.map(|rows| rows.iter().map(|(_, b, _)| b).sum::<i64>());
                silent.lock().unwrap().push(format!("{hit:?}: sum {found:?}, check {code:?}"));
            }
            let kind = if code == Ok(0) { 0 } else { 1 + usize::from(refused(&memory())) };
            counts[kind].fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let work = &work;
            scope.spawn(move || work(worker));
        }
    });
    let [sound, opens, refused] = counts.map(AtomicUsize::into_inner);
    println!(
        "{} hits: {sound} of nothing that counts, {opens} with exit code 4 of an image that opens, \
         {refused} of one that does not",
        hits.len()
    );
    let silent = silent.into_inner().unwrap();
    assert!(silent.is_empty(), "{} silent: {:?}", silent.len(), &silent[..silent.len().min(9)]);
    assert!(sound > 0 && opens > 0 && refused > 0);
}

/// Whether the image is refused as damaged.
fn refused(memory: &Arc<Memory>) -> bool {
    let opened = ImageDrive::open_on(Arc::clone(memory) as _);
    matches!(opened, Err(LiveError::Damaged { .. }))
}

/// A full store of which a copy was made while a log or a transaction was open: as a kill leaves it, with
/// what found no room on the drive behind it. And where that begins.
fn killed_full(journal: &str) -> (Vec<u8>, usize) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rot-full-{journal}.varve"));
    let _ = std::fs::remove_file(&path);
    let store = Store::create(&path, Bytes(4 << 20), StoreOptions::default()).unwrap();
    let behind = std::fs::metadata(&path).unwrap().len() as usize;
    let served = Served::new(&format!("rot-full-{journal}"), store).unwrap();
    let db = served.open("main").unwrap();
    db.execute_batch("PRAGMA cache_size = 20; CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
        .unwrap();
    let some = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 20)
        INSERT INTO t(b) SELECT randomblob(900) FROM x";
    while db.execute_batch(some).is_ok() {}
    let left_open = match journal {
        "WAL" => "PRAGMA journal_mode = WAL; DELETE FROM t WHERE a % 40 = 0",
        _ => "BEGIN; DELETE FROM t WHERE a % 3 = 0",
    };
    db.execute_batch(left_open).unwrap();
    let killed = std::fs::read(&path).unwrap();
    assert!(killed.len() > behind, "{journal}: nothing lies behind the drive");
    drop(db);
    drop(served);
    std::fs::remove_file(&path).unwrap();
    (killed, behind)
}

/// A full store that was killed has a log behind the drive: damage there ends the check with 4 as well,
/// and so does that of a journal, for which the store is not even opened.
#[test]
fn damage_behind_the_drive_is_damage() {
    for journal in ["WAL", "DELETE"] {
        let (killed, behind) = killed_full(journal);
        let memory = |bytes: Vec<u8>| Arc::new(Memory(Mutex::new(bytes)));
        let name = format!("rot-behind-{journal}");
        assert_eq!(check(&memory(killed.clone()), &name), Ok(0), "{journal}");
        let mut hit = killed;
        hit[behind + 9] ^= 1;
        assert_eq!(check(&memory(hit), &name), Ok(4), "{journal}");
    }
}
