//! The VFS of stores: which store and which object a name means.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use block::{Rng, TxError};

use super::Store;
use super::asked::Asked;
use super::far::is_far;
use super::file::{StoreFile, works_on};
use super::home::Home;
use super::images::{Images, is_in_image, whole_name};
use super::waiting::Waiting;
use crate::abi::{Api, Host, Name, PerProcess, RegisterError, register};
use crate::ordinary::{Ordinary, is_image};
use crate::vfs::{Answer, Code, File, Kind, Vfs, flag};

/// Stores by name; clones are the same set. Stores may be added while the VFS is in use. Those
/// in image files are there as long as a file of theirs is open. A process that is forked begins with
/// an empty set.
#[derive(Clone, Default)]
pub struct Stores(Arc<PerProcess<Mutex<Names>>>);

#[derive(Default)]
struct Names {
    held: BTreeMap<String, Held>,
    /// Those whose images were moved away, removed or replaced: no name leads to them but from the connections that they
    /// have, whose journals and logs lie in them.
    moved: Vec<Weak<Home>>,
}

enum Held {
    Kept(Store),
    /// The files that are open keep it; with the last of them the image is let go.
    InUse(Weak<Home>),
}

impl Held {
    fn store(&self) -> Option<Store> {
        match self {
            Held::Kept(store) => Some(store.clone()),
            Held::InUse(home) => home.upgrade().map(Store),
        }
    }
}

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
        self.hold(name, store, Held::Kept(store.clone()));
    }

    /// The same for one in an image, as long as a file of it is open.
    pub(super) fn hold_open(&self, name: &str, store: &Store) {
        self.hold(name, store, Held::InUse(Arc::downgrade(&store.0)));
    }

    fn hold(&self, name: &str, store: &Store, held: Held) {
        let name = clean(name);
        {
            let mut core = store.here();
            core.path.clone_from(&name);
            core.in_image = matches!(held, Held::InUse(_));
        }
        let mut stores = self.names();
        stores.held.retain(|_, held| held.store().is_some());
        stores.held.insert(name, held);
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a name.
    pub fn remove(&self, name: &str) -> Option<Store> {
        let held = self.names().held.remove(&clean(name));
        held.and_then(|held| held.store())
    }

    /// Before a super-journal is durable: if it binds databases of several stores, which cannot
    /// commit together, it and their journals become durable, and their pages plain. Stores are
    /// taken one after the other. `false`: that is refused, because one of them is in a file that may
    /// be opened alone, and would not know how the others have ended.
    pub(super) fn bind(&self, home: &Store, name: &str) -> Result<bool, TxError> {
        let listed = home.core()?.listed_names(name);
        let mut found: BTreeMap<String, (Store, Vec<String>)> = BTreeMap::new();
        let mut in_image = home.core()?.in_image;
        for full in listed {
            let Some((store, object)) = self.find(&full) else { return Ok(false) };
            let path = {
                let core = store.core()?;
                in_image |= core.in_image;
                core.path.clone()
            };
            found.entry(path).or_insert((store, Vec::new())).1.push(object);
        }
        if found.len() > 1 {
            if in_image {
                return Ok(false);
            }
            {
                let mut core = home.core()?;
                core.copy_out(name)?;
                core.sync_plain()?;
            }
            for (store, journals) in found.values() {
                store.core()?.make_durable(journals)?;
            }
        }
        Ok(true)
    }

    /// Before `data` is written to a journal: `false` if that lets it name a super-journal that is in
    /// no store, so that nobody here would see it end.
    pub(super) fn is_bound_here(
        &self,
        home: &Store,
        name: &str,
        data: &[u8],
        at: u64,
    ) -> Result<bool, TxError> {
        let Some((full, here)) = home.core()?.super_begun(name, data, at)? else { return Ok(true) };
        if here {
            return Ok(true);
        }
        let Some((store, object)) = self.find(&full) else { return Ok(false) };
        Ok(store.core()?.journals.contains_key(&object))
    }

    /// The store of this very name.
    pub(super) fn named(&self, name: &str) -> Option<Store> {
        self.names().held.get(&clean(name)).and_then(Held::store)
    }

    /// The store with the longest name that begins `path`, and the object in it.
    pub(super) fn find(&self, path: &str) -> Option<(Store, String)> {
        let stores = self.names();
        stores
            .held
            .iter()
            .filter(|(name, _)| path.starts_with(name.as_str()) || is_far(name))
            .filter_map(|(name, held)| {
                let store = held.store()?;
                let object = store.core().ok()?.object_of(path)?;
                let length = if is_far(name) { path.len() } else { name.len() };
                Some((length, store, object))
            })
            .max_by_key(|(length, _, _)| *length)
            .map(|(_, store, object)| (store, object))
    }

    /// The same, if the file of its image still has that name; else the name is free.
    pub(super) fn find_here(&self, path: &str) -> Option<(Store, String)> {
        let (store, object) = self.find(path)?;
        let (moved, name) = {
            let core = store.core().ok()?;
            (core.has_moved(), core.path.clone())
        };
        if !moved {
            return Some((store, object));
        }
        let mut names = self.names();
        names.held.retain(|held, of| {
            *held != name || of.store().is_none_or(|of| !Arc::ptr_eq(&of.0, &store.0))
        });
        names.moved.retain(|home| home.strong_count() > 0);
        names.moved.push(Arc::downgrade(&store.0));
        None
    }

    /// For a file beside a database: the store that this thread works on, if it has moved, or has journals from when it was
    /// called otherwise, and such a file is its own. Its name may be another store's by now.
    pub(super) fn find_moved(&self, path: &str) -> Option<(Store, String)> {
        let (store, moved) = {
            let names = self.names();
            let moved = names.moved.iter().filter_map(Weak::upgrade).map(Store).find(works_on);
            let is_moved = moved.is_some();
            let held = || names.held.values().filter_map(Held::store).find(works_on);
            (moved.or_else(held)?, is_moved)
        };
        let core = store.core().ok()?;
        let object = if moved { core.object_of(path) } else { core.object_before(path) }?;
        drop(core);
        Some((store, object))
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
        self.register_as(api, name, default, false, virtually)
    }

    /// Registers a VFS over these stores as the default one of the process, for programs that name files and nothing
    /// else: what ends in `.varve` is an image, and what lies in one or beside one belongs to it; everything else goes to
    /// the VFS that was the default until now.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register_default(&self, api: &Api, name: &str) -> Result<(), RegisterError> {
        self.register_as(api, name, true, true, None)
    }

    fn register_as(
        &self,
        api: &Api,
        name: &str,
        default: bool,
        images_only: bool,
        virtually: Option<Virtual>,
    ) -> Result<(), RegisterError> {
        let stores = self.clone();
        let vfs_name = name.to_string();
        register(api, name, default, move |host| {
            let model = virtually.map(|v| (Mutex::new(Rng::new(v.seed)), v.start));
            let images = Arc::new(Images::new(stores));
            Box::new(StoreVfs { name: vfs_name, images, images_only, host, model })
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
    images: Arc<Images>,
    /// Everything that is no image by its name is the host's.
    images_only: bool,
    host: Host,
    model: Option<(Mutex<Rng>, i64)>,
}

impl StoreVfs {
    fn temporary(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        if self.model.is_some() {
            // Its name would be drawn, and what a modelled run draws must not depend on the machine.
            return Ok((Box::new(StoreFile::temporary(&self.name)), flags));
        }
        let (file, got) = self.host.open(name, flags)?;
        Ok((Box::new(Ordinary::new(file)), got))
    }

    /// Whether a file of that name is the host's.
    fn is_ordinary(&self, name: &Name<'_>) -> bool {
        let Some(text) = name.text() else { return self.images_only };
        if is_image(text) || self.images.find(text).is_some() || name.parameter("device").is_some()
        {
            return false;
        }
        // Who opens his images by URIs that name the VFS means no image where none does.
        let unnamed = name.parameter("vfs").is_none() && self.images.is_used_by_uri();
        self.images_only || unnamed && !is_in_image(text)
    }
}

impl Vfs for StoreVfs {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        let kind = Kind::of(flags);
        let Some(text) = name.text().filter(|_| kind != Kind::Temp) else {
            return self.temporary(name, flags);
        };
        if self.is_ordinary(name) {
            let (file, got) = self.host.open(name, flags)?;
            return Ok((Box::new(Ordinary::new(file)), got));
        }
        let found = self.images.find_for(text, kind, flags);
        let asked = match kind {
            Kind::Journal | Kind::Super | Kind::Wal if found.is_some() => {
                Asked::beside(text, kind, flags)
            }
            _ => Asked::of(name, kind, flags).or_else(|reason| self.images.fail(reason))?,
        };
        let found = match found {
            Some((store, _)) if asked.place.is_none() => Ok(store),
            _ => self.images.open(&asked),
        };
        // Held until the file that was asked for is open and keeps it.
        let store = match found {
            Err(Code::BUSY) if kind == Kind::Database && flags & flag::READONLY == 0 => {
                let waiting = Waiting::new(Arc::clone(&self.images), &self.name, asked);
                return Ok((Box::new(waiting), flags & !flag::CREATE));
            }
            found => found?,
        };
        let file = self.images.file(&self.name, &store, &asked)?;
        let got = flags & !flag::CREATE;
        // A log that is only read is neither checkpointed nor deleted: the writer's is another one.
        let read = kind == Kind::Wal && store.is_beside();
        let got = if read { got & !flag::READWRITE | flag::READONLY } else { got };
        Ok((Box::new(file), got))
    }

    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        if self.is_ordinary(name) {
            return self.host.delete(name, sync_dir);
        }
        let found = name.text().and_then(|text| self.images.to_write(text));
        let (store, object) = found.ok_or(Code::IOERR_DELETE_NOENT)?;
        StoreFile::delete(&store, &object, name.text().unwrap_or(""))
    }

    fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool> {
        if self.is_ordinary(name) {
            return self.host.access(name, flags);
        }
        let found = name.text().and_then(|text| self.images.find(text));
        found.map_or(Ok(false), |(store, object)| StoreFile::is_there(&store, &object))
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        if self.is_ordinary(name) {
            return self.host.full_path(name);
        }
        let text = clean(name.text().unwrap_or(""));
        if self.images.find(&text).is_some() {
            return Ok(text.into_bytes());
        }
        if let Some(whole) = whole_name(&text) {
            return Ok(whole.into_os_string().into_vec());
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
        let stores = self.images.stores.names();
        let latest = stores
            .held
            .values()
            .filter_map(Held::store)
            .filter_map(|store| Some(store.core().ok()?.now.as_ns()))
            .max()
            .unwrap_or(0);
        Some(start + i64::try_from(latest / 1_000_000).unwrap_or(0))
    }

    fn sleep(&self, time: Duration) -> bool {
        super::file::missed().is_some_and(|(home, missed)| home.sleep(missed, time))
    }

    fn last_error(&self) -> Option<String> {
        self.images.last_error()
    }
}
