//! What loading the extension sets up.

use std::sync::{Mutex, PoisonError};

use block::{RamDevice, Sectors};
use varve_sqlite_vfs::{Api, RegisterError, Store, StoreOptions, Stores};

/// Names a store in memory, for the tests of the entry points.
const RAM: &str = "VARVE_SQLITE_RAM_FOR_TESTS";
const RAM_SECTORS: Sectors = Sectors(64 * 2_048);
/// Set to 1: names that end in `.varve` are images for whoever names no VFS, too.
const DEFAULT: &str = "VARVE_SQLITE_DEFAULT";
const VFS: &str = "varve";
const DEFAULT_VFS: &str = "varve-default";

/// The stores of each SQLite of the process, which is told by the address of one of its functions.
static KNOWN: Mutex<Vec<(usize, Stores)>> = Mutex::new(Vec::new());

/// Registers the VFS `varve`; `default`: and one that is the default, for names that end in `.varve`. Once is enough
/// for a process; a second time changes nothing.
pub(crate) fn start(api: &Api, host: usize, default: bool) -> Result<(), String> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().find(|(one, _)| *one == host).map(|(_, stores)| stores.clone());
    let stores = match found {
        Some(stores) => stores,
        None => {
            let stores = with_ram()?;
            known.push((host, stores.clone()));
            stores
        }
    };
    registered(stores.register(api, VFS, false, None))?;
    match std::env::var(DEFAULT).as_deref() {
        Ok("1") => registered(stores.register_default(api, DEFAULT_VFS)),
        Ok("" | "0") | Err(_) if !default => Ok(()),
        Ok("" | "0") | Err(_) => registered(stores.register_default(api, DEFAULT_VFS)),
        Ok(other) => Err(format!("{DEFAULT}={other}: expected 0 or 1")),
    }
}

/// A new set of stores, with the one in memory that a test asks for.
fn with_ram() -> Result<Stores, String> {
    let stores = Stores::new();
    if let Ok(name) = std::env::var(RAM) {
        if !name.starts_with("ram:") {
            return Err(format!("{RAM}: {name} does not begin with ram:"));
        }
        let store = Store::format(Box::new(RamDevice::new(RAM_SECTORS)), StoreOptions::default());
        stores.add(&name, &store.map_err(|e| e.to_string())?);
    }
    Ok(stores)
}

fn registered(done: Result<(), RegisterError>) -> Result<(), String> {
    match done {
        Ok(()) | Err(RegisterError::Taken(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
