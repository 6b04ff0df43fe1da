//! What several tests need: the API of the bundled SQLite, folders that vanish, small questions.

#![allow(dead_code)] // Each test uses its part.

pub mod crash;
pub mod cut;
pub mod flash;
pub mod full;
pub mod image;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, OpenFlags, ffi};
use varve_sqlite_vfs::Api;

pub fn api() -> Api {
    Api::new(
        ffi::sqlite3_vfs_find,
        ffi::sqlite3_vfs_register,
        ffi::sqlite3_uri_parameter,
        ffi::sqlite3_malloc,
        ffi::sqlite3_log,
    )
}

static NAMES: AtomicU32 = AtomicU32::new(0);

/// A name nobody else in this process has.
pub fn unique(what: &str) -> String {
    format!("{what}-{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

/// A folder that is removed with its contents.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let path = std::env::temp_dir().join(unique("varve-sqlite-vfs"));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn open(path: &str, vfs: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags_and_vfs(path, flags, vfs)
}

/// The first column of the first row as a text, or the error.
pub fn ask(db: &Connection, sql: &str) -> String {
    let row = db.query_row(sql, [], |row| {
        let value: rusqlite::types::Value = row.get(0)?;
        Ok(match value {
            rusqlite::types::Value::Integer(n) => n.to_string(),
            rusqlite::types::Value::Real(x) => x.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        })
    });
    row.unwrap_or_else(|error| format!("error: {error}"))
}

/// Whether this SQLite was built to use BATCH_ATOMIC.
pub fn batches() -> bool {
    let db = Connection::open_in_memory().unwrap();
    ask(&db, "SELECT sqlite_compileoption_used('ENABLE_BATCH_ATOMIC_WRITE')") == "1"
}
