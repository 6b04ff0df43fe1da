//! `varve sqlite measure` as a function: figures of one UPDATE are those of the table of VFS calls,
//! the database stays as it was, and advice follows from the rows.

use std::path::PathBuf;

use rusqlite::Connection;
use varve_sqlite_host::measure::{At, Report, Row, Wear, measure};
use varve_sqlite_vfs::vfs::Kind;

/// The table of the VFS calls: 1000 rows, an index, values of 1000 bytes.
fn database(name: &str, journal: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(name);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(folder.join(format!("{name}{suffix}")));
    }
    let db = Connection::open(&path).unwrap();
    db.query_row(&format!("PRAGMA journal_mode={journal}"), [], |_| Ok(())).unwrap();
    db.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, k INT, v BLOB);
         CREATE INDEX i ON t (k);
         WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000)
         INSERT INTO t SELECT x, x, zeroblob(1000) FROM n;",
    )
    .unwrap();
    db.close().unwrap();
    path
}

fn row<'a>(report: &'a Report, name: &str) -> &'a Row {
    report.rows.iter().find(|row| row.mode.name == name).unwrap()
}

#[test]
fn one_update_makes_the_calls_of_the_table() {
    let path = database("update.db", "delete");
    let before = std::fs::read(&path).unwrap();
    let report =
        measure(&path, "UPDATE t SET v = randomblob(1000) WHERE id = 500", None, None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before, "the database was changed");
    // Writes, bytes, syncs, deletes, and of the writes those to the database.
    for (name, expected) in [
        ("as it is", [10, 16_924, 3, 1, 2]),
        ("DELETE, FULL", [10, 16_924, 3, 1, 2]),
        ("store, pages", [2, 8192, 1, 0, 2]),
        ("store, pages, exclusive", [2, 8192, 1, 0, 2]),
        ("store, pages, grouped", [2, 8192, 1, 0, 2]),
    ] {
        let row = row(&report, name);
        let total = row.counts.total();
        let writes = row.counts.of(Kind::Database).writes;
        let found = [total.writes, total.bytes, total.syncs, total.deletes, writes];
        assert_eq!(found, expected, "{name}");
        assert_eq!(row.counts.transactions, 1, "{name}");
    }
    assert_eq!(row(&report, "DELETE, FULL").pages, 6, "3 of the journal, its first again, 2");
    assert_eq!(row(&report, "store, pages").pages, 2);
    assert!(
        report.advice().iter().any(|line| line.starts_with("store, pages: 66 % fewer pages; dur"))
    );
    // Under locking EXCLUSIVE page 1 is written by the first transaction only.
    let two = "UPDATE t SET v = randomblob(999) WHERE id = 5; UPDATE t SET v = NULL WHERE id = 5";
    let report = measure(&path, two, None, None).unwrap();
    let writes = ["store, pages", "store, pages, exclusive"].map(|name| row(&report, name).pages);
    assert_eq!(writes, [4, 3]);
}

#[test]
fn settings_that_are_good_already_are_said_to_be() {
    let path = database("wal.db", "wal");
    let mut work = String::new();
    for n in 0..300 {
        work += &format!("UPDATE t SET v = randomblob(1000) WHERE id = {};", 1 + n % 8);
    }
    let report = measure(&path, &work, None, None).unwrap();
    let [base, delete, wal, normal] = ["as it is", "DELETE, FULL", "WAL, FULL", "WAL, NORMAL"]
        .map(|name| row(&report, name).pages);
    assert_eq!(base, wal, "a WAL database as it is");
    assert!(normal < wal && wal < delete, "{normal} {wal} {delete}");
    assert!(row(&report, "store, pages, grouped").pages * 20 < normal);
    for row in &report.rows {
        assert_eq!(row.counts.transactions, 300, "{}", row.mode.name);
    }
    let text = report.text(None);
    assert!(text.contains("none is torn") && text.contains("WAL, NORMAL"), "{text}");
    let json = report.json("1", "wal.db", "work.sql").pretty();
    assert!(json.contains("\"schema\": \"varve.sqlite-measure/1\""), "{json}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_reason() {
    let path = database("refused.db", "delete");
    for (sql, reason) in [
        ("UPDATE absent SET v = 1", "no such table"),
        ("BEGIN; UPDATE t SET k = 1 WHERE id = 3", "ends inside a transaction"),
    ] {
        let error = measure(&path, sql, None, None).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let missing = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("missing.db");
    assert!(measure(&missing, "SELECT 1", None, None).is_err());
    assert!(!missing.exists());
}

/// Where nobody else writes, if this is root; else the device of the folder for tests, with whatever others write.
fn somewhere() -> At {
    match std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) {
        0 => At::Loop,
        _ => At::Folder(env!("CARGO_TARGET_TMPDIR").into()),
    }
}

#[test]
fn on_a_device_each_way_costs_what_the_kernel_counts() {
    let path = database("device.db", "delete");
    let work: String = (0..60)
        .map(|n| format!("UPDATE t SET v = randomblob(1000) WHERE id = {};", 1 + n * 7 % 1000))
        .collect();
    let at = somewhere();
    let report = measure(&path, &work, None, Some(&at)).unwrap();
    let (there, rows) = report.device.as_ref().unwrap();
    assert_eq!((there, rows.len()), (&at, 9));
    let of = |name: &str| rows.iter().find(|row| row.way.name == name).unwrap().written;
    // Each page that SQLite syncs is there, the file system's own blocks besides; a durable COMMIT is a flush.
    for name in ["as it is", "DELETE, FULL", "WAL, FULL"] {
        let (real, counted) = (of(name), row(&report, name).pages * 4096);
        assert!(real.bytes >= counted, "{name}: {real:?}, {counted} counted");
        assert!(real.flushes >= 60, "{name}: {real:?}");
    }
    for name in ["store", "store, exclusive"] {
        assert!(of(name).flushes >= 60, "{name}: {:?}", of(name));
    }
    assert!(of("store").bytes < of("DELETE, FULL").bytes, "{rows:?}");
    if at == At::Loop {
        assert!(of("WAL, NORMAL").flushes < 30, "{:?}", of("WAL, NORMAL"));
        // 1,000 bytes that changed, and a record's header: one page for each of the 60; then the pages in their places.
        assert!(of("store").bytes < 60 * 4096 * 2 + (400 << 10), "{:?}", of("store"));
    }
    let wear = Wear { a_day: 86_400, card: Some((block::Bytes(32 << 30), 3000)) };
    let text = report.text(Some(&wear));
    assert!(text.contains("GB a day") && text.contains("years at most"), "{text}");
    let json = report.json("1", "device.db", "work.sql").pretty();
    assert!(json.contains("\"flushes\""), "{json}");
    let left: Vec<_> = std::fs::read_dir(std::env::temp_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(&format!("varve-measure-{}-", std::process::id())))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_folder_on_no_device_is_refused() {
    let path = database("nowhere.db", "delete");
    let refused = measure(&path, "SELECT 1", None, Some(&At::Folder("/dev/shm".into())));
    let reason = refused.unwrap_err().to_string();
    assert!(reason.contains("/dev/shm") && reason.contains("no block device"), "{reason}");
    let missing = measure(&path, "SELECT 1", None, Some(&At::Folder("/no/such".into())));
    assert!(missing.unwrap_err().to_string().contains("/no/such"));
}
