//! The images of a VFS: which of them are open in this process, and how one comes to be.
//!
//! Invariants:
//! * an image is open once in a process, however many connections it has there, and let go with the last of them;
//! * one that another process has is `SQLITE_BUSY`, and nothing of it was read or written;
//! * a database is opened in the file that has the name now: one that was moved away, removed or replaced since is only known to
//!   the connections that it has.

use std::ffi::c_int;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use wire::nvme::Place;

use super::asked::Asked;
use super::far::{name_of, object_at};
use super::file::{StoreFile, works_on};
use super::table::LONGEST_NAME;
use super::vfs::Stores;
use super::{OpenError, Store};
use crate::abi::PerProcess;
use crate::vfs::{Answer, Code, Kind, flag};

pub(super) struct Images {
    pub(super) stores: Stores,
    /// Those that are read beside the processes that write them.
    pub(super) beside: Stores,
    own: PerProcess<Own>,
}

/// What each process has for itself.
#[derive(Default)]
struct Own {
    error: Mutex<Option<String>>,
    /// One image is opened at a time.
    opening: Mutex<()>,
    /// Held by each database that is open by a URI that names the VFS.
    by_uri: Arc<()>,
}

impl Images {
    pub(super) fn new(stores: Stores) -> Images {
        Images { stores, beside: Stores::new(), own: PerProcess::default() }
    }

    /// `SQLITE_CANTOPEN`, for a reason that SQLite's log is told.
    pub(super) fn fail<T>(&self, reason: String) -> Answer<T> {
        self.keep(reason);
        Err(Code::CANTOPEN)
    }

    fn keep(&self, reason: String) {
        *self.own.get().error.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// The reason of the last error.
    pub(super) fn last_error(&self) -> Option<String> {
        self.own.get().error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a database keeps that was opened by a URI that names the VFS.
    pub(super) fn by_uri(&self, asked: &Asked) -> Option<Arc<()>> {
        let counts = asked.by_uri && asked.kind == Kind::Database;
        counts.then(|| Arc::clone(&self.own.get().by_uri))
    }

    /// Whether there is such a database. Then a name that comes without is one of another statement: `ATTACH 'a.db'`,
    /// `VACUUM INTO 'a.db'`.
    pub(super) fn is_used_by_uri(&self) -> bool {
        Arc::strong_count(&self.own.get().by_uri) > 1
    }

    /// Opens the image that `path` names, or begins with, or makes it.
    pub(super) fn open(&self, asked: &Asked) -> Answer<Store> {
        let Asked { path, kind, flags, .. } = asked;
        let (path, kind, flags) = (path.as_str(), *kind, *flags);
        let _one = self.own.get().opening.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(place) = &asked.place {
                return self.open_far(place, asked);
            }
            if let Some((store, _)) = self.find_for(path, kind, flags) {
                return Ok(store);
            }
            let found = Path::new(path).ancestors().find(|path| path.is_file());
            let beside =
                kind == Kind::Database && flags & flag::READONLY != 0 && asked.cut.is_none();
            let make = kind == Kind::Database && flags & flag::CREATE != 0;
            // One that has nothing yet is about to be made by somebody, or was meant to be.
            let empty = found.is_some_and(|found| found == Path::new(path) && is_empty(found));
            let (image, store) = match found.filter(|_| !(make && empty)) {
                Some(image) if beside => (image, Store::open_beside(image, asked.options)),
                Some(image) => (image, Store::open_until(image, asked.options, asked.cut)),
                None if make => {
                    let image = Path::new(path);
                    (image, Store::create(image, asked.capacity, asked.options))
                }
                None => return self.fail(format!("{path}: there is no such image")),
            };
            match store {
                Ok(store) => {
                    let stores = if beside { &self.beside } else { &self.stores };
                    stores.hold_open(&image.to_string_lossy(), &store);
                    return Ok(store);
                }
                // Another process has made it since.
                Err(reason) if make && reason.is_there() => {}
                Err(reason) if reason.is_busy() => {
                    self.keep(format!("{reason}; a store serves one process at a time"));
                    return Err(Code::BUSY);
                }
                Err(reason) => return self.fail(reason.to_string()),
            }
        }
    }

    /// The store in a namespace behind a wire, which is opened or made if this process does not have it. Who only reads
    /// claims it as well.
    fn open_far(&self, place: &Place, asked: &Asked) -> Answer<Store> {
        let (path, name) = (&asked.path, name_of(place));
        let Some(object) = object_at(path) else {
            return self.fail(format!(
                "{path}: expected a name without folders, from the root, as in file:/app.db"
            ));
        };
        if let Some((other, _)) = self.find(path) {
            return self.if_named(&name, other, path);
        }
        let store = match self.stores.named(&name) {
            Some(store) => store,
            None => {
                let create = asked.kind == Kind::Database && asked.flags & flag::CREATE != 0;
                match Store::open_at(place, asked.options, create) {
                    Ok(store) => store,
                    Err(reason) if reason.is_busy() => {
                        self.keep(format!("{reason}; a store serves one process at a time"));
                        return Err(Code::BUSY);
                    }
                    Err(reason) => return self.fail(reason.to_string()),
                }
            }
        };
        let all: Vec<String> = store.core()?.names.keys().map(|name| format!("/{name}")).collect();
        for here in all {
            if let Some((other, _)) = self.find(&here) {
                self.if_named(&name, other, &here)?;
            }
        }
        self.stores.hold_open(&name, &store);
        store.core()?.known.insert(object.to_string());
        Ok(store)
    }

    /// A store in which a database was found, if it is the one that is meant: SQLite tells files by their names alone.
    fn if_named(&self, name: &str, found: Store, path: &str) -> Answer<Store> {
        let other = found.core()?.path.clone();
        match other == name {
            true => Ok(found),
            false => self.fail(format!(
                "{path}: there is a database of that name in {other}, which is open"
            )),
        }
    }

    /// A file of `store`.
    pub(super) fn file(&self, vfs: &str, store: &Store, asked: &Asked) -> Answer<StoreFile> {
        let path = &asked.path;
        let object = store.core()?.object_of(path).ok_or(Code::CANTOPEN)?;
        if object.len() > LONGEST_NAME {
            return self.fail(format!("{path}: longer than {LONGEST_NAME} bytes"));
        }
        match StoreFile::open(vfs, store.clone(), &object, asked) {
            Ok(file) => {
                if let Some(group) = asked.group {
                    store.core()?.options.group = group;
                }
                Ok(file.among(&self.stores).with_uri(self.by_uri(asked)))
            }
            Err(Code::CANTOPEN) => {
                self.fail(format!("{path}: there is no such object in the store"))
            }
            Err(other) => Err(other),
        }
    }

    /// The store of a file beside a database: where a process has an image and also reads it as it was, that of the
    /// database that SQLite works on.
    pub(super) fn find(&self, path: &str) -> Option<(Store, String)> {
        if let Some(moved) = self.find_moved(path) {
            return Some(moved);
        }
        match (self.stores.find(path), self.beside.find(path)) {
            (Some(own), Some(beside)) => Some(if works_on(&beside.0) { beside } else { own }),
            (own, beside) => own.or(beside),
        }
    }

    /// The store of a file that is opened. Who writes takes the image itself.
    pub(super) fn find_for(&self, path: &str, kind: Kind, flags: c_int) -> Option<(Store, String)> {
        match kind {
            Kind::Database if flags & flag::READONLY == 0 => self.stores.find_here(path),
            Kind::Database => self.stores.find_here(path).or_else(|| self.beside.find_here(path)),
            Kind::Journal | Kind::Super if flags & flag::READONLY == 0 => self.to_write(path),
            _ => self.find(path),
        }
    }

    /// The store of a file that is written or deleted: who only reads does neither.
    pub(super) fn to_write(&self, path: &str) -> Option<(Store, String)> {
        let moved = self.find_moved(path);
        moved.or_else(|| self.stores.find(path)).or_else(|| self.beside.find(path))
    }

    fn find_moved(&self, path: &str) -> Option<(Store, String)> {
        self.stores.find_moved(path).or_else(|| self.beside.find_moved(path))
    }
}

/// Whether a name is of an image that is there, of an object in one, or of a file beside one.
pub(super) fn is_in_image(name: &str) -> bool {
    image_of(name).is_some()
}

/// The whole name of an object of an image that is there, whoever has that open: no file system says it.
pub(super) fn whole_name(name: &str) -> Option<PathBuf> {
    let image = image_of(name)?;
    let object = Path::new(name).strip_prefix(image).ok()?;
    let image = image.canonicalize().ok()?;
    Some(if object.as_os_str().is_empty() { image } else { image.join(object) })
}

/// The image that is there and that a name is of, or begins with.
fn image_of(name: &str) -> Option<&Path> {
    let begins = |path: &Path| {
        let mut found = [0; 8];
        path.is_file()
            && File::open(path).and_then(|mut file| file.read_exact(&mut found)).is_ok()
            && live::is_image(&found)
    };
    Path::new(name).ancestors().find(|path| begins(path))
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.len() == 0)
}

impl OpenError {
    /// Whether an image that was to be made is there.
    fn is_there(&self) -> bool {
        let OpenError::Image(live::LiveError::Io { error, .. }) = self else { return false };
        error.kind() == std::io::ErrorKind::AlreadyExists
    }
}
