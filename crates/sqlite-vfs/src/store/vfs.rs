//! The VFS of stores: which store and which object a name means.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use block::{Rng, TxError, parse_size, parse_switch};
use live::PowerCut;

use super::file::StoreFile;
use super::home::Home;
use super::open::{CAPACITY, LOG_PAGE};
use super::table::LONGEST_NAME;
use super::{Store, StoreOptions};
use crate::abi::{Api, Host, Name, PerProcess, RegisterError, register};
use crate::ordinary::{Ordinary, is_image};
use crate::vfs::{Answer, Code, File, Kind, Vfs, flag};

/// Stores by name; clones are the same set. Stores may be added while the VFS is in use. Those
/// in image files are there as long as a file of theirs is open. A process that is forked begins with
/// an empty set.
#[derive(Clone, Default)]
pub struct Stores(Arc<PerProcess<Mutex<Names>>>);

type Names = BTreeMap<String, Held>;

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

    fn hold(&self, name: &str, store: &Store, held: Held) {
        let name = clean(name);
        {
            let mut core = store.here();
            core.path.clone_from(&name);
            core.in_image = matches!(held, Held::InUse(_));
        }
        let mut stores = self.names();
        stores.retain(|_, held| held.store().is_some());
        stores.insert(name, held);
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a name.
    pub fn remove(&self, name: &str) -> Option<Store> {
        let held = self.names().remove(&clean(name));
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
        let Some((full, here)) = home.core()?.super_begun(name, data, at) else { return Ok(true) };
        if here {
            return Ok(true);
        }
        let Some((store, object)) = self.find(&full) else { return Ok(false) };
        Ok(store.core()?.journals.contains_key(&object))
    }

    /// The store with the longest name that begins `path`, and the object in it.
    fn find(&self, path: &str) -> Option<(Store, String)> {
        let stores = self.names();
        stores
            .iter()
            .filter(|(name, _)| path.starts_with(name.as_str()))
            .filter_map(|(name, held)| {
                let store = held.store()?;
                let object = store.core().ok()?.object_of(path)?;
                Some((name.len(), store, object))
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
            let (beside, own) = (Stores::new(), PerProcess::default());
            Box::new(StoreVfs { name: vfs_name, stores, beside, images_only, host, model, own })
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
    /// Those that are read beside the processes that write them.
    beside: Stores,
    /// Everything that is no image by its name is the host's.
    images_only: bool,
    host: Host,
    model: Option<(Mutex<Rng>, i64)>,
    own: PerProcess<Own>,
}

/// What each process has for itself.
#[derive(Default)]
struct Own {
    error: Mutex<Option<String>>,
    /// One image is opened at a time.
    opening: Mutex<()>,
}

/// The whole number that parameter `key` of the URI gives, if it is there.
fn number(name: &Name<'_>, key: &str) -> Result<Option<u64>, String> {
    let Some(text) = name.parameter(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{key}={text}: expected a whole number"))
}

/// How an image is to be kept, as the parameters of the URI say.
fn options(name: &Name<'_>) -> Result<StoreOptions, String> {
    let mut options = StoreOptions::default();
    if let Some(text) = name.parameter("delta") {
        options.delta = parse_switch(&text)
            .map_err(|wrong| format!("delta={text}: expected {}", wrong.expected))?;
    }
    if let Some(text) = name.parameter("log") {
        let bytes =
            parse_size(&text).map_err(|wrong| format!("log: expected {}", wrong.expected))?;
        if !bytes.0.is_multiple_of(LOG_PAGE) || bytes.0 > 1 << 30 {
            return Err(format!(
                "log={text}: expected a multiple of {LOG_PAGE} bytes, at most 1 GiB"
            ));
        }
        options.log_pages = Some((bytes.0 / LOG_PAGE) as u32);
    }
    let small = |key: &str, value: u64| {
        u32::try_from(value).map_err(|_| format!("{key}={value}: too large"))
    };
    if let Some(text) = name.parameter("read_wait") {
        options.read_wait = parse_switch(&text)
            .map_err(|wrong| format!("read_wait={text}: expected {}", wrong.expected))?;
    }
    if let Some(bytes) = number(name, "log_grain")? {
        options.log_grain = small("log_grain", bytes)?;
    }
    if let Some(pages) = number(name, "overlay")? {
        options.overlay = small("overlay", pages)?;
    }
    Ok(options)
}

impl StoreVfs {
    fn fail<T>(&self, reason: String) -> Answer<T> {
        *self.own.get().error.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        Err(Code::CANTOPEN)
    }

    /// Opens the image that `path` names, or begins with, or makes it.
    fn open_image(&self, path: &str, kind: Kind, name: &Name<'_>, flags: c_int) -> Answer<Store> {
        let _one = self.own.get().opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((store, _)) = self.find_for(path, kind, flags) {
            return Ok(store);
        }
        let found = Path::new(path).ancestors().find(|path| path.is_file());
        let make = kind == Kind::Database && flags & flag::CREATE != 0;
        let capacity = match name.parameter("capacity").map(|text| parse_size(&text)) {
            Some(Err(wrong)) => return self.fail(format!("capacity: expected {}", wrong.expected)),
            Some(Ok(capacity)) => capacity,
            None => CAPACITY,
        };
        // A machine that fails on command: `?power_cut=N` is the write or sync that never happens.
        let (at, seed) = match (number(name, "power_cut"), number(name, "cut_seed")) {
            (Ok(at), Ok(seed)) => (at, seed.unwrap_or(0)),
            (Err(reason), _) | (_, Err(reason)) => return self.fail(reason),
        };
        let cut = at.map(|at| PowerCut { at, seed });
        let options = match options(name) {
            Ok(options) => options,
            Err(reason) => return self.fail(reason),
        };
        let beside = kind == Kind::Database && flags & flag::READONLY != 0 && cut.is_none();
        let (image, store) = match found {
            Some(image) if beside => (image, Store::open_beside(image, options)),
            Some(image) => (image, Store::open_until(image, options, cut)),
            None if make => {
                let image = Path::new(path);
                (image, Store::create(image, capacity, options))
            }
            None => return self.fail(format!("{path}: there is no such image")),
        };
        match store {
            Ok(store) => {
                let held = Held::InUse(Arc::downgrade(&store.0));
                let stores = if beside { &self.beside } else { &self.stores };
                stores.hold(&image.to_string_lossy(), &store, held);
                Ok(store)
            }
            Err(reason) if reason.is_busy() => {
                self.fail::<()>(format!("{reason}; a store serves one process at a time")).ok();
                Err(Code::BUSY)
            }
            Err(reason) => self.fail(reason.to_string()),
        }
    }

    /// The store of a file beside a database: where a process has an image and also reads it as it was, that of the
    /// database that SQLite works on.
    fn find(&self, path: &str) -> Option<(Store, String)> {
        match (self.stores.find(path), self.beside.find(path)) {
            (Some(own), Some(beside)) => {
                Some(if super::file::reads(&beside.0) { beside } else { own })
            }
            (own, beside) => own.or(beside),
        }
    }

    /// Whether a file of that name is the host's.
    fn is_ordinary(&self, name: &Name<'_>) -> bool {
        self.images_only
            && name.text().is_none_or(|text| !is_image(text) && self.find(text).is_none())
    }

    /// The store of a file that is opened. Who writes takes the image itself.
    fn find_for(&self, path: &str, kind: Kind, flags: c_int) -> Option<(Store, String)> {
        match kind {
            Kind::Database if flags & flag::READONLY == 0 => self.stores.find(path),
            Kind::Database => self.to_write(path),
            Kind::Journal | Kind::Super if flags & flag::READONLY == 0 => self.to_write(path),
            _ => self.find(path),
        }
    }

    /// The store of a file that is written or deleted: who only reads does neither.
    fn to_write(&self, path: &str) -> Option<(Store, String)> {
        self.stores.find(path).or_else(|| self.beside.find(path))
    }
}

impl Vfs for StoreVfs {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        if self.is_ordinary(name) {
            let (file, got) = self.host.open(name, flags)?;
            return Ok((Box::new(Ordinary::new(file)), got));
        }
        let Some(text) = name.text() else {
            return Ok((Box::new(StoreFile::temporary(&self.name)), flags));
        };
        let kind = Kind::of(flags);
        let Some((store, object)) = self.find_for(text, kind, flags) else {
            if kind == Kind::Temp {
                return Ok((Box::new(StoreFile::temporary(&self.name)), flags));
            }
            // Held until the file that was asked for is open and keeps it.
            let _store = self.open_image(text, kind, name, flags)?;
            return self.open(name, flags);
        };
        if object.len() > LONGEST_NAME {
            return self.fail(format!("{text}: longer than {LONGEST_NAME} bytes"));
        }
        let group = match number(name, "group") {
            Ok(group) => group,
            Err(reason) => return self.fail(reason),
        };
        match StoreFile::open(&self.name, store.clone(), kind, &object, text, name, flags) {
            Ok(file) => {
                if let Some(group) = group {
                    store.core()?.options.group = group;
                }
                let file = file.among(&self.stores);
                let got = flags & !flag::CREATE;
                // A log that is only read is neither checkpointed nor deleted: the writer's is another one.
                let read = kind == Kind::Wal && store.is_beside();
                let got = if read { got & !flag::READWRITE | flag::READONLY } else { got };
                Ok((Box::new(file), got))
            }
            Err(Code::CANTOPEN) => {
                self.fail(format!("{text}: there is no such object in the store"))
            }
            Err(other) => Err(other),
        }
    }

    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        if self.is_ordinary(name) {
            return self.host.delete(name, sync_dir);
        }
        let found = name.text().and_then(|text| self.to_write(text));
        let (store, object) = found.ok_or(Code::IOERR_DELETE_NOENT)?;
        StoreFile::delete(&store, &object, name.text().unwrap_or(""))
    }

    fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool> {
        if self.is_ordinary(name) {
            return self.host.access(name, flags);
        }
        let found = name.text().and_then(|text| self.find(text));
        found.map_or(Ok(false), |(store, object)| StoreFile::is_there(&store, &object))
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        if self.is_ordinary(name) {
            return self.host.full_path(name);
        }
        let text = clean(name.text().unwrap_or(""));
        if self.find(&text).is_some() {
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
        let stores = self.stores.names();
        let latest = stores
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
        self.own.get().error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
