//! What loading the extension sets up.

use block::{RamDevice, Sectors};
use varve_sqlite_vfs::{Api, RegisterError, Store, StoreOptions, Stores};

/// Names a store in memory, for the tests of the entry points.
const RAM: &str = "VARVE_SQLITE_RAM_FOR_TESTS";
const RAM_SECTORS: Sectors = Sectors(64 * 2_048);

/// Registers the VFS `varve`. Once is enough for a process; a second time changes nothing.
pub(crate) fn start(api: &Api) -> Result<(), String> {
    let stores = Stores::new();
    if let Ok(name) = std::env::var(RAM) {
        if !name.starts_with("ram:") {
            return Err(format!("{RAM}: {name} does not begin with ram:"));
        }
        let store = Store::format(Box::new(RamDevice::new(RAM_SECTORS)), StoreOptions::default());
        stores.add(&name, &store.map_err(|e| e.to_string())?);
    }
    match stores.register(api, "varve", false, None) {
        Ok(()) | Err(RegisterError::Taken(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
