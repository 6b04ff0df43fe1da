//! SQLite's calls on an open file of a store.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use block::DeviceError;

use super::batch::Batch;
use super::{MISSED, Place, StoreFile, forget_missed};
use crate::store::core::{Core, Done};
use crate::store::home::Missed;
use crate::store::spool::{patch, spooled};
use crate::store::{Bug, Checkpoint, Way, pragma};
use crate::vfs::{Answer, Caller, Code, Control, File, Kind, Level, Raw, Region, Reply, flag};

const TWO_FILES: &str = "one COMMIT cannot bind a database of this store and one outside of it: a \
     power cut could leave one half. Commit them one after the other, or keep them in one store, as \
     image.varve and image.varve/other";

/// Within the first page, where SQLite looks whether others have changed the database. It reads that page whole before it
/// asks for a lock to write; so who was refused that lock may have seen the schema of a commit, or `user_version`, that
/// is not durable, and lets go without waiting: it cannot be told from one who only begins.
const HEADER: u64 = 100;

fn one_store(core: &mut Core, is_one: bool) -> Done<()> {
    match is_one {
        true => Ok(()),
        false => Err(core.explain(DeviceError::Unsupported("one commit of two files"), TWO_FILES)),
    }
}

impl StoreFile {
    /// Writes to an object of a store.
    pub(super) fn write_object(&mut self, caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        self.on(Code::IOERR_WRITE, |file, core, id| {
            if file.kind == Kind::Wal {
                let database = file.database(core);
                return core.wal_write(id, database, data, at);
            }
            if file.checkpoint
                && core.options.checkpoint == Checkpoint::Remap
                && let Some(log) = file.log_of(core)
                && core.wal_pair(log, data, at)?
            {
                return Ok(());
            }
            let checkpoint = file.checkpoint;
            file.change(
                core,
                caller,
                id,
                |core, owner, group| core.write_tagged(owner, group, id, data, at),
                // A checkpoint has what it needs since the frames were written.
                |core| {
                    if !checkpoint {
                        core.may_grow(None, id, at + data.len() as u64)?;
                    }
                    core.write_plain(id, data, at)
                },
            )
        })
    }
}

impl File for StoreFile {
    fn read(&mut self, caller: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        match &self.place {
            Place::Memory(bytes) => Ok(copy(bytes, out, at)),
            Place::Journal(..) => self.on_journal(Code::IOERR_READ, |core, name| {
                let journal = core.journals.get(name);
                Ok(journal.map_or(Ok(0), |journal| journal.data.read(out, at)).map_err(spooled)?)
            }),
            Place::Object(..) => self.on(Code::IOERR_READ, |file, core, id| {
                if file.kind == Kind::Wal {
                    let database = file.database(core);
                    return core.wal_read(id, database, out, at);
                }
                core.readable()?;
                file.looked |= at > HEADER;
                if let Some(since) = core.passed_at(id, file.number) {
                    return core.read_since(id, since, out, at);
                }
                let owner = file.owner(core, caller, id);
                core.read(Some(owner), id, out, at)
            }),
        }
    }

    fn write(&mut self, caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        if self.read_only {
            return Err(Code::READONLY);
        }
        match &mut self.place {
            Place::Memory(bytes) => {
                patch(bytes, data, at);
                Ok(())
            }
            Place::Journal(store, name) => {
                let bound = match (&self.stores, self.kind) {
                    (Some(stores), Kind::Journal) => stores.is_bound_here(store, name, data, at),
                    _ => Ok(true),
                };
                self.on_journal(Code::IOERR_WRITE, |core, name| {
                    one_store(core, bound?)?;
                    core.journal_write(name, data, at)
                })
            }
            Place::Object(store, _) => {
                let store = store.clone();
                let mut done = self.write_object(caller, data, at);
                while done == Err(Code::FULL) && store.0.has_grown_quiet() {
                    self.reason = None;
                    done = self.write_object(caller, data, at);
                }
                if let (Err(code), Some(batch)) = (done, &mut self.in_batch) {
                    batch.told(code);
                }
                done
            }
        }
    }

    fn truncate(&mut self, caller: Caller, size: u64) -> Answer<()> {
        match &mut self.place {
            Place::Memory(bytes) => {
                bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
                Ok(())
            }
            Place::Journal(..) => self
                .on_journal(Code::IOERR_TRUNCATE, |core, name| core.journal_truncate(name, size)),
            Place::Object(..) => self.on(Code::IOERR_TRUNCATE, |file, core, id| {
                if file.kind == Kind::Wal {
                    return core.wal_truncate(id, size);
                }
                file.change(
                    core,
                    caller,
                    id,
                    |core, owner, group| core.truncate_tagged(owner, group, id, size),
                    |core| core.truncate_plain(id, size),
                )
            }),
        }
    }

    fn sync(&mut self, caller: Caller, _flags: c_int) -> Answer<()> {
        self.wish = false;
        match &self.place {
            Place::Memory(_) => Ok(()),
            Place::Journal(store, name) => {
                if let (Some(stores), Kind::Super) = (&self.stores, self.kind) {
                    let bound = stores.bind(store, name);
                    self.on_journal(Code::IOERR_FSYNC, |core, _| one_store(core, bound?))?;
                }
                self.on_journal(Code::IOERR_FSYNC, |core, name| core.journal_sync(name))
            }
            Place::Object(..) => self.on(Code::IOERR_FSYNC, |file, core, id| {
                if file.kind == Kind::Wal {
                    return core.wal_sync(id);
                }
                if core.has_bug(Bug::CommitAtSync) {
                    let owner = file.owner(core, caller, id);
                    return core.commit(&[owner]);
                }
                if file.tagged(core, caller, id) {
                    let owner = file.owner(core, caller, id);
                    core.is_wanted(owner);
                    return Ok(());
                }
                core.sync_plain()
            }),
        }
    }

    fn size(&mut self, caller: Caller) -> Answer<u64> {
        match &self.place {
            Place::Memory(bytes) => Ok(bytes.len() as u64),
            Place::Journal(..) => self.on_journal(Code::IOERR_FSTAT, |core, name| {
                Ok(core.journals.get(name).map_or(0, |journal| journal.data.len()))
            }),
            Place::Object(..) => self.on(Code::IOERR_FSTAT, |file, core, id| {
                let wal = core.objects.get(&id).and_then(|object| object.wal.as_ref());
                Ok(match (wal, core.passed_at(id, file.number)) {
                    (Some(wal), _) => wal.size,
                    (None, Some(since)) => core.size_since(id, since),
                    (None, None) => core.size_of(Some(file.owner(core, caller, id)), id),
                })
            }),
        }
    }

    fn lock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        let Place::Object(store, id) = &self.place else { return Ok(()) };
        let missed = Missed { id: *id, file: self.number, want: level };
        let home = Arc::downgrade(&store.0);
        self.on(Code::IOERR_LOCK, |file, core, id| {
            if level == Level::Shared {
                core.refresh(id, file.read_only)?;
            }
            let Some(object) = core.objects.get_mut(&id) else { return Ok(Err(Code::IOERR_LOCK)) };
            let locked = object.locks.lock(file.number, level);
            // What was missed before is not what is waited for next.
            forget_missed();
            match locked {
                Ok(()) if level == Level::Shared => {
                    (file.saw, file.looked, file.refused) = (object.logged, false, false);
                }
                Ok(()) => {}
                Err(_) => {
                    file.refused = true;
                    MISSED.set(Some((home, missed)));
                }
            }
            Ok(locked)
        })??;
        self.level = self.level.max(level);
        if level > Level::Shared {
            self.writer = self.writer.or(caller);
        }
        Ok(())
    }

    fn unlock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        let Place::Object(..) = &self.place else { return Ok(()) };
        let mut passable = false;
        let done = self.on(Code::IOERR, |file, core, id| {
            let owner = file.owner(core, caller, id);
            let mut done = Ok(());
            if file.level == Level::Exclusive
                && level < Level::Exclusive
                && core.options.way == Way::Controls
                && core.wrote(owner, id)
            {
                done = core.give_up(owner);
            }
            let (owed, waits) = file.owed(core, file.level, level);
            (core.owed, passable) = (owed, waits);
            if let Some(object) = core.objects.get_mut(&id) {
                object.locks.unlock(file.number, level);
                object.locks.wait(file.number, waits);
            }
            core.forget_past(id);
            core.wake();
            file.level = file.level.min(level);
            if level <= Level::Shared {
                file.writer = None;
            }
            done
        });
        if passable {
            self.on(Code::IOERR, |file, core, id| {
                if let Some(object) = core.objects.get_mut(&id) {
                    object.locks.wait(file.number, false);
                }
                Ok(())
            })?;
        }
        done
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        let Place::Object(..) = &self.place else { return Ok(false) };
        self.on(Code::IOERR_LOCK, |_, core, id| {
            Ok(core.objects.get(&id).is_some_and(|object| object.locks.reserved()))
        })
    }

    fn control(&mut self, caller: Caller, control: Control<'_>, _: Raw) -> Answer<Reply> {
        if let Control::VfsName = control {
            return Ok(Reply::Text(self.vfs.clone()));
        }
        let (Kind::Database, Place::Object(store, _)) = (self.kind, &self.place) else {
            return Ok(Reply::NotFound);
        };
        if let Control::Pragma(name, value) = control {
            let store = store.clone();
            return Ok(pragma::answer(&store, name, value));
        }
        self.on(Code::IOERR, |file, core, id| match control {
            Control::Sync => {
                file.wish = true;
                Ok(Reply::Done)
            }
            Control::CommitPhaseTwo => file.commit(core, caller, id).map(|()| Reply::Done),
            Control::BatchBegin if file.batch && core.options.way == Way::Controls => {
                let owner = file.owner(core, caller, id);
                file.in_batch = Some(Batch::begin(core, owner, id));
                Ok(Reply::Done)
            }
            Control::BatchCommit if file.in_batch.is_some() => {
                // Durable at COMMIT_PHASETWO, which follows: in mode MEMORY SQLite also makes one
                // batch for each of several files, and those are to commit together.
                file.in_batch = None;
                Ok(Reply::Done)
            }
            Control::BatchRollback if file.in_batch.is_some() => {
                let owner = file.owner(core, caller, id);
                let batch = file.in_batch.take();
                batch.map_or(Ok(()), |batch| batch.back(core, owner, id)).map(|()| Reply::Done)
            }
            Control::CheckpointStart => {
                file.checkpoint = true;
                Ok(Reply::Done)
            }
            Control::CheckpointDone => {
                file.checkpoint = false;
                if let Some(log) = file.log_of(core) {
                    // SQLite does not look at the answer: the store refuses all further writes, and
                    // the log, which still has every page, is read at the next opening.
                    core.wal_settle(log, id).inspect_err(|error| core.break_off(error))?;
                }
                Ok(Reply::Done)
            }
            // SQLite writes no more then: its commits would be of a file that nobody finds by that name.
            Control::HasMoved => Ok(Reply::Number(i64::from(core.has_moved()))),
            Control::MmapSize => Ok(Reply::Number(0)),
            Control::SizeHint(_) => Ok(Reply::Done),
            _ => Ok(Reply::NotFound),
        })
    }

    fn reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn sector_size(&mut self) -> c_int {
        4096
    }

    fn characteristics(&mut self) -> c_int {
        flag::POWERSAFE_OVERWRITE | if self.batch { flag::BATCH_ATOMIC } else { 0 }
    }

    fn close(&mut self, caller: Caller) -> Answer<()> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            Place::Journal(..) if self.delete_on_close => {
                let full = self.full.clone();
                self.on_journal(Code::IOERR_DELETE, |core, name| core.journal_delete(name, &full))
            }
            Place::Journal(..) => Ok(()),
            Place::Object(..) => self.on(Code::IOERR, |file, core, id| {
                let owner = file.owner(core, caller, id);
                let mut done = Ok(());
                let mine = core.options.way == Way::Controls && file.kind == Kind::Database;
                if mine && core.wrote(owner, id) {
                    done = core.give_up(owner);
                }
                core.owed = file.owed(core, file.level, Level::None).0;
                if let Some(object) = core.objects.get_mut(&id) {
                    object.locks.unlock(file.number, Level::None);
                    object.shm.leave(file.number);
                    object.open -= 1;
                    if object.open == 0 && file.kind == Kind::Wal && object.wal.is_some() {
                        // As a file would: what was not synced is still there for the next opener.
                        done = done.and(core.wal_sync(id));
                        if let Some(object) = core.objects.get_mut(&id) {
                            object.wal = None;
                        }
                    }
                }
                core.forget_past(id);
                core.wake();
                let last = core.objects.values().all(|object| object.open == 0);
                if last && core.broken.is_none() && core.beside.is_none() {
                    let flushed = done.and_then(|()| core.flush_group_as(true));
                    done = flushed.and_then(|()| core.sync_plain());
                }
                done
            }),
        }
    }

    fn has_shm(&self) -> bool {
        self.kind == Kind::Database
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        let Place::Object(..) = &self.place else { return Err(Code::IOERR_SHMOPEN) };
        self.on(Code::IOERR_SHMOPEN, |file, core, id| {
            let Some(object) = core.objects.get_mut(&id) else {
                return Ok(Err(Code::IOERR_SHMOPEN));
            };
            let shm = &mut object.shm;
            shm.join(file.number);
            file.shm = true;
            while shm.regions.len() <= region {
                if !extend {
                    return Ok(Ok(std::ptr::null_mut()));
                }
                shm.regions.push((0..bytes.div_ceil(8)).map(|_| Default::default()).collect());
            }
            Ok(Ok(shm.regions[region].as_ptr().cast_mut().cast::<c_void>()))
        })?
        .map(Region::from)
    }

    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        let Place::Object(..) = &self.place else { return Err(Code::IOERR_SHMOPEN) };
        self.on(Code::IOERR_SHMOPEN, |file, core, id| {
            let Some(object) = core.objects.get_mut(&id) else {
                return Ok(Err(Code::IOERR_SHMOPEN));
            };
            forget_missed();
            Ok(object.shm.lock(file.number, first, count, flags))
        })?
    }

    fn shm_barrier(&mut self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    fn shm_unmap(&mut self, _delete: bool) -> Answer<()> {
        if !std::mem::take(&mut self.shm) {
            return Ok(());
        }
        self.on(Code::IOERR_SHMOPEN, |file, core, id| {
            if let Some(object) = core.objects.get_mut(&id) {
                object.shm.leave(file.number);
            }
            Ok(())
        })
    }
}

fn copy(bytes: &[u8], out: &mut [u8], at: u64) -> usize {
    let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let there = (bytes.len() - from).min(out.len());
    out[..there].copy_from_slice(&bytes[from..from + there]);
    there
}
