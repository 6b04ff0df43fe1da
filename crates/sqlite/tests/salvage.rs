//! A damaged store: what can be read of it is saved, what cannot is named, and the check lists it.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use block::Bytes;
use rusqlite::Connection;
use varve_sqlite_host::image::{Served, check, export, import, salvage};
use varve_sqlite_host::source::Source;
use varve_sqlite_vfs::{Store, StoreOptions};

const PAGE: usize = 4096;
const ROWS: i64 = 300;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("salvage-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One row on each page, with a mark of its own; an image of it, and the database as the store has it.
fn stored(folder: &Folder, page: usize) -> (PathBuf, Vec<u8>) {
    let (file, image, out) = (folder.at("a.db"), folder.at("a.varve"), folder.at("out.db"));
    let db = Connection::open(&file).unwrap();
    db.execute_batch(&format!(
        "PRAGMA page_size={page}; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); BEGIN"
    ))
    .unwrap();
    for a in 1..=ROWS {
        let text = format!("mark {a:04} ").repeat(page * 6 / 100);
        db.execute("INSERT INTO t VALUES(?1, ?2)", (a, text)).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    import(&file, &image, None, None).unwrap();
    export(image.as_path(), &out).unwrap();
    (image, std::fs::read(out).unwrap())
}

/// Damages every copy in the image of what a database has at `at`; how many there were.
fn damage(image: &Path, database: &[u8], at: usize) -> usize {
    let mut bytes = std::fs::read(image).unwrap();
    let wanted = &database[at..at + PAGE];
    let mut hits = 0;
    for start in (0..bytes.len() - PAGE).step_by(4) {
        if bytes[start..start + PAGE] == *wanted {
            bytes[start + PAGE / 2] ^= 1;
            hits += 1;
        }
    }
    std::fs::write(image, bytes).unwrap();
    hits
}

#[test]
fn what_can_be_read_is_saved_and_the_rest_is_named_and_zeroes() {
    let one = |page, lost: &[RangeInclusive<u64>], pieces| (page, lost.to_vec(), pieces);
    for (page, lost, pieces) in
        [one(4096, &[5..=5, 100..=101], 3), one(1024, &[17..=20], 1), one(8192, &[60..=60], 1)]
    {
        let folder = Folder::new(&page.to_string());
        let (image, database) = stored(&folder, page);
        let source = Source::Image(image.clone());
        let whole = salvage(&source, None, &folder.at("whole.db")).unwrap();
        assert_eq!(
            (whole.bytes, &whole.lost[..], whole.why),
            (database.len() as u64, &[][..], None)
        );
        assert!(std::fs::read(folder.at("whole.db")).unwrap() == database);
        let mut wanted = database.clone();
        for range in &lost {
            let first = (range.start() - 1) as usize * page;
            for at in (first..*range.end() as usize * page).step_by(PAGE.max(page)) {
                assert!(damage(&image, &database, at) > 0, "page {range:?}");
                wanted[at..at + PAGE].fill(0);
            }
        }
        let said = check(image.as_path()).unwrap_err().to_string();
        let listed =
            format!("{} of its pages cannot be read", pieces.min(pieces * page / 1024 / 4).max(1));
        assert!(said.contains(&listed), "{said}: {listed}");
        assert!(export(image.as_path(), &folder.at("export.db")).is_err());
        let saved = salvage(&source, None, &folder.at("saved.db")).unwrap();
        assert_eq!((saved.page, saved.lost), (page as u64, lost));
        assert!(saved.why.is_some() && saved.beside.is_empty());
        assert!(std::fs::read(folder.at("saved.db")).unwrap() == wanted);
        // Nothing is written over, nothing is left behind.
        assert!(salvage(&source, None, &folder.at("saved.db")).is_err());
        let left = std::fs::read_dir(&folder.0).unwrap().count();
        assert_eq!(left, 5);
    }
}

/// What a program that was killed had committed to its write-ahead log, and nobody has moved to the database since.
#[test]
fn a_write_ahead_log_is_saved_with_its_database() {
    let folder = Folder::new("wal");
    let (image, killed) = (folder.at("live.varve"), folder.at("killed.varve"));
    let store = Store::create(&image, Bytes(4 << 20), StoreOptions::default()).unwrap();
    let served = Served::new("salvage-wal", store).unwrap();
    let db = served.open("main").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)",
    )
    .unwrap();
    for a in 1..=60 {
        let text = format!("mark {a:04} ").repeat(250);
        db.execute("INSERT INTO t VALUES(?1, ?2)", (a, text)).unwrap();
        if a == 30 {
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
    }
    std::fs::copy(&image, &killed).unwrap();
    let count = |path: &Path| {
        let db = Connection::open(path).unwrap();
        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let saved = salvage(&Source::Image(killed), None, &folder.at("saved.db")).unwrap();
    assert_eq!((saved.why, &saved.lost[..]), (None, &[][..]));
    let log = folder.at("saved.db-wal");
    assert_eq!(saved.beside, [(log.clone(), 0)]);
    let bytes = std::fs::metadata(&log).unwrap().len();
    assert!(bytes > 32 && (bytes - 32).is_multiple_of(24 + 4096), "{bytes}");
    assert_eq!(count(&folder.at("saved.db")), 60);
}
