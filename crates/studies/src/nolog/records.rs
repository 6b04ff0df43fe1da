//! NoLgn whose commits are records: the real store, with its log of commits on pages of the drive.
//!
//! The model of the other systems moves no data, and what a record takes is a matter of data. So this one runs
//! SQLite over the store itself, on a part of the drive that is as full as the others'.

use std::sync::atomic::{AtomicU64, Ordering};

use block::{Lba, Request, Sectors, Time};
use lab::LabError;
use rusqlite::Connection;
use sqlite::files::{Settings, Synchronous};
use sqlite::host::Tally;
use sqlite::workload::Each;
use varve_sqlite_vfs::{Device, Store, StoreOptions};

use super::experiment::{CPU, failed};
use super::store::{VFS, stores};

/// Its name in tables.
pub const NAME: &str = "NoLgn, delta";
/// Pages of the log: as many as an image has of it at most.
pub const LOG: u32 = 4096;
/// Pages that SQLite keeps: all, as the host's page cache does for the other systems.
const CACHE: &str = "PRAGMA cache_size=-1000000";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A loaded database in a store with a log.
pub struct Logged {
    name: String,
    store: Store,
    db: Connection,
}

/// What some operations cost.
pub struct Ran {
    /// Operations.
    pub operations: u64,
    /// Pages that the store wrote, its own table's among them, those of its log, and times.
    pub tally: Tally,
}

impl Logged {
    /// Makes a store on a device of so many pages, all of which hold something, and loads a database.
    /// `overlay`: pages that wait in memory.
    ///
    /// # Errors
    /// The store's, SQLite's.
    pub fn new(
        device: Box<dyn Device>,
        pages: u32,
        overlay: u32,
        load: impl FnOnce(&mut Connection) -> rusqlite::Result<()>,
    ) -> Result<Logged, LabError> {
        let stores = stores()?;
        let name = format!("/records/{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let options = StoreOptions { log_pages: Some(LOG), overlay, ..StoreOptions::default() };
        let store = Store::format(device, options).map_err(failed)?;
        // A new store has discarded what was there: nothing of it is read before it is written.
        let begun = store.now();
        let filled = store.with_device(|device| {
            (pages / 32..pages).try_fold(begun, |at, page| {
                let write = Request::write(Lba(8 * u64::from(page)), Sectors(8));
                device.submit(at, write)
            })
        });
        store.advance(filled.map_err(failed)?);
        stores.add(&name, &store);
        let open = || Connection::open_with_flags_and_vfs(&name, Default::default(), VFS);
        let mut db = open().map_err(failed)?;
        // A rollback journal's fallback may be as large as it likes: loading is not measured.
        Settings::new("delete", Synchronous::Full).apply(&db).map_err(failed)?;
        db.execute_batch(CACHE).map_err(failed)?;
        load(&mut db).map_err(failed)?;
        store.flush().map_err(failed)?;
        Ok(Logged { name, store, db })
    }

    /// Lets time pass until `at`.
    pub fn advance(&self, at: Time) {
        self.store.advance(at);
    }

    /// Runs a workload; what waits in memory goes to the device at its end.
    ///
    /// # Errors
    /// SQLite's and the device's.
    pub fn run(
        &self,
        work: impl FnOnce(&Connection, Each<'_>) -> rusqlite::Result<()>,
    ) -> Result<Ran, LabError> {
        let (before, begun) = (self.store.stats(), self.store.now());
        let (mut operations, mut last) = (Vec::new(), begun);
        work(&self.db, &mut || {
            self.store.advance(self.store.now() + CPU);
            operations.push(self.store.now().since(last));
            last = self.store.now();
        })
        .map_err(failed)?;
        self.store.flush().map_err(failed)?;
        let after = self.store.stats();
        let tally = Tally {
            data: after.tagged + after.plain + after.table
                - (before.tagged + before.plain + before.table),
            log: (after.log_bytes - before.log_bytes) / 4096,
            commits: after.groups - before.groups,
            flushes: after.logged - before.logged,
            total: self.store.now().since(begun),
            operations,
            ..Tally::default()
        };
        let operations = tally.operations.len() as u64;
        Ok(Ran { operations, tally })
    }

    /// Is what it holds sound?
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), LabError> {
        let intact: String =
            self.db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(failed)?;
        match intact.as_str() {
            "ok" => Ok(()),
            _ => Err(LabError::Check { contract: "served".to_string(), what: intact }),
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if let Ok(stores) = stores() {
            stores.remove(&self.name);
        }
    }
}
