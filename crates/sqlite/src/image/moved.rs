//! Databases into images and out of stores, images into larger ones and into copies.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use block::{BlockDevice, Bytes};
use lab::LabError;
use live::{ImageDrive, LiveError};
use rusqlite::{Connection, OpenFlags};
use varve_sqlite_vfs::{FIRST_CAPACITY, OpenError, Store, StoreError, StoreOptions, USUAL_LIMIT};

use super::served::databases;
use super::sound::check_file;
use super::{Served, at_one_moment, refused, unusable};
use crate::files::Sums;
use crate::source::Source;
use crate::transfer::{self, Moved, beside, sync_folder};

/// Room for each byte of the database: a store a sixth full writes least (`scripts/store-bytes`); in a fuller one
/// cleaning adds to it.
const ROOM: u64 = 6;
/// What a store holds is a multiple of this, whatever the pages of the database are.
const GRAIN: u64 = 1 << 20;

/// Removes a file that did not become what it should, whatever happens to whoever made it.
pub(super) struct Temporary(pub(super) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It has its final name, or the error on its way says more than one of the removal would.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bytes_of(database: &Path) -> Result<u64, LabError> {
    let wrong = |error| LabError::Input(format!("{}: {error}", database.display()));
    let db =
        Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrong)?;
    let get = |pragma: &str| {
        db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, u64>(0)).map_err(wrong)
    };
    Ok(get("page_count")? * get("page_size")?)
}

/// A copy of a database with pages of another size, beside `to`.
fn resized(database: &Path, to: &Path, page: u32) -> Result<Temporary, LabError> {
    let wrong = |error| LabError::Input(format!("{}: {error}", database.display()));
    let copy = Temporary(beside(&to.with_extension("pages")));
    let db =
        Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(wrong)?;
    db.execute_batch(&format!("PRAGMA page_size={page}")).map_err(wrong)?;
    let name = copy.0.to_str().ok_or_else(|| {
        LabError::Input(format!("{}: expected a name in UTF-8", copy.0.display()))
    })?;
    db.execute("VACUUM INTO ?1", [name]).map_err(wrong)?;
    Ok(copy)
}

/// What an import made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The database.
    pub moved: Moved,
    /// Bytes the store can hold.
    pub capacity: Bytes,
    /// Bytes of the image file.
    pub image: Bytes,
}

/// Puts a database into a new store in an image file. With `page`, its pages get that size;
/// `capacity`: bytes the store can hold, for good, else six times the database and at least what a new store holds, and it may grow.
///
/// # Errors
/// A database that cannot be read, an image that cannot be made or is there already, a copy that
/// is not what was read. Nothing is left behind.
pub fn import(
    database: &Path,
    image: &Path,
    page: Option<u32>,
    capacity: Option<Bytes>,
) -> Result<Imported, LabError> {
    if image.exists() {
        return Err(LabError::Input(format!("{}: exists already", image.display())));
    }
    match std::fs::metadata(database) {
        Ok(there) if there.is_file() && there.len() == 0 => {
            let what = "an empty database, of which nothing is to be moved: a store is made by who opens it";
            return Err(LabError::Input(format!("{}: {what}", database.display())));
        }
        Ok(there) if there.is_file() => {}
        Ok(_) => return Err(LabError::Input(format!("{}: not a file", database.display()))),
        Err(error) => return Err(LabError::io(database, error)),
    }
    let copy = page.map(|page| resized(database, image, page)).transpose()?;
    let database = copy.as_ref().map_or(database, |copy| &copy.0);
    let bytes = bytes_of(database)?;
    // One that is told how large it is stays so.
    let (limit, usual) = (capacity.is_none().then_some(USUAL_LIMIT), capacity.is_none());
    let capacity =
        capacity.unwrap_or(Bytes((ROOM * bytes).next_multiple_of(GRAIN).max(FIRST_CAPACITY.0)));
    if capacity.0 < bytes {
        return Err(LabError::Input(format!(
            "capacity {}: expected at least the {} of the database",
            capacity.human(),
            Bytes(bytes).human()
        )));
    }
    let temporary = Temporary(beside(image));
    let name = temporary.0.display().to_string();
    let options =
        StoreOptions { limit: limit.map(|limit| limit.max(capacity)), ..StoreOptions::default() };
    let store = Store::create(&temporary.0, capacity, options).map_err(|error| match error {
        OpenError::Image(LiveError::Io { error, .. })
            if usual && error.kind() == ErrorKind::StorageFull =>
        {
            LabError::Input(format!(
                "{}: the file system has no room for an image that holds {}, {ROOM} times the database: \
                 --capacity {} or more takes less, and writes more later",
                image.display(),
                capacity.human(),
                Bytes((2 * bytes).next_multiple_of(GRAIN)).human()
            ))
        }
        error => refused(error),
    })?;
    let served = Served::new(&name, store)?;
    let mut into = served.open("main")?;
    let written = transfer::import(database, &mut into)?;
    into.close().map_err(|(_, error)| LabError::Failed(error.to_string()))?;
    served.store().flush().map_err(|error| LabError::Failed(error.to_string()))?;
    drop(served);
    // What counts is what the next one to open it finds.
    let store = Store::open(&temporary.0, StoreOptions::default()).map_err(refused)?;
    let served = Served::new(&name, store)?;
    let again = served.open("main")?;
    if Sums::of(&again, "the store")? != written {
        let what = "the store holds another database when it is opened again".to_string();
        return Err(LabError::Check { contract: "served".to_string(), what });
    }
    transfer::intact(&again, "the store")?;
    drop(again);
    drop(served);
    let file = std::fs::File::open(&temporary.0).map_err(|e| LabError::io(&temporary.0, e))?;
    file.sync_all().map_err(|e| LabError::io(&temporary.0, e))?;
    let image_bytes = file.metadata().map_err(|e| LabError::io(&temporary.0, e))?.len();
    std::fs::rename(&temporary.0, image).map_err(|e| LabError::io(image, e))?;
    sync_folder(image)?;
    let moved = Moved::from(&written);
    Ok(Imported { moved, capacity, image: Bytes(image_bytes) })
}

/// Writes the database of a store to a new file, page for page: the only one, or `main`.
///
/// # Errors
/// As [`export_named`].
pub fn export(source: impl Into<Source>, database: &Path) -> Result<Moved, LabError> {
    export_named(&source.into(), None, database)
}

/// The same of the database that is named.
///
/// # Errors
/// What holds no store or no such database, a file that is there already or cannot be written.
pub fn export_named(
    source: &Source,
    name: Option<&str>,
    database: &Path,
) -> Result<Moved, LabError> {
    if database.exists() {
        return Err(LabError::Input(format!("{}: exists already", database.display())));
    }
    source.with_store(|served| export_from(served, source, name, database))
}

/// What a backup made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Databases, by object, with their bytes.
    pub databases: Vec<(String, u64)>,
    /// Bytes of the image file.
    pub image: Bytes,
}

/// Puts all databases of an image, which another process may be writing, into a new image of its capacity.
///
/// # Errors
/// An image that cannot be read, a copy that is there already or cannot be made, one that is not what was read. Nothing
/// is left behind.
pub fn backup(image: &Path, copy: &Path) -> Result<Copied, LabError> {
    if copy.exists() {
        return Err(LabError::Input(format!("{}: exists already", copy.display())));
    }
    let drive = ImageDrive::open_beside(image).map_err(unusable)?;
    let (capacity, limit) = (drive.capacity().bytes(), drive.limit());
    let temporary = Temporary(beside(copy));
    let databases = at_one_moment(image, |served| {
        // An attempt before this one has left its own.
        let _ = std::fs::remove_file(&temporary.0);
        let options = StoreOptions { limit: Some(limit), ..StoreOptions::default() };
        let store = Store::create(&temporary.0, capacity, options).map_err(refused)?;
        let made = Served::new(&temporary.0.display().to_string(), store)?;
        let databases = databases(served.store());
        for (name, _) in &databases {
            let (from, mut into) = (served.open(name)?, made.open(name)?);
            transfer::copy((&from, "the store"), (&mut into, "the copy"))?;
        }
        made.store().flush().map_err(|error| LabError::Failed(error.to_string()))?;
        Ok(databases)
    })?;
    let file = std::fs::File::open(&temporary.0).map_err(|e| LabError::io(&temporary.0, e))?;
    file.sync_all().map_err(|e| LabError::io(&temporary.0, e))?;
    let bytes = file.metadata().map_err(|e| LabError::io(&temporary.0, e))?.len();
    std::fs::rename(&temporary.0, copy).map_err(|e| LabError::io(copy, e))?;
    sync_folder(copy)?;
    Ok(Copied { databases, image: Bytes(bytes) })
}

/// What a resize made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resized {
    /// Bytes the store could hold.
    pub before: Bytes,
    /// Bytes of the image file.
    pub image: Bytes,
}

/// Lets the store in an image hold `capacity` bytes. Whatever ends it, the image is as it was, or holds as much.
///
/// # Errors
/// An image that cannot be opened, or holds more already; no room; one that is not sound when it was done.
pub fn resize(image: &Path, capacity: Bytes) -> Result<Resized, LabError> {
    let store = Store::open(image, StoreOptions::default()).map_err(refused)?;
    let before = store.with_device(|device| device.capacity().bytes());
    if capacity <= before {
        return Err(LabError::Input(format!(
            "{}: it holds {}: expected more, a store does not become smaller",
            image.display(),
            before.human()
        )));
    }
    // Whether there can be such a drive at all.
    ImageDrive::image_bytes(capacity).map_err(unusable)?;
    let wrong = |error: StoreError| LabError::Failed(format!("{}: {error}", image.display()));
    store.grow(capacity).map_err(wrong)?;
    store.flush().map_err(wrong)?;
    drop(store);
    check_file(image)?;
    let bytes = std::fs::metadata(image).map_err(|e| LabError::io(image, e))?.len();
    Ok(Resized { before, image: Bytes(bytes) })
}

fn export_from(
    served: &Served,
    source: &Source,
    name: Option<&str>,
    database: &Path,
) -> Result<Moved, LabError> {
    transfer::export(&served.open(&meant(served, source, name)?)?, database)
}

/// The database of a store that is meant: the one of that name, the only one, or `main`.
pub(super) fn meant(
    served: &Served,
    source: &Source,
    name: Option<&str>,
) -> Result<String, LabError> {
    let found = databases(served.store());
    let named = |wanted: &str| found.iter().find(|(name, _)| name == wanted);
    let meant = match (name, &found[..]) {
        (Some(name), _) => named(name),
        (None, [only]) => Some(only),
        (None, _) => named("main"),
    };
    let Some((object, _)) = meant else {
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        return Err(LabError::Input(format!(
            "{source}: found databases [{}], expected {}",
            names.join(", "),
            name.unwrap_or("`main`, or a name of one of them")
        )));
    };
    Ok(object.clone())
}
