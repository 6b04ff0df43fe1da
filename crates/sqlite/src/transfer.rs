//! Databases into stores and out of them, whole and checked.
//!
//! Invariants: the source is read under its own lock and never changed; what is written is compared
//! with what was read, page by page, and passes SQLite's integrity check; a file appears under its
//! name only after that, and is durable then.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use lab::LabError;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use crate::files::Sums;

/// What was moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Bytes of the database.
    pub bytes: u64,
    /// Bytes of a page.
    pub page: u64,
}

impl From<&Sums> for Moved {
    fn from(sums: &Sums) -> Moved {
        Moved { bytes: sums.bytes(), page: sums.page() }
    }
}

fn input(what: impl std::fmt::Display) -> impl Fn(rusqlite::Error) -> LabError {
    move |error| LabError::Input(format!("{what}: {error}"))
}

fn wrong(what: String) -> LabError {
    LabError::Check { contract: "served".to_string(), what }
}

pub(crate) fn intact(db: &Connection, what: &str) -> Result<(), LabError> {
    let found: String =
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(input(what))?;
    if found == "ok" { Ok(()) } else { Err(wrong(format!("{what}: integrity check: {found}"))) }
}

/// A connection, and what it is to the one who is told of an error.
type Named<'a, T> = (T, &'a str);

/// Copies a database into an empty one, in DELETE mode.
///
/// # Errors
/// One that cannot be read or written, a copy that is not what was read.
pub fn copy(
    (from, source): Named<'_, &Connection>,
    (into, target): Named<'_, &mut Connection>,
) -> Result<Sums, LabError> {
    // One view of it for the copy and for the comparison.
    from.execute_batch("BEGIN").map_err(input(source))?;
    from.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map_err(input(source))?;
    let work = Backup::new(from, into).map_err(input(target))?;
    let copied = work.step(-1);
    drop(work);
    if let Err(error) = copied {
        // SQLite does not say which of the two it is.
        intact(from, source)?;
        return Err(input(target)(error));
    }
    into.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(())).map_err(input(target))?;
    let (read, kept) = (Sums::of(from, source)?, Sums::of(into, target)?);
    if let Some(page) = read.differs(&kept) {
        return Err(wrong(format!("page {page} of {source} is another in {target}")));
    }
    intact(into, target)?;
    from.execute_batch("COMMIT").map_err(input(source))?;
    Ok(kept)
}

/// Copies the database of a file into an empty one of a store. A WAL database becomes one in
/// DELETE mode.
///
/// # Errors
/// A file that cannot be read, a store that refuses or already holds a database, a copy that is
/// not what was read.
pub fn import(database: &Path, into: &mut Connection) -> Result<Sums, LabError> {
    let name = database.display().to_string();
    let from = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(input(&name))?;
    let there: u64 = into
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(input("the store"))?;
    if there > 0 {
        return Err(LabError::Input("the store holds a database already".to_string()));
    }
    copy((&from, &name), (into, "the store"))
}

/// Writes the database of a store to a new file, page for page, in DELETE mode.
///
/// # Errors
/// A file that is there already or cannot be written, a database that is not intact.
pub fn export(from: &Connection, database: &Path) -> Result<Moved, LabError> {
    if database.exists() {
        let reason = format!("{}: exists already", database.display());
        return Err(LabError::Input(reason));
    }
    intact(from, "the store")?;
    let temporary = beside(database);
    let done = written(from, &temporary).and_then(|sums| {
        std::fs::rename(&temporary, database).map_err(|e| LabError::io(database, e))?;
        Ok(sums)
    });
    if done.is_err() {
        // The reason is what the caller needs; a file that cannot be removed either tells no more.
        let _ = std::fs::remove_file(&temporary);
    }
    let sums = done?;
    sync_folder(database)?;
    Ok(Moved::from(&sums))
}

/// A database in a new file of a name that nobody else uses; durable, without its name.
fn written(from: &Connection, file: &Path) -> Result<Sums, LabError> {
    let name = file.display().to_string();
    let failed = |e| LabError::io(file, e);
    File::create_new(file).map_err(failed)?;
    let mut into = Connection::open(file).map_err(input(&name))?;
    // Whatever ends it, the file is removed: it needs no journal, and is synced once.
    into.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF").map_err(input(&name))?;
    let sums = copy((from, "the store"), (&mut into, "the file"))?;
    into.close().map_err(|(_, error)| input(&name)(error))?;
    File::open(file).and_then(|file| file.sync_all()).map_err(failed)?;
    Ok(sums)
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

/// A name of its own beside a file's.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}
