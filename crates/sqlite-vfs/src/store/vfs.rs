//! The VFS of stores: which store and which object a name means.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use block::{Rng, TxError};

use super::file::StoreFile;
use super::table::LONGEST_NAME;
use super::{Options, Store};
use crate::abi::{Api, Host, Name, RegisterError, register};
use crate::vfs::{Answer, Code, File, Kind, Vfs, flag};

/// Stores by name; clones are the same set. Stores may be added while the VFS is in use.
#[derive(Clone, Default)]
pub struct Stores(Arc<Mutex<BTreeMap<String, Store>>>);

/// Random numbers and time of a modelled run, which must not depend on the machine.
pub struct Virtual {
    /// Seeds what SQLite draws. Only the default VFS is asked by `sqlite3_randomness`.
    pub seed: u64,
    /// Milliseconds since noon of 24 November 4714 BC; the store's time is added.
    pub start: i64,
}

impl Stores {
    /// An empty set.
    pub fn new() -> Stores {
        Stores::default()
    }

    /// Gives a store a name, or another store that name: files that are open stay with the old
    /// one. `name` itself is the store's object `main`, `name/x` is `x`.
    pub fn add(&self, name: &str, store: &Store) {
        let name = clean(name);
        store.core().path.clone_from(&name);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, store.clone());
    }

    /// Forgets a name.
    pub fn remove(&self, name: &str) -> Option<Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&clean(name))
    }

    /// Before a super-journal is durable: if it binds databases of several stores, which cannot
    /// commit together, it and their journals become durable, and their pages plain. Stores are
    /// taken one after the other. `false`: somebody else's database is among them.
    pub(super) fn bind(&self, home: &Store, name: &str) -> Result<bool, TxError> {
        let listed = home.core().listed_names(name);
        let mut found: BTreeMap<String, (Store, Vec<String>)> = BTreeMap::new();
        for full in listed {
            let Some((store, object)) = self.find(&full) else { return Ok(false) };
            let path = store.core().path.clone();
            found.entry(path).or_insert((store, Vec::new())).1.push(object);
        }
        if found.len() > 1 {
            {
                let mut core = home.core();
                core.copy_out(name)?;
                core.sync_plain()?;
            }
            for (store, journals) in found.values() {
                store.core().make_durable(journals)?;
            }
        }
        Ok(true)
    }

    /// The store with the longest name that begins `path`, and the object in it.
    fn find(&self, path: &str) -> Option<(Store, String)> {
        let stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores
            .iter()
            .filter(|(name, _)| path.starts_with(name.as_str()))
            .filter_map(|(name, store)| {
                let object = store.core().object_of(path)?;
                Some((name.len(), store.clone(), object))
            })
            .max_by_key(|(length, _, _)| *length)
            .map(|(_, store, object)| (store, object))
    }

    /// Registers a VFS over these stores, as the default one if wanted. `virtually`: random
    /// numbers and time come from there, not from the host.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        &self,
        api: &Api,
        name: &str,
        default: bool,
        virtually: Option<Virtual>,
    ) -> Result<(), RegisterError> {
        let stores = self.clone();
        let vfs_name = name.to_string();
        register(api, name, default, move |host| {
            let model = virtually.map(|v| (Mutex::new(Rng::new(v.seed)), v.start));
            Box::new(StoreVfs { name: vfs_name, stores, host, model, error: Mutex::default() })
        })
    }
}

/// The name without empty and `.` parts; `..` takes one back.
fn clean(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let lead = if name.starts_with('/') { "/" } else { "" };
    format!("{lead}{}", parts.join("/"))
}

struct StoreVfs {
    name: String,
    stores: Stores,
    host: Host,
    model: Option<(Mutex<Rng>, i64)>,
    error: Mutex<Option<String>>,
}

impl StoreVfs {
    fn fail<T>(&self, reason: String) -> Answer<T> {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        Err(Code::CANTOPEN)
    }

    fn find(&self, name: &Name<'_>) -> Option<(Store, String)> {
        self.stores.find(name.text()?)
    }
}

impl Vfs for StoreVfs {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        let Some(text) = name.text() else {
            return Ok((Box::new(StoreFile::temporary(&self.name)), flags));
        };
        let kind = Kind::of(flags);
        let Some((store, object)) = self.stores.find(text) else {
            if kind == Kind::Temp {
                return Ok((Box::new(StoreFile::temporary(&self.name)), flags));
            }
            return match Store::open(Path::new(text), Options::default()) {
                Ok(store) => {
                    self.stores.add(text, &store);
                    self.open(name, flags)
                }
                Err(reason) => self.fail(reason.to_string()),
            };
        };
        if object.len() > LONGEST_NAME {
            return self.fail(format!("{text}: longer than {LONGEST_NAME} bytes"));
        }
        match StoreFile::open(&self.name, store, kind, &object, text, name, flags) {
            Ok(file) => {
                let file = file.among(&self.stores);
                Ok((Box::new(file), flags & !flag::CREATE))
            }
            Err(Code::CANTOPEN) => {
                self.fail(format!("{text}: there is no such object in the store"))
            }
            Err(other) => Err(other),
        }
    }

    fn delete(&self, name: &Name<'_>, _sync_dir: bool) -> Answer<()> {
        let (store, object) = self.find(name).ok_or(Code::IOERR_DELETE_NOENT)?;
        StoreFile::delete(&store, &object, name.text().unwrap_or(""))
    }

    fn access(&self, name: &Name<'_>, _flags: c_int) -> Answer<bool> {
        Ok(self.find(name).is_some_and(|(store, object)| StoreFile::is_there(&store, &object)))
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        let text = clean(name.text().unwrap_or(""));
        if self.stores.find(&text).is_some() {
            return Ok(text.into_bytes());
        }
        self.host.full_path(name)
    }

    fn randomness(&self, out: &mut [u8]) -> bool {
        let Some((rng, _)) = &self.model else { return false };
        let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
        for part in out.chunks_mut(8) {
            let draw = rng.next_u64().to_le_bytes();
            part.copy_from_slice(&draw[..part.len()]);
        }
        true
    }

    fn time(&self) -> Option<i64> {
        let (_, start) = self.model.as_ref()?;
        let stores = self.stores.0.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = stores.values().map(|store| store.core().now.as_ns()).max().unwrap_or(0);
        Some(start + i64::try_from(latest / 1_000_000).unwrap_or(0))
    }

    fn last_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
