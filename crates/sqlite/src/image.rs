//! Databases into image files and out of them, and out of other stores.
//!
//! Invariants: an image appears under its name only when its store was closed, opened again and
//! found to hold what was read; nothing that exists is overwritten; a store is opened only for as
//! long as a command works on it.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{BlockDevice, Bytes};
use lab::LabError;
use live::{ImageDrive, LiveError, patiently};
use rusqlite::{Connection, OpenFlags};
use varve_sqlite_vfs::{
    FIRST_CAPACITY, OpenError, RegisterError, Store, StoreError, StoreOptions, Stores, USUAL_LIMIT,
};

use wire::nvme::DriveError;

use crate::files::api;
use crate::source::Source;
use crate::transfer::{self, Moved, beside, sync_folder};

const VFS: &str = "varve-image";
/// Room for each byte of the database: a store a sixth full writes least (`scripts/store-bytes`); in a fuller one
/// cleaning adds to it.
const ROOM: u64 = 6;
/// What a store holds is a multiple of this, whatever the pages of the database are.
const GRAIN: u64 = 1 << 20;

static STORES: LazyLock<Result<Stores, RegisterError>> = LazyLock::new(|| {
    let stores = Stores::new();
    stores.register(&api(), VFS, false, None)?;
    Ok(stores)
});

static READERS: AtomicU64 = AtomicU64::new(0);

/// A store under a name of this process, until it is dropped.
pub struct Served {
    name: String,
    store: Store,
}

impl Served {
    /// Serves `store` under `name`, which must be nobody else's.
    ///
    /// # Errors
    /// A VFS that SQLite does not take.
    pub fn new(name: &str, store: Store) -> Result<Served, LabError> {
        let stores = STORES.as_ref().map_err(|e| LabError::Failed(e.to_string()))?;
        let name = format!("/image/{name}");
        stores.add(&name, &store);
        Ok(Served { name, store })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Opens the database of an object.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(&self, object: &str) -> Result<Connection, LabError> {
        let path = match object {
            "main" => self.name.clone(),
            other => format!("{}/{other}", self.name),
        };
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), VFS)
            .map_err(|error| LabError::Input(format!("object {object}: {error}")))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Ok(stores) = &*STORES {
            stores.remove(&self.name);
        }
    }
}

/// Why an image cannot be used, with the exit code that says so.
pub fn refused(error: OpenError) -> LabError {
    match error {
        OpenError::Image(error) => unusable(error),
        OpenError::Far(error @ DriveError::Unfit { .. }) => LabError::Input(error.to_string()),
        OpenError::Far(error) => LabError::Failed(error.to_string()),
        OpenError::Store { path, error } => not_mounted(&path, error),
    }
}

/// The same for the store in it.
fn not_mounted(name: &str, error: StoreError) -> LabError {
    let what = format!("{name}: {error}");
    match error {
        StoreError::Damaged(_) => LabError::Check { contract: "C6".to_string(), what },
        _ => LabError::Input(what),
    }
}

/// The same for its drive.
pub fn unusable(error: LiveError) -> LabError {
    match error {
        LiveError::Io { path, error } => LabError::Io { path, source: error },
        LiveError::Config(error) => LabError::Config(error),
        error @ LiveError::NotAnImage { .. } => LabError::Input(error.to_string()),
        error @ LiveError::Damaged { .. } => {
            LabError::Check { contract: "C6".to_string(), what: error.to_string() }
        }
        error => LabError::Failed(error.to_string()),
    }
}

/// Removes a file that did not become what it should, whatever happens to whoever made it.
struct Temporary(PathBuf);

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
    if !database.is_file() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(LabError::io(database, missing));
    }
    let copy = page.map(|page| resized(database, image, page)).transpose()?;
    let database = copy.as_ref().map_or(database, |copy| &copy.0);
    let bytes = bytes_of(database)?;
    // One that is told how large it is stays so.
    let limit = capacity.is_none().then_some(USUAL_LIMIT);
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
    let store = Store::create(&temporary.0, capacity, options).map_err(refused)?;
    let served = Served::new(&name, store)?;
    let mut into = served.open("main")?;
    let moved = transfer::import(database, &mut into)?;
    let written = transfer::serialized(&mut into, "the store")?;
    into.close().map_err(|(_, error)| LabError::Failed(error.to_string()))?;
    served.store().flush().map_err(|error| LabError::Failed(error.to_string()))?;
    drop(served);
    // What counts is what the next one to open it finds.
    let store = Store::open(&temporary.0, StoreOptions::default()).map_err(refused)?;
    let served = Served::new(&name, store)?;
    let mut again = served.open("main")?;
    if transfer::serialized(&mut again, "the store")? != written {
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
    Ok(Imported { moved, capacity, image: Bytes(image_bytes) })
}

/// Writes the database of a store to a new file, byte for byte: the only one, or `main`.
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

/// Does something with the store of an image that another process may be writing, as it was at one moment; anew if
/// the writer has reused meanwhile what was read.
pub(crate) fn at_one_moment<T>(
    image: &Path,
    mut body: impl FnMut(&Served) -> Result<T, LabError>,
) -> Result<T, LabError> {
    let attempt = || {
        let served =
            Store::open_beside(image, StoreOptions::default()).map_err(refused).and_then(|store| {
                // Others of this process may read the same image.
                let number = READERS.fetch_add(1, Ordering::Relaxed);
                Served::new(&format!("{}.{number}", image.display()), store)
            });
        let served = match served {
            Ok(served) => served,
            Err(error) => return Some(Err(error)),
        };
        match body(&served) {
            Err(_) if !served.store().is_unchanged() => None,
            done => Some(done),
        }
    };
    let restless = || Err(unusable(LiveError::Restless { path: image.to_path_buf() }));
    patiently(attempt).unwrap_or_else(restless)
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
            let mut from = served.open(name)?;
            let mut into = made.open(name)?;
            transfer::copy(&mut from, &mut into)?;
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
    let wrong = |error: StoreError| LabError::Failed(format!("{}: {error}", image.display()));
    store.grow(capacity).map_err(wrong)?;
    store.flush().map_err(wrong)?;
    drop(store);
    check_file(image)?;
    let bytes = std::fs::metadata(image).map_err(|e| LabError::io(image, e))?.len();
    Ok(Resized { before, image: Bytes(bytes) })
}

/// The databases of a store, by object, with their bytes: what lies beside them left away.
fn databases(store: &Store) -> Vec<(String, u64)> {
    let names = store.objects();
    let is_log = |name: &str| {
        ["-wal", "-journal"].iter().any(|end| {
            name.strip_suffix(end).is_some_and(|base| names.iter().any(|(name, _)| name == base))
        })
    };
    names.iter().filter(|(name, _)| !is_log(name)).cloned().collect()
}

fn export_from(
    served: &Served,
    source: &Source,
    name: Option<&str>,
    database: &Path,
) -> Result<Moved, LabError> {
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
    transfer::export(&mut served.open(object)?, database)
}

/// The drive of an image that is sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoundDrive {
    /// Pages of the drive that hold data, all read.
    pub pages: u64,
    /// Version of the image's format.
    pub version: u32,
}

/// What a store that is sound holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sound {
    /// Databases, by object, with their bytes.
    pub databases: Vec<(String, u64)>,
    /// Of an image, what was looked into below the store: of a namespace that is its server's.
    pub drive: Option<SoundDrive>,
    /// Bytes the store can hold, and those that it may hold one day.
    pub capacity: Bytes,
    /// See `capacity`.
    pub limit: Bytes,
}

impl Sound {
    /// How much it holds, for people.
    pub fn size(&self) -> String {
        match self.limit > self.capacity {
            true => format!("holds {}, grows to {}", self.capacity.human(), self.limit.human()),
            false => format!("holds {}", self.capacity.human()),
        }
    }

    /// What a check of an image of this version cannot see.
    pub fn blind(&self) -> Option<&'static str> {
        self.drive.is_some_and(|drive| drive.version < 2).then_some(
            "image version 1: zeroes over a block's header, and damage of the newest records of a block \
             that was not full when the image was last let go, cannot be told from pages never written; export and \
             import make an image of version 2, where they can",
        )
    }
}

/// Checks the drive of an image: its books, what is there twice, and every page that it holds.
///
/// # Errors
/// The first promise that does not hold.
pub fn check_drive(drive: &mut ImageDrive) -> Result<u64, LabError> {
    use block::{BlockDevice, Data, Lba, Request, Sectors};
    drive.drive().check().map_err(|broken| LabError::Check {
        contract: broken.contract.to_string(),
        what: broken.what,
    })?;
    if let Some(damage) = drive.damage().first() {
        let more = drive.damage().len() - 1;
        return Err(LabError::Check {
            contract: "C6".to_string(),
            what: format!(
                "{damage} ({more} more); nothing is lost yet: the next write to the image mends it"
            ),
        });
    }
    let mut page = [0; 4096];
    for number in 0..drive.capacity().0 / 8 {
        let at = drive.drive().now();
        let read = Request::read(Lba(8 * number), Sectors(8)).with(Data::Read(&mut page));
        drive.submit(at, read).map_err(|error| LabError::Check {
            contract: "C6".to_string(),
            what: format!("page {number} of the drive: {error}; expected what was written there"),
        })?;
    }
    Ok(drive.drive().stats().valid_units)
}

/// Checks the databases of a store: integrity and foreign keys.
///
/// # Errors
/// The first that is damaged.
pub fn check_store(served: &Served) -> Result<Vec<(String, u64)>, LabError> {
    let mut found = Vec::new();
    for (name, bytes) in &databases(served.store()) {
        let db = served.open(name)?;
        let wrong = |error: rusqlite::Error| LabError::Check {
            contract: "served".to_string(),
            what: format!("object {name}: {error}"),
        };
        let said: String =
            db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(wrong)?;
        if said != "ok" {
            return Err(LabError::Check {
                contract: "served".to_string(),
                what: format!("object {name}: integrity check: {said}"),
            });
        }
        let mut keys = db.prepare("PRAGMA foreign_key_check").map_err(wrong)?;
        if let Some(row) = keys.query([]).map_err(wrong)?.next().map_err(wrong)? {
            let table: String = row.get(0).map_err(wrong)?;
            return Err(LabError::Check {
                contract: "served".to_string(),
                what: format!("object {name}: table {table} breaks a foreign key"),
            });
        }
        found.push((name.clone(), *bytes));
    }
    Ok(found)
}

/// Version, capacity and limit.
fn what(drive: &ImageDrive) -> (u32, Bytes, Bytes) {
    (drive.version(), drive.capacity().bytes(), drive.limit())
}

/// Checks a store. An image may be written by another process meanwhile, and nothing is written to it; a store in a
/// namespace is opened as any program opens it, which ends what a power cut has left.
///
/// # Errors
/// What holds no store; the first promise that does not hold.
pub fn check(source: impl Into<Source>) -> Result<Sound, LabError> {
    let source = source.into();
    match &source {
        Source::Image(image) => check_file(image),
        Source::Namespace(_) => source.with_store(|served| {
            let databases = check_store(served)?;
            let capacity = served.store().with_device(|device| device.capacity().bytes());
            Ok(Sound { databases, drive: None, capacity, limit: capacity })
        }),
    }
}

fn check_file(image: &Path) -> Result<Sound, LabError> {
    let drive = || {
        let mut drive = match ImageDrive::open_beside(image).map_err(unusable) {
            Ok(drive) => drive,
            Err(error) => return Some(Err(error)),
        };
        let moment = drive.moment()?;
        moment.settle(None);
        match check_drive(&mut drive) {
            Err(_) if !moment.is_unchanged() => None,
            done => Some(done.map(|pages| (pages, what(&drive)))),
        }
    };
    let restless = || Err(unusable(LiveError::Restless { path: image.to_path_buf() }));
    let (pages, (version, capacity, limit)) = patiently(drive).unwrap_or_else(restless)?;
    let databases = at_one_moment(image, check_store)?;
    Ok(Sound { databases, drive: Some(SoundDrive { pages, version }), capacity, limit })
}

/// Checks the image of a drive; `name` is what it is called.
///
/// # Errors
/// The first promise that does not hold.
pub fn check_image(mut drive: ImageDrive, name: &str) -> Result<Sound, LabError> {
    let (pages, (version, capacity, limit)) = (check_drive(&mut drive)?, what(&drive));
    let store = Store::mount_image(drive, StoreOptions::default())
        .map_err(|error| not_mounted(name, error))?;
    let databases = check_store(&Served::new(name, store)?)?;
    Ok(Sound { databases, drive: Some(SoundDrive { pages, version }), capacity, limit })
}
