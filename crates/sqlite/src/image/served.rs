//! A store under a name of this process, and what is in it.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use lab::LabError;
use live::{LiveError, patiently};
use rusqlite::{Connection, OpenFlags};
use varve_sqlite_vfs::vfs::Kind;
use varve_sqlite_vfs::{RegisterError, Store, StoreOptions, Stores};

use super::{refused, unusable};
use crate::files::api;

const VFS: &str = "varve-image";

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

/// The databases of a store, by object, with their bytes: what lies beside them left away.
pub(super) fn databases(store: &Store) -> Vec<(String, u64)> {
    let names = store.objects();
    let is_log = |name: &str| {
        ["-wal", "-journal"].iter().any(|end| {
            name.strip_suffix(end).is_some_and(|base| names.iter().any(|(name, _)| name == base))
        })
    };
    names.iter().filter(|(name, _)| !is_log(name) && !is_super(name)).cloned().collect()
}

/// Whether an object binds the journals of several databases to one COMMIT.
fn is_super(name: &str) -> bool {
    Kind::of_name(name) == Kind::Super
}

/// Whether a COMMIT over several databases was cut off: whoever opens them for writing takes it back or ends it.
pub(super) fn is_cut_off(store: &Store) -> bool {
    store.objects().iter().any(|(name, bytes)| is_super(name) && *bytes > 0)
}
