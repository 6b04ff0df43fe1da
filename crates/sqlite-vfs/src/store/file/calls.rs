//! SQLite's calls on an open file of a store.

use std::ffi::{c_int, c_void};

use block::TxError;

use super::{Place, StoreFile};
use crate::store::device::code;
use crate::store::journal::patch;
use crate::store::{Bug, Checkpoint, Way};
use crate::vfs::{Answer, Caller, Code, Control, File, Kind, Level, Raw, Reply, flag};

impl File for StoreFile {
    fn read(&mut self, caller: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        let failed = |e: TxError| code(&e, Code::IOERR_READ);
        match &self.place {
            Place::Memory(bytes) => Ok(copy(bytes, out, at)),
            Place::Journal(store, name) => {
                let core = store.core();
                Ok(core.journals.get(name).map_or(0, |journal| copy(&journal.data, out, at)))
            }
            Place::Object(store, id) => {
                let mut core = store.core();
                if self.kind == Kind::Wal {
                    let database = self.database(&core);
                    return core.wal_read(*id, database, out, at).map_err(failed);
                }
                let owner = self.owner(&core, caller, *id);
                core.read(Some(owner), *id, out, at).map_err(failed)
            }
        }
    }

    fn write(&mut self, caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        let failed = |e: TxError| code(&e, Code::IOERR_WRITE);
        if self.read_only {
            return Err(Code::READONLY);
        }
        match &mut self.place {
            Place::Memory(bytes) => patch(bytes, data, at),
            Place::Journal(store, name) => {
                store.core().journal_write(name, data, at).map_err(failed)?;
            }
            Place::Object(store, id) => {
                let (store, id) = (store.clone(), *id);
                let mut core = store.core();
                if self.kind == Kind::Wal {
                    let database = self.database(&core);
                    return core.wal_write(id, database, data, at).map_err(failed);
                }
                if self.checkpoint
                    && core.options.checkpoint == Checkpoint::Remap
                    && let Some(log) = self.log_of(&core)
                    && core.wal_pair(log, data, at).map_err(failed)?
                {
                    return Ok(());
                }
                self.change(
                    &mut core,
                    caller,
                    id,
                    |core, owner, group| core.write_tagged(owner, group, id, data, at),
                    |core| core.write_plain(id, data, at),
                )
                .map_err(failed)?;
            }
        }
        Ok(())
    }

    fn truncate(&mut self, caller: Caller, size: u64) -> Answer<()> {
        let failed = |e: TxError| code(&e, Code::IOERR_TRUNCATE);
        match &mut self.place {
            Place::Memory(bytes) => bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX)),
            Place::Journal(store, name) => {
                store.core().journal_truncate(name, size).map_err(failed)?;
            }
            Place::Object(store, id) => {
                let (store, id) = (store.clone(), *id);
                let mut core = store.core();
                if self.kind == Kind::Wal {
                    return core.wal_truncate(id, size).map_err(failed);
                }
                self.change(
                    &mut core,
                    caller,
                    id,
                    |core, owner, group| core.truncate_tagged(owner, group, id, size),
                    |core| core.truncate_plain(id, size),
                )
                .map_err(failed)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self, caller: Caller, _flags: c_int) -> Answer<()> {
        let failed = |e: TxError| code(&e, Code::IOERR_FSYNC);
        self.wish = false;
        match &self.place {
            Place::Memory(_) => Ok(()),
            Place::Journal(store, name) => {
                if let Some(stores) = &self.stores
                    && !stores.bind(store, name).map_err(failed)?
                {
                    store.core().error = Some(
                        "one COMMIT cannot bind a database of a store and one of another VFS"
                            .to_string(),
                    );
                    return Err(Code::IOERR_FSYNC);
                }
                store.core().journal_sync(name).map_err(failed)
            }
            Place::Object(store, id) => {
                let mut core = store.core();
                if self.kind == Kind::Wal {
                    return core.wal_sync(*id).map_err(failed);
                }
                if core.has_bug(Bug::CommitAtSync) {
                    let owner = self.owner(&core, caller, *id);
                    return core.commit(&[owner]).map_err(failed);
                }
                if self.tagged(&core, caller, *id) {
                    Ok(())
                } else {
                    core.sync_plain().map_err(failed)
                }
            }
        }
    }

    fn size(&mut self, caller: Caller) -> Answer<u64> {
        Ok(match &self.place {
            Place::Memory(bytes) => bytes.len() as u64,
            Place::Journal(store, name) => {
                store.core().journals.get(name).map_or(0, |journal| journal.data.len() as u64)
            }
            Place::Object(store, id) => {
                let core = store.core();
                match core.objects.get(id).and_then(|object| object.wal.as_ref()) {
                    Some(wal) => wal.size,
                    None => core.size_of(Some(self.owner(&core, caller, *id)), *id),
                }
            }
        })
    }

    fn lock(&mut self, _: Caller, level: Level) -> Answer<()> {
        let Place::Object(store, id) = &self.place else { return Ok(()) };
        let mut core = store.core();
        let object = core.objects.get_mut(id).ok_or(Code::IOERR_LOCK)?;
        object.locks.lock(self.number, level)?;
        self.level = self.level.max(level);
        Ok(())
    }

    fn unlock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        let Place::Object(store, id) = &self.place else { return Ok(()) };
        let mut core = store.core();
        let owner = self.owner(&core, caller, *id);
        let mut done = Ok(());
        if self.level == Level::Exclusive
            && level < Level::Exclusive
            && core.options.way == Way::Controls
            && core.wrote(owner, *id)
        {
            done = core.abort(owner);
        }
        if let Some(object) = core.objects.get_mut(id) {
            object.locks.unlock(self.number, level);
        }
        self.level = self.level.min(level);
        done.map_err(|e| code(&e, Code::IOERR))
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        let Place::Object(store, id) = &self.place else { return Ok(false) };
        Ok(store.core().objects.get(id).is_some_and(|object| object.locks.reserved()))
    }

    fn control(&mut self, caller: Caller, control: Control<'_>, _: Raw) -> Answer<Reply> {
        if let Control::VfsName = control {
            return Ok(Reply::Text(self.vfs.clone()));
        }
        if self.kind != Kind::Database {
            return Ok(Reply::NotFound);
        }
        if let Control::Pragma(name, value) = control {
            return Ok(self.pragma(name, value));
        }
        let Place::Object(store, id) = &self.place else { return Ok(Reply::NotFound) };
        let (store, id) = (store.clone(), *id);
        let mut core = store.core();
        let failed = |e: TxError| code(&e, Code::IOERR);
        match control {
            Control::Sync => {
                self.wish = true;
                Ok(Reply::Done)
            }
            Control::CommitPhaseTwo => {
                self.commit(&mut core, caller, id)?;
                Ok(Reply::Done)
            }
            Control::BatchBegin if self.batch && core.options.way == Way::Controls => {
                self.in_batch = true;
                Ok(Reply::Done)
            }
            Control::BatchCommit if self.in_batch => {
                // Durable at COMMIT_PHASETWO, which follows: in mode MEMORY SQLite also makes one
                // batch for each of several files, and those are to commit together.
                self.in_batch = false;
                Ok(Reply::Done)
            }
            Control::BatchRollback if self.in_batch => {
                self.in_batch = false;
                let owner = self.owner(&core, caller, id);
                core.abort(owner).map_err(failed)?;
                Ok(Reply::Done)
            }
            Control::CheckpointStart => {
                self.checkpoint = true;
                Ok(Reply::Done)
            }
            Control::CheckpointDone => {
                self.checkpoint = false;
                if let Some(log) = self.log_of(&core)
                    && let Err(error) = core.wal_settle(log, id)
                {
                    // SQLite does not look at the answer: the store refuses all further writes, and
                    // the log, which still has every page, is read at the next opening.
                    core.broken = true;
                    return Err(failed(error));
                }
                Ok(Reply::Done)
            }
            Control::HasMoved | Control::MmapSize => Ok(Reply::Number(0)),
            Control::SizeHint(_) => Ok(Reply::Done),
            _ => Ok(Reply::NotFound),
        }
    }

    fn sector_size(&mut self) -> c_int {
        4096
    }

    fn characteristics(&mut self) -> c_int {
        flag::POWERSAFE_OVERWRITE | if self.batch { flag::BATCH_ATOMIC } else { 0 }
    }

    fn close(&mut self, caller: Caller) -> Answer<()> {
        let (store, id) = match &self.place {
            Place::Object(store, id) => (store.clone(), *id),
            Place::Journal(store, name) if self.delete_on_close => {
                let failed = |e: TxError| code(&e, Code::IOERR_DELETE);
                return store.core().journal_delete(name, &self.full).map_err(failed);
            }
            _ => return Ok(()),
        };
        let mut core = store.core();
        let owner = self.owner(&core, caller, id);
        let mut done = Ok(());
        if core.options.way == Way::Controls && self.kind == Kind::Database && core.wrote(owner, id)
        {
            done = core.abort(owner);
        }
        if let Some(object) = core.objects.get_mut(&id) {
            object.locks.unlock(self.number, Level::None);
            object.shm.leave(self.number);
            object.open -= 1;
            if object.open == 0 && self.kind == Kind::Wal && object.wal.is_some() {
                // As a file would: what was not synced is still there for the next opener.
                done = done.and(core.wal_sync(id));
                if let Some(object) = core.objects.get_mut(&id) {
                    object.wal = None;
                }
            }
        }
        let last = core.objects.values().all(|object| object.open == 0);
        if last && !core.broken {
            done = done.and_then(|()| core.flush_group()).and_then(|()| core.sync_plain());
        }
        done.map_err(|e| code(&e, Code::IOERR))
    }

    fn has_shm(&self) -> bool {
        self.kind == Kind::Database
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<*mut c_void> {
        let Place::Object(store, id) = &self.place else { return Err(Code::IOERR_SHMOPEN) };
        let mut core = store.core();
        let shm = &mut core.objects.get_mut(id).ok_or(Code::IOERR_SHMOPEN)?.shm;
        shm.join(self.number);
        self.shm = true;
        while shm.regions.len() <= region {
            if !extend {
                return Ok(std::ptr::null_mut());
            }
            shm.regions.push((0..bytes.div_ceil(8)).map(|_| Default::default()).collect());
        }
        Ok(shm.regions[region].as_ptr().cast_mut().cast())
    }

    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        let Place::Object(store, id) = &self.place else { return Err(Code::IOERR_SHMOPEN) };
        let mut core = store.core();
        let object = core.objects.get_mut(id).ok_or(Code::IOERR_SHMOPEN)?;
        object.shm.lock(self.number, first, count, flags)
    }

    fn shm_barrier(&mut self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    fn shm_unmap(&mut self, _delete: bool) -> Answer<()> {
        if let Place::Object(store, id) = &self.place
            && std::mem::take(&mut self.shm)
            && let Some(object) = store.core().objects.get_mut(id)
        {
            object.shm.leave(self.number);
        }
        Ok(())
    }
}

fn copy(bytes: &[u8], out: &mut [u8], at: u64) -> usize {
    let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let there = (bytes.len() - from).min(out.len());
    out[..there].copy_from_slice(&bytes[from..from + there]);
    there
}
