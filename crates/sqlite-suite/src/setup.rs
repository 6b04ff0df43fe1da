//! The stores that the suite runs on.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use block::{RamDevice, Sectors};
use varve_sqlite_vfs::{Api, Store, StoreOptions, Stores, Way};

/// Enough for the largest databases of the list. Each file takes at least an extent of 1 MiB.
const SIZE: Sectors = Sectors(192 * 2_048);
/// For the few files below a path that is too long for an object's name.
const SMALL: Sectors = Sectors(32 * 2_048);
/// `controls` (the default) or `journal`: how the stores learn of commits.
const WAY: &str = "VARVE_SUITE_WAY";

struct Setup {
    stores: Stores,
    options: StoreOptions,
    folders: Mutex<BTreeSet<String>>,
}

static SETUP: OnceLock<Setup> = OnceLock::new();

fn store(size: Sectors, options: StoreOptions) -> Result<Store, String> {
    Store::format(Box::new(RamDevice::new(size)), options).map_err(|e| e.to_string())
}

/// Registers the VFS `varve`, not as the default one: what stands above it does that.
pub(crate) fn start(api: &Api) -> Result<(), String> {
    let way = match std::env::var(WAY).as_deref() {
        Ok("journal") => Way::JournalLife,
        Ok("controls") | Err(_) => Way::Controls,
        Ok(other) => return Err(format!("{WAY}: {other} is neither controls nor journal")),
    };
    let options = StoreOptions { way, ..StoreOptions::default() };
    let stores = Stores::new();
    // The empty name begins every path, so the full path is the object's name.
    stores.add("", &store(SIZE, options)?);
    stores.register(api, "varve", false, None).map_err(|e| e.to_string())?;
    let setup = Setup { stores, options, folders: Mutex::default() };
    SETUP.set(setup).map_err(|_| "set up twice".to_string())
}

/// Gives a folder a store of its own: the names of objects are shorter than paths may be.
pub(crate) fn folder(name: &str) -> Result<(), String> {
    let setup = SETUP.get().ok_or("not set up")?;
    let mut folders = setup.folders.lock().unwrap_or_else(PoisonError::into_inner);
    if folders.insert(name.to_string()) {
        setup.stores.add(name, &store(SMALL, setup.options)?);
    }
    Ok(())
}
