//! An open file of a store: which of SQLite's calls belong to which transaction.
//!
//! Invariants:
//! * by file controls, a database write is tagged while its lock is EXCLUSIVE, no log is open and
//!   its journal has no durable copy; all tagged files of a connection commit at its first
//!   `COMMIT_PHASETWO`, or with the super-journal;
//! * by the life of the journal, a database write is tagged while its journal is live;
//! * no call answers before what it has committed is durable, but for a commit whose lock SQLite lowers next: that
//!   call waits, after it has lowered the lock.

mod batch;
mod calls;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use block::{DeviceError, TxError};

use self::batch::Batch;
use super::asked::Asked;
use super::core::{Core, Done, Id};
use super::device::{code, last_code};
use super::home::{Home, Missed};
use super::journal::journal_of;
use super::objects::Owner;
use super::{Bug, Store, Stores, Way};
use crate::vfs::{Answer, Caller, Code, Kind, Level, flag};

thread_local! {
    /// The lock that this thread has found taken last: SQLite sleeps next, if anybody asked it to wait.
    static MISSED: RefCell<Option<(Weak<Home>, Missed)>> = const { RefCell::new(None) };
    /// The store of the database that this thread has worked on last: files beside a database are its own.
    static WORKS_ON: RefCell<Weak<Home>> = const { RefCell::new(Weak::new()) };
}

/// Whether this thread has worked on a database of a store last.
pub(super) fn works_on(store: &Store) -> bool {
    WORKS_ON.with_borrow(|home| std::ptr::eq(home.as_ptr(), Arc::as_ptr(&store.0)))
}

/// Takes it.
pub(super) fn missed() -> Option<(Arc<Home>, Missed)> {
    let (home, missed) = MISSED.take()?;
    Some((home.upgrade()?, missed))
}

/// Whatever this thread has missed before, it is something else that it waits for now.
pub(crate) fn forget_missed() {
    MISSED.set(None);
}

/// What a file stands on.
enum Place {
    /// An object; the name of the database for a log.
    Object(Store, Id),
    /// A journal or super-journal, by its name.
    Journal(Store, Arc<str>),
    /// Nobody else's memory.
    Memory(Vec<u8>),
}

pub(super) struct StoreFile {
    vfs: String,
    kind: Kind,
    place: Place,
    /// The object's name, those of the journal and the log beside it, and the name SQLite opened.
    object: String,
    journal: String,
    log: String,
    full: String,
    /// Number among the files of its store.
    number: u64,
    level: Level,
    /// The connection that has begun to write. With a shared cache another one, which only reads, may make
    /// SQLite write a page of it.
    writer: Caller,
    batch: bool,
    in_batch: Option<Batch>,
    read_only: bool,
    delete_on_close: bool,
    /// Inside a checkpoint.
    checkpoint: bool,
    /// `SQLITE_FCNTL_SYNC` came, and no sync yet.
    wish: bool,
    /// The last transaction was never synced: `synchronous=OFF`.
    unsynced: bool,
    shm: bool,
    /// A super-journal may name files of other stores, and a journal one of another store.
    stores: Option<Stores>,
    /// It was opened by a URI that names the VFS: counted by whoever asks for that.
    _by_uri: Option<Arc<()>>,
    /// Why the last call failed, until SQLite's log is told.
    reason: Option<String>,
    /// The commit that is not durable yet, and that the next lowering of the lock waits for.
    owes: Option<u64>,
    /// The last commit of the log that it has seen.
    saw: u64,
    /// Since it has its shared lock: it has read more than the first page, and it was refused another lock.
    looked: bool,
    refused: bool,
}

impl StoreFile {
    pub(super) fn among(mut self, stores: &Stores) -> StoreFile {
        let binds = matches!(self.kind, Kind::Super | Kind::Journal);
        self.stores = binds.then(|| stores.clone());
        self
    }

    pub(super) fn with_uri(self, by_uri: Option<Arc<()>>) -> StoreFile {
        StoreFile { _by_uri: by_uri, ..self }
    }

    pub(super) fn temporary(vfs: &str) -> StoreFile {
        StoreFile::new(vfs, Kind::Temp, Place::Memory(Vec::new()))
    }

    fn new(vfs: &str, kind: Kind, place: Place) -> StoreFile {
        StoreFile {
            vfs: vfs.to_string(),
            kind,
            place,
            object: String::new(),
            journal: String::new(),
            log: String::new(),
            full: String::new(),
            number: 0,
            level: Level::None,
            writer: None,
            batch: false,
            in_batch: None,
            read_only: false,
            delete_on_close: false,
            checkpoint: false,
            wish: false,
            unsynced: false,
            shm: false,
            stores: None,
            _by_uri: None,
            reason: None,
            owes: None,
            saw: 0,
            looked: false,
            refused: false,
        }
    }

    /// Opens the file that was asked for, by the name of its object.
    pub(super) fn open(vfs: &str, store: Store, object: &str, asked: &Asked) -> Answer<StoreFile> {
        let Asked { path: full, kind, flags, batch, .. } = asked;
        let (kind, flags, batch) = (*kind, *flags, *batch);
        let place = {
            let mut core = store.core()?;
            let (create, only) = (flags & flag::CREATE != 0, flags & flag::EXCLUSIVE != 0);
            if matches!(kind, Kind::Journal | Kind::Super) {
                match core.journals.contains_key(object) {
                    true if create && only => return Err(Code::CANTOPEN),
                    false if !create => return Err(Code::CANTOPEN),
                    false => drop(core.new_journal(object)),
                    true => {}
                }
                None
            } else {
                let id = match core.id_of(object) {
                    Some(_) if create && only => return Err(Code::CANTOPEN),
                    None if !create => return Err(Code::CANTOPEN),
                    _ => core.make(object),
                };
                if kind == Kind::Wal {
                    core.wal_open(id).map_err(|error| {
                        core.refused(&error);
                        code(&error, Code::IOERR)
                    })?;
                }
                if let Some(found) = core.objects.get_mut(&id) {
                    found.open += 1;
                }
                Some(id)
            }
        };
        let number = {
            let mut core = store.core()?;
            core.next_file += 1;
            core.next_file
        };
        let place = match place {
            Some(id) => Place::Object(store, id),
            None => Place::Journal(store, object.into()),
        };
        Ok(StoreFile {
            object: object.to_string(),
            journal: journal_of(object),
            log: format!("{object}-wal"),
            full: full.to_string(),
            number,
            batch,
            read_only: flags & flag::READONLY != 0,
            delete_on_close: flags & flag::DELETEONCLOSE != 0,
            ..StoreFile::new(vfs, kind, place)
        })
    }

    pub(super) fn delete(store: &Store, object: &str, full: &str) -> Answer<()> {
        let mut core = store.core()?;
        let failed = |e: TxError| last_code(&e, Code::IOERR_DELETE);
        if core.journals.contains_key(object) {
            let done = core.journal_delete(object, full);
            let (mut core, done) = store.answer(core, done);
            return done.map_err(|error| {
                core.refused(&error);
                failed(error)
            });
        }
        let id = core.id_of(object).ok_or(Code::IOERR_DELETE_NOENT)?;
        // SQLite closes a log of its own before it deletes it.
        if core.objects.get(&id).is_some_and(|o| o.open > 0) {
            return Err(Code::BUSY);
        }
        core.remove_object(id).map_err(failed)
    }

    /// As a file system would say for an empty file: no.
    pub(super) fn is_there(store: &Store, object: &str) -> Answer<bool> {
        let core = store.core()?;
        if let Some(journal) = core.journals.get(object) {
            return Ok(!journal.data.is_empty());
        }
        Ok(core.id_of(object).is_some_and(|id| core.size_of(None, id) > 0))
    }

    /// Runs `body` on the store of an object. The reason of a failure is kept for SQLite's log and
    /// for `PRAGMA varve_error`; `otherwise`: the code where there is none of its own.
    fn on<T>(
        &mut self,
        otherwise: Code,
        body: impl FnOnce(&mut StoreFile, &mut Core, Id) -> Done<T>,
    ) -> Answer<T> {
        let Place::Object(store, id) = &self.place else { return Err(otherwise) };
        let (store, id) = (store.clone(), *id);
        if self.kind == Kind::Database && !works_on(&store) {
            WORKS_ON.set(Arc::downgrade(&store.0));
        }
        let mut core = store.core().inspect_err(|e| self.reason = Some(e.to_string()))?;
        let done = body(self, &mut core, id);
        let (mut core, done) = store.answer(core, done);
        done.map_err(|error| self.failed(&mut core, &error, otherwise))
    }

    /// The same for a journal, which is given by its name.
    fn on_journal<T>(
        &mut self,
        otherwise: Code,
        body: impl FnOnce(&mut Core, &str) -> Done<T>,
    ) -> Answer<T> {
        let Place::Journal(store, name) = &self.place else { return Err(otherwise) };
        let (store, name) = (store.clone(), Arc::clone(name));
        let mut core = store.core().inspect_err(|e| self.reason = Some(e.to_string()))?;
        let done = body(&mut core, &name);
        let (mut core, done) = store.answer(core, done);
        // Its last steps end a transaction.
        done.map_err(|error| {
            let code = self.failed(&mut core, &error, otherwise);
            if code == Code::BUSY { otherwise } else { code }
        })
    }

    fn failed(&mut self, core: &mut Core, error: &TxError, otherwise: Code) -> Code {
        if matches!(error, TxError::Device(_)) && core.is_overtaken() {
            let text =
                "the process that writes the image has reused what was read here: begin anew";
            let error = core.explain(error.clone(), text);
            self.reason = Some(core.refused(&error));
            return Code::BUSY_SNAPSHOT;
        }
        self.reason = Some(core.refused(error));
        code(error, otherwise)
    }

    fn owner(&self, core: &Core, caller: Caller, id: Id) -> Owner {
        match (core.options.way, self.writer.or(caller)) {
            (Way::Controls, Some(connection)) if !core.has_bug(Bug::PhaseTwoPerFile) => {
                Owner::Connection(connection)
            }
            _ => Owner::Object(id),
        }
    }

    /// Whether a change of the database belongs to a transaction.
    fn tagged(&self, core: &Core, caller: Caller, id: Id) -> bool {
        let object = core.objects.get(&id);
        // A fall-back that failed half way has left the transaction as it was.
        let begun = core.wrote(self.owner(core, caller, id), id);
        if self.kind != Kind::Database || (core.journal_durable(&self.journal) && !begun) {
            return false;
        }
        match core.options.way {
            Way::JournalLife => core.journal_live(&self.journal),
            Way::Controls => {
                let log = core.id_of(&self.log);
                let logged =
                    log.is_some_and(|log| core.objects.get(&log).is_some_and(|o| o.open > 0));
                if self.checkpoint && core.has_bug(Bug::CheckpointTagged) {
                    return true;
                }
                // The planted bug takes a spill for something else: the journal is not closed yet.
                let spilled = core.has_bug(Bug::SpillUntagged) && !self.wish;
                object.is_some() && self.level == Level::Exclusive && !logged && !spilled
            }
        }
    }

    fn grouping(&self, core: &Core) -> bool {
        core.options.group > 0 || self.unsynced || core.is_logging()
    }

    /// Runs a change in the transaction of this file; where the device has no room for it, the
    /// journals become durable and the change is made plainly.
    fn change(
        &self,
        core: &mut Core,
        caller: Caller,
        id: Id,
        tagged: impl Fn(&mut Core, Owner, bool) -> Done<()>,
        plain: impl FnOnce(&mut Core) -> Done<()>,
    ) -> Done<()> {
        if !self.tagged(core, caller, id) {
            core.journal_first(&self.journal)?;
            return plain(core);
        }
        let owner = self.owner(core, caller, id);
        let (group, alone) = (self.grouping(core), !core.journal_live(&self.journal));
        let mut done = tagged(core, owner, group);
        while alone && matches!(done, Err(TxError::Full(_))) && core.grow_for_transaction()? {
            done = tagged(core, owner, group);
        }
        match done {
            Err(TxError::Full(most)) => {
                if self.in_batch.is_some() {
                    // SQLite takes an I/O error, but not FULL, for a reason to do it with a journal.
                    return Err(DeviceError::Unsupported("a batch this large").into());
                }
                let fallen = core.fall_back(owner, id).map_err(|error| match error {
                    TxError::Device(DeviceError::NoSpace(what)) => {
                        let why = format!(
                            "the transaction has more than the {most} pages this device keeps, and \
                             the store is too full to hold its journal: {what}"
                        );
                        core.explain(error, &why)
                    }
                    error => error,
                })?;
                if fallen {
                    return plain(core);
                }
                Err(core.explain(
                    TxError::Full(most),
                    &format!(
                        "the transaction has more than the {most} pages this device keeps; \
                         with journal_mode=DELETE it may be larger"
                    ),
                ))
            }
            done => done,
        }
    }

    fn commit(&mut self, core: &mut Core, caller: Caller, id: Id) -> Done<()> {
        let owner = self.owner(core, caller, id);
        self.unsynced = std::mem::take(&mut self.wish);
        if core.options.way == Way::JournalLife {
            return Ok(());
        }
        let unlocks = core.open.get(&owner).is_some_and(|tx| tx.unlocks);
        match core.commit(&[owner]) {
            Err(_) if core.has_bug(Bug::PhaseTwoErrorSwallowed) => Ok(()),
            done => {
                if unlocks {
                    self.owes = core.owed.take();
                }
                done
            }
        }
    }

    /// What the lowering of a lock, from `held`, waits for; `waits`: with a lock that the next writer may pass.
    fn owed(&mut self, core: &Core, held: Level, level: Level) -> (Option<u64>, bool) {
        if let Some(number) = self.owes.take() {
            self.saw = number;
            let early = core.has_bug(Bug::AnsweredEarly);
            return (Some(number).filter(|_| !early), level == Level::Shared);
        }
        // Who was refused and has read nothing lets go to try again.
        let seen = self.looked || !self.refused;
        let reader = core.options.read_wait && seen && !core.has_bug(Bug::ReaderAhead);
        let done = held >= Level::Shared && level == Level::None && reader;
        (Some(self.saw).filter(|_| done), false)
    }

    fn log_of(&self, core: &Core) -> Option<Id> {
        let log = core.id_of(&self.log)?;
        core.objects.get(&log).is_some_and(|o| o.wal.is_some()).then_some(log)
    }

    fn database(&self, core: &Core) -> Option<Id> {
        core.id_of(self.object.strip_suffix("-wal")?)
    }
}

#[cfg(test)]
mod tests {
    use block::{Bytes, Plant, RamDevice, Sectors};

    use super::super::StoreOptions;
    use super::*;
    use crate::vfs::File;

    /// SQLite sleeps for whatever it has found taken last, in a store or not: what was missed before is over.
    #[test]
    fn who_has_the_lock_does_not_sleep_for_what_it_missed_before() {
        let device = Box::new(RamDevice::new(Sectors(64 * 2048)));
        let options = StoreOptions { bug: Plant::default(), ..StoreOptions::default() };
        let store = Store::format(device, options).unwrap();
        let asked = Asked {
            path: "/s".to_string(),
            place: None,
            kind: Kind::Database,
            flags: flag::CREATE | flag::READWRITE,
            capacity: Bytes(0),
            options,
            cut: None,
            group: None,
            batch: false,
            by_uri: false,
        };
        let file = || StoreFile::open("v", store.clone(), "main", &asked).unwrap();
        let (mut one, mut other) = (file(), file());
        for level in [Level::Shared, Level::Reserved] {
            one.lock(None, level).unwrap();
        }
        other.lock(None, Level::Shared).unwrap();
        assert_eq!(other.lock(None, Level::Reserved), Err(Code::BUSY));
        assert!(missed().is_some() && missed().is_none(), "it is told once");
        assert_eq!(other.lock(None, Level::Reserved), Err(Code::BUSY));
        one.unlock(None, Level::None).unwrap();
        other.lock(None, Level::Reserved).unwrap();
        assert!(missed().is_none());
        one.lock(None, Level::Shared).unwrap();
        assert_eq!(one.lock(None, Level::Reserved), Err(Code::BUSY));
        assert_eq!(one.shm_lock(0, 1, flag::SHM_LOCK | flag::SHM_EXCLUSIVE), Ok(()));
        assert!(missed().is_none());
    }
}
