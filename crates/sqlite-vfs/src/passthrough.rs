//! A VFS over the process's default one that changes nothing and tells an observer every call.
//!
//! With `batch` it claims BATCH_ATOMIC and keeps the pages of a batch in memory until its commit:
//! that counts what a build with batches would write, but is not crash safe. Only for measuring.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::{Api, Host, HostFile, Name, RegisterError, register};
use crate::event::{Call, Event, Observer};
use crate::vfs::{Answer, Caller, Code, Control, File, Kind, Level, Raw, Region, Reply, Vfs, flag};

/// Registers a pass-through VFS under `name`, over the VFS that is the default now.
///
/// # Errors
/// [`RegisterError`].
pub fn register_observed(
    api: &Api,
    name: &str,
    default: bool,
    batch: bool,
    observer: Arc<dyn Observer>,
) -> Result<(), RegisterError> {
    register(api, name, default, |host| Box::new(PassThrough { host, batch, observer }))
}

struct PassThrough {
    host: Host,
    batch: bool,
    observer: Arc<dyn Observer>,
}

impl Vfs for PassThrough {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        let (inner, got) = self.host.open(name, flags)?;
        let file = Watched {
            inner,
            kind: Kind::of(flags),
            name: name.text().unwrap_or("").to_string(),
            observer: Arc::clone(&self.observer),
            claims: if self.batch { flag::BATCH_ATOMIC } else { 0 },
            batch: None,
            level: Level::None,
            shm: false,
        };
        file.tell(Call::Open);
        let mut file = file;
        file.shm = file.inner.has_shm();
        Ok((Box::new(file), got))
    }

    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        self.host.delete(name, sync_dir)?;
        let text = name.text().unwrap_or("");
        let call = Call::Delete(sync_dir);
        self.observer.event(&Event { kind: Kind::of_name(text), name: text, call });
        Ok(())
    }

    fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool> {
        self.host.access(name, flags)
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        self.host.full_path(name)
    }
}

struct Watched {
    inner: HostFile,
    kind: Kind,
    name: String,
    observer: Arc<dyn Observer>,
    claims: c_int,
    batch: Option<Vec<(u64, Vec<u8>)>>,
    level: Level,
    shm: bool,
}

impl Watched {
    fn tell(&self, call: Call<'_>) {
        self.observer.event(&Event { kind: self.kind, name: &self.name, call });
    }

    fn batched(&mut self, control: &Control<'_>) -> Answer<Reply> {
        match control {
            Control::BatchBegin => {
                self.batch = Some(Vec::new());
                self.tell(Call::BatchBegin);
            }
            Control::BatchCommit => {
                for (at, data) in self.batch.take().unwrap_or_default() {
                    self.inner.write(&data, at)?;
                }
                self.tell(Call::BatchCommit);
            }
            _ => {
                self.batch = None;
                self.tell(Call::BatchRollback);
            }
        }
        Ok(Reply::Done)
    }
}

impl File for Watched {
    fn read(&mut self, _: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        let bytes = out.len() as u64;
        let done = self.inner.read(out, at);
        if done.is_ok() || done == Err(Code::IOERR_SHORT_READ) {
            self.tell(Call::Read { at, bytes });
        }
        // A short read has been filled up by the host; the code must reach SQLite as it is.
        done.map(|()| out.len())
    }

    fn write(&mut self, _: Caller, data: &[u8], at: u64) -> Answer<()> {
        match &mut self.batch {
            Some(pages) => pages.push((at, data.to_vec())),
            None => self.inner.write(data, at)?,
        }
        self.tell(Call::Write { at, data });
        Ok(())
    }

    fn truncate(&mut self, _: Caller, size: u64) -> Answer<()> {
        self.inner.truncate(size)?;
        self.tell(Call::Truncate(size));
        Ok(())
    }

    fn sync(&mut self, _: Caller, flags: c_int) -> Answer<()> {
        self.inner.sync(flags)?;
        self.tell(Call::Sync);
        Ok(())
    }

    fn size(&mut self, _: Caller) -> Answer<u64> {
        self.inner.size()
    }

    fn lock(&mut self, _: Caller, level: Level) -> Answer<()> {
        self.inner.lock(level)?;
        self.level = self.level.max(level);
        Ok(())
    }

    fn unlock(&mut self, _: Caller, level: Level) -> Answer<()> {
        self.inner.unlock(level)?;
        if self.level == Level::Exclusive && level < Level::Exclusive {
            self.tell(Call::Unlock);
        }
        self.level = level;
        Ok(())
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        self.inner.check_reserved()
    }

    fn control(&mut self, _: Caller, control: Control<'_>, raw: Raw) -> Answer<Reply> {
        let ours = self.claims & flag::BATCH_ATOMIC != 0;
        match control {
            Control::BatchBegin | Control::BatchCommit | Control::BatchRollback if ours => {
                return self.batched(&control);
            }
            Control::Sync => self.tell(Call::SyncWish),
            Control::CommitPhaseTwo => self.tell(Call::Commit),
            Control::CheckpointStart => self.tell(Call::CheckpointStart),
            Control::CheckpointDone => self.tell(Call::CheckpointDone),
            _ => {}
        }
        self.inner.control(raw)
    }

    fn sector_size(&mut self) -> c_int {
        self.inner.sector_size()
    }

    fn characteristics(&mut self) -> c_int {
        self.inner.characteristics() | self.claims
    }

    fn close(&mut self, _: Caller) -> Answer<()> {
        self.tell(Call::Close);
        self.inner.close()
    }

    fn has_shm(&self) -> bool {
        self.shm
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        self.inner.shm_map(region, bytes, extend)
    }

    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        self.inner.shm_lock(first, count, flags)
    }

    fn shm_barrier(&mut self) {
        self.inner.shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> Answer<()> {
        self.inner.shm_unmap(delete)
    }
}
