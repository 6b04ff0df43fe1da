//! Into a store and out again: the same bytes, or a reason.

use std::path::PathBuf;

use block::{RamDevice, Sectors};
use rusqlite::{Connection, OpenFlags};
use varve_sqlite_host::files::api;
use varve_sqlite_host::transfer::{Moved, export, import};
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.clone().into_os_string();
        file.push(suffix);
        let _ = std::fs::remove_file(file);
    }
    path
}

fn source(name: &str, journal: &str, page: u32) -> PathBuf {
    let path = path(name);
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!("PRAGMA page_size={page}")).unwrap();
    db.query_row(&format!("PRAGMA journal_mode={journal}"), [], |_| Ok(())).unwrap();
    db.execute_batch(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
         WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000)
         INSERT INTO a SELECT x, 'value ' || x FROM n;
         CREATE TABLE b AS SELECT * FROM a WHERE id % 7 = 0; DELETE FROM a WHERE id % 3 = 0;",
    )
    .unwrap();
    db.close().unwrap();
    path
}

/// A connection to an empty store, over a VFS of this name.
fn store(vfs: &str) -> Connection {
    let device = RamDevice::new(Sectors(8 * 8192));
    let store = Store::format(Box::new(device), StoreOptions::default()).unwrap();
    let stores = Stores::new();
    stores.register(&api(), vfs, false, None).unwrap();
    stores.add("/kept", &store);
    Connection::open_with_flags_and_vfs("/kept", OpenFlags::default(), vfs).unwrap()
}

fn rows(db: &Connection) -> Vec<(i64, String)> {
    let mut select = db.prepare("SELECT * FROM a UNION ALL SELECT * FROM b").unwrap();
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_database_goes_into_a_store_and_comes_out_as_it_was() {
    for (journal, page) in [("delete", 4096), ("wal", 4096), ("delete", 1024)] {
        let name = format!("transfer-{journal}-{page}");
        let from = source(&format!("{name}.db"), journal, page);
        let before = std::fs::read(&from).unwrap();
        let mut kept = store(&name);
        let moved = Moved::from(&import(&from, &mut kept).unwrap());
        assert_eq!((moved.bytes, moved.page), (before.len() as u64, u64::from(page)), "{name}");
        assert_eq!(std::fs::read(&from).unwrap(), before, "{name}: the source was changed");
        let mode: String = kept.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete", "{name}");

        let to = path(&format!("{name}-out.db"));
        assert_eq!(export(&kept, &to).unwrap(), moved, "{name}");
        let out = Connection::open(&to).unwrap();
        assert_eq!(rows(&out), rows(&Connection::open(&from).unwrap()), "{name}");
        assert_eq!(rows(&out).len(), 2000 + 428, "{name}");
        let image = std::fs::read(&to).unwrap();
        assert_eq!(image[100..], before[100..], "{name}");
    }
}

#[test]
fn nothing_is_overwritten() {
    let from = source("transfer-refused.db", "delete", 4096);
    let mut kept = store("transfer-refused");
    import(&from, &mut kept).unwrap();
    let again = import(&from, &mut kept).unwrap_err().to_string();
    assert!(again.contains("already"), "{again}");
    let before = std::fs::read(&from).unwrap();
    let over = export(&kept, &from).unwrap_err().to_string();
    assert!(over.contains("exists already"), "{over}");
    assert_eq!(std::fs::read(&from).unwrap(), before);
    let missing = path("transfer-missing.db");
    assert!(import(&missing, &mut store("transfer-missing")).is_err());
    assert!(!missing.exists());
}
