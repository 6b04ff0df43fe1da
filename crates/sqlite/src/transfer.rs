//! Databases into stores and out of them, whole and checked.
//!
//! Invariants: the source is read under its own lock and never changed; what is written is compared
//! with what was read, page by page, and passes SQLite's integrity check; a file appears under its
//! name only after that, and is durable then.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use lab::LabError;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

/// What was moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Bytes of the database.
    pub bytes: u64,
    /// Bytes of a page.
    pub page: u64,
}

/// Bytes of the header that say how and how often the file is written, not what it holds: file
/// format versions, change counter, schema cookie, and the counter's and library's stamps.
const STAMPS: [std::ops::Range<usize>; 4] = [18..20, 24..28, 40..44, 92..100];

fn input(what: impl std::fmt::Display) -> impl Fn(rusqlite::Error) -> LabError {
    move |error| LabError::Input(format!("{what}: {error}"))
}

fn wrong(what: String) -> LabError {
    LabError::Check { contract: "served".to_string(), what }
}

fn page_size(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row("PRAGMA page_size", [], |row| row.get(0))
}

pub(crate) fn intact(db: &Connection, what: &str) -> Result<(), LabError> {
    let found: String =
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(input(what))?;
    if found == "ok" { Ok(()) } else { Err(wrong(format!("{what}: integrity check: {found}"))) }
}

/// The first page that differs, of two images with pages of a size.
fn differs(a: &[u8], b: &[u8], page: u64) -> Option<u64> {
    if a.len() != b.len() {
        return Some(a.len().min(b.len()) as u64 / page + 1);
    }
    let stamp = |at: usize| STAMPS.iter().any(|range| range.contains(&at));
    let at = (0..a.len()).find(|at| a[*at] != b[*at] && !stamp(*at))?;
    Some(at as u64 / page + 1)
}

/// Copies the database of a file into an empty one of a store. A WAL database becomes one in
/// DELETE mode.
///
/// # Errors
/// A file that cannot be read, a store that refuses or already holds a database, a copy that is
/// not what was read.
pub fn import(database: &Path, into: &mut Connection) -> Result<Moved, LabError> {
    let name = database.display();
    let mut from = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(input(&name))?;
    let there: u64 = into
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(input("the store"))?;
    if there > 0 {
        return Err(LabError::Input("the store holds a database already".to_string()));
    }
    // One view of the source for the copy and for the comparison.
    from.execute_batch("BEGIN").map_err(input(&name))?;
    from.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map_err(input(&name))?;
    let work = Backup::new(&from, into).map_err(input("the store"))?;
    work.step(-1).map_err(input("the store"))?;
    drop(work);
    into.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(())).map_err(input("the store"))?;
    let page = page_size(&from).map_err(input(&name))?;
    let read = from.serialize("main").map_err(input(&name))?;
    let kept = into.serialize("main").map_err(input("the store"))?;
    if let Some(page) = differs(&read, &kept, page) {
        return Err(wrong(format!("{name}: page {page} is another in the store")));
    }
    let bytes = read.len() as u64;
    drop(kept);
    intact(into, "the store")?;
    Ok(Moved { bytes, page })
}

/// Copies a database into an empty one, in DELETE mode.
///
/// # Errors
/// One that cannot be read or written, a copy that is not what was read.
pub fn copy(from: &mut Connection, into: &mut Connection) -> Result<(), LabError> {
    // One view of it for the copy and for the comparison.
    from.execute_batch("BEGIN").map_err(input("the store"))?;
    from.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map_err(input("the store"))?;
    let work = Backup::new(&*from, into).map_err(input("the copy"))?;
    let copied = work.step(-1);
    drop(work);
    if let Err(error) = copied {
        // SQLite does not say which of the two it is.
        intact(from, "the store")?;
        return Err(input("the copy")(error));
    }
    into.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(())).map_err(input("the copy"))?;
    let page = page_size(from).map_err(input("the store"))?;
    let read = from.serialize("main").map_err(input("the store"))?;
    let kept = into.serialize("main").map_err(input("the copy"))?;
    if let Some(page) = differs(&read, &kept, page) {
        return Err(wrong(format!("page {page} is another in the copy")));
    }
    drop(kept);
    intact(into, "the copy")
}

/// Writes the database of a store to a new file, byte for byte.
///
/// # Errors
/// A file that is there already or cannot be written, a database that is not intact.
pub fn export(from: &mut Connection, database: &Path) -> Result<Moved, LabError> {
    if database.exists() {
        let reason = format!("{}: exists already", database.display());
        return Err(LabError::Input(reason));
    }
    intact(from, "the store")?;
    let page = page_size(from).map_err(input("the store"))?;
    let image = from.serialize("main").map_err(input("the store"))?;
    let temporary = beside(database);
    let done = write(&temporary, &image).and_then(|()| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let copy =
            Connection::open_with_flags(&temporary, flags).map_err(input(temporary.display()))?;
        intact(&copy, "the file")?;
        drop(copy);
        std::fs::rename(&temporary, database).map_err(|e| LabError::io(database, e))
    });
    if done.is_err() {
        // The reason is what the caller needs; a file that cannot be removed either tells no more.
        let _ = std::fs::remove_file(&temporary);
    }
    done?;
    sync_folder(database)?;
    Ok(Moved { bytes: image.len() as u64, page })
}

/// Makes the names in a file's folder durable.
pub(crate) fn sync_folder(file: &Path) -> Result<(), LabError> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|e| LabError::io(folder, e))
}

/// The database of a connection as one piece.
pub(crate) fn serialized(db: &mut Connection, what: &str) -> Result<Vec<u8>, LabError> {
    Ok(db.serialize("main").map_err(input(what))?.to_vec())
}

/// A name of its own beside a file's.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write(path: &Path, image: &[u8]) -> Result<(), LabError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| {
        file.write_all(image)?;
        file.sync_all()
    })
    .map_err(|e| LabError::io(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_that_differs_is_named_and_stamps_are_not_content() {
        let image = vec![7u8; 8192];
        assert_eq!(differs(&image, &image, 4096), None);
        for (at, found) in [(18, None), (27, None), (95, None), (100, Some(1)), (5000, Some(2))] {
            let mut other = image.clone();
            other[at] = 8;
            assert_eq!(differs(&image, &other, 4096), found, "byte {at}");
        }
        assert_eq!(differs(&image, &image[..4096], 4096), Some(2));
    }
}
