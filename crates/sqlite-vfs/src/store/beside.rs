//! A store in an image that another process may be writing, as it was at one moment.
//!
//! Invariants:
//! * nothing reaches the image, and its writer does not notice: what SQLite writes here stays in memory;
//! * what is read is one state that a kill of the writer would have left: all or nothing of each commit, and none
//!   without those before it;
//! * a connection that takes a shared lock while nobody here has one reads the newest state; under a lock that
//!   state stays, and a page of it that the writer has reused meanwhile is `SQLITE_BUSY_SNAPSHOT`, never another page;
//! * a state in which a transaction that outgrew its device is half done is, to who may only read, `SQLITE_BUSY` as long
//!   as there is a writer, who ends it. Without one it is `SQLITE_READONLY_ROLLBACK`, as SQLite finds it: only who writes
//!   takes it back; a connection of `open_beside` does so in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{DeviceError, TxError};
use live::{ImageDrive, LiveError, Moment, patiently};

use super::core::{Core, Done, Id};
use super::home::Home;
use super::journal::journal_of;
use super::objects::Object;
use super::open::OpenError;
use super::{Store, StoreError, StoreOptions};

const HALF_DONE: &str =
    "the process that writes the image is in the midst of a transaction that outgrew its device";
const CUT_OFF: &str = "a transaction that outgrew its device was cut off half done: open the database for writing, \
                       which takes it back";

/// The moment that a store is read at.
pub(super) struct Beside {
    moment: Moment,
    image: PathBuf,
}

impl Store {
    /// Reads the store in an image that another process may be writing, as it was at one moment. No lock is held and
    /// nothing is written to the image: what is done here is gone with the store.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_beside(path: &Path, options: StoreOptions) -> Result<Store, OpenError> {
        Ok(Store(Arc::new(Home::new(Core::beside(path, options)?))))
    }

    /// Whether it is read beside who writes it.
    pub(super) fn is_beside(&self) -> bool {
        self.here().beside.is_some()
    }

    /// Whether all that was read so far is what the image has: false when its writer went on, in a store that was
    /// opened beside it.
    pub fn is_unchanged(&self) -> bool {
        self.here().beside.as_ref().is_none_or(|beside| beside.moment.is_unchanged())
    }
}

impl Core {
    fn beside(path: &Path, options: StoreOptions) -> Result<Core, OpenError> {
        let mut last: Option<String> = None;
        let attempt = || {
            let drive = match ImageDrive::open_beside(path) {
                Ok(drive) => drive,
                Err(error) => return Some(Err(OpenError::Image(error))),
            };
            let moment = drive.moment()?;
            let (annex, named) = (Some(drive.annex()), drive.named());
            let done = Core::mount(Box::new(drive), annex, options)
                .and_then(|core| core.ok_or(StoreError::NoStore));
            let unchanged = moment.is_unchanged();
            match done {
                Ok(mut core) => unchanged.then(|| {
                    moment.settle(core.tail.take());
                    core.named = named;
                    core.beside = Some(Beside { moment, image: path.to_path_buf() });
                    Ok(core)
                }),
                // The log went on while it was read, which may look like damage once: not the same twice.
                Err(error) => {
                    let text = error.to_string();
                    let again = unchanged && last.as_ref() == Some(&text);
                    last = Some(text);
                    let path = path.display().to_string();
                    again.then(|| Err(OpenError::Store { path, error }))
                }
            }
        };
        let none = || Err(OpenError::Image(LiveError::Restless { path: path.to_path_buf() }));
        patiently(attempt).unwrap_or_else(none)
    }

    /// Whether it is read beside its writer, who has gone on.
    pub(super) fn is_overtaken(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.moment.is_unchanged())
    }

    /// Before a connection begins to read `id`: the newest state, unless somebody here reads. `only`: it may not write, so
    /// SQLite will not take back what is half done. (Whoever may write takes it back here, in memory.)
    pub(super) fn refresh(&mut self, id: Id, only: bool) -> Done<()> {
        self.take_newest()?;
        let Some(beside) = self.beside.as_ref().filter(|_| only) else { return Ok(()) };
        let half = self
            .objects
            .get(&id)
            .is_some_and(|object| self.journal_live(&journal_of(&object.name)));
        if !half {
            return Ok(());
        }
        // Who has let go since the state was read has ended it first: there is a newer one.
        if beside.moment.has_writer() || !beside.moment.is_unchanged() {
            return Err(self.busy(HALF_DONE));
        }
        self.error = Some(CUT_OFF.to_string());
        Ok(())
    }

    /// What SQLite is told when it may try again.
    fn busy(&mut self, why: &str) -> TxError {
        self.explain(TxError::TooManyOpen(0), why)
    }

    fn take_newest(&mut self) -> Done<()> {
        let Some(beside) = &self.beside else { return Ok(()) };
        if self.objects.values().any(|object| object.locks.is_held())
            || beside.moment.is_unchanged()
        {
            return Ok(());
        }
        let image = beside.image.clone();
        let mut fresh = Core::beside(&image, self.options).map_err(|error| {
            let busy = error.is_busy();
            let text = error.to_string();
            match busy {
                true => self.busy(&text),
                false => self.explain(DeviceError::Io(text.clone()), &text),
            }
        })?;
        // All that is open here must be there before anything is taken over: a failure changes nothing.
        for (id, old) in self.objects.iter().filter(|(_, old)| old.open > 0) {
            let name = || old.name.clone();
            let object = fresh.objects.entry(*id);
            let object = object.or_insert_with(|| Object { name: name(), ..Object::default() });
            if object.name != old.name {
                let gone =
                    "a database that is open here was deleted by the process that has the image";
                return Err(DeviceError::Io(gone.to_string()).into());
            }
            fresh.names.entry(name()).or_insert(*id);
            if old.wal.is_some() {
                fresh.wal_open(*id)?;
            }
        }
        fresh.next_file = self.next_file;
        fresh.path.clone_from(&self.path);
        fresh.in_image = self.in_image;
        fresh.error = self.error.take();
        fresh.sleepers = std::mem::take(&mut self.sleepers);
        for (id, old) in std::mem::take(&mut self.objects) {
            if let Some(object) = fresh.objects.get_mut(&id).filter(|_| old.open > 0) {
                (object.open, object.locks, object.shm) = (old.open, old.locks, old.shm);
                // What they know of the log is of the old state.
                object.shm.clear();
            }
        }
        *self = fresh;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, ffi};

    use super::super::Stores;
    use super::*;
    use crate::abi::Api;
    use crate::vfs::Level;

    /// Between the mount of a state that is half done and the question who writes it, its writer may have ended it and
    /// closed: then there is nothing to be taken back. (A lock that is held here stands for the moment between the two.)
    #[test]
    fn who_has_just_ended_what_was_half_done_was_not_killed() {
        let path = std::env::temp_dir().join(format!("varve-half-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let api = Api::new(
            ffi::sqlite3_vfs_find,
            ffi::sqlite3_vfs_register,
            ffi::sqlite3_uri_parameter,
            ffi::sqlite3_malloc,
            ffi::sqlite3_log,
        );
        let (stores, vfs) = (Stores::new(), format!("half-{}", std::process::id()));
        stores.register(&api, &vfs, false, None).expect("a VFS");
        let store = Store::create(&path, block::Bytes(4 << 20), StoreOptions::default());
        let store = store.expect("a store");
        stores.add("/half", &store);
        let db = Connection::open_with_flags_and_vfs("/half", Default::default(), vfs.as_str());
        let db = db.expect("a database");
        db.execute_batch(
            "CREATE TABLE t(v BLOB);
             WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 700)
             INSERT INTO t SELECT randomblob(3000) FROM x;
             PRAGMA cache_size=10; BEGIN; UPDATE t SET v = randomblob(3000);",
        )
        .expect("half done");
        assert!(store.stats().fallbacks > 0, "{:?}", store.stats());

        let beside = Store::open_beside(&path, StoreOptions::default()).expect("beside");
        let mut core = beside.here();
        let id = core.id_of("main").expect("the database");
        assert!(
            core.refresh(id, true).is_err() && core.why.take().is_some_and(|why| why == HALF_DONE)
        );
        assert!(core.refresh(id, false).is_ok(), "who may write takes it back in memory");
        core.objects
            .get_mut(&id)
            .expect("open")
            .locks
            .lock(99, Level::Shared)
            .expect("nobody has it");
        db.execute_batch("COMMIT").expect("whole");
        db.close().expect("closed");
        stores.remove("/half");
        drop(store);
        let told = core.refresh(id, true);
        assert!(told.is_err() && core.why.take().is_some_and(|why| why == HALF_DONE), "{told:?}");
        assert_eq!(core.error, None);
        std::fs::remove_file(&path).expect("removed");
    }
}
