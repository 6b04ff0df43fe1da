//! What SQLite does to its files, told to somebody: a VFS around any other.
//!
//! A call is told after it has succeeded below.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_sqlite_vfs::Name;
use varve_sqlite_vfs::event::{Call, Event, Observer};
use varve_sqlite_vfs::vfs::{Answer, Caller, Control, File, Kind, Level, Raw, Region, Reply, Vfs};

/// Who listens, and changes by what it hears.
pub trait Tap: Send {
    /// A call has been made.
    fn event(&mut self, event: &Event<'_>);
}

/// A listener that others look at between the calls.
#[derive(Debug, Default)]
pub struct Shared<T>(Mutex<T>);

impl<T> Shared<T> {
    /// Shares a listener.
    pub fn new(tap: T) -> Arc<Shared<T>> {
        Arc::new(Shared(Mutex::new(tap)))
    }

    /// The listener, while SQLite does nothing.
    pub fn get(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Tap> Observer for Shared<T> {
    fn event(&self, event: &Event<'_>) {
        self.get().event(event);
    }
}

/// Two listeners.
pub struct Both(pub Arc<dyn Observer>, pub Arc<dyn Observer>);

impl Observer for Both {
    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
        self.1.event(event);
    }
}

/// A VFS that tells what is done to its files.
pub struct Watched<V> {
    below: V,
    observer: Arc<dyn Observer>,
}

impl<V: Vfs> Watched<V> {
    /// Watches `below` for `observer`.
    pub fn new(below: V, observer: Arc<dyn Observer>) -> Watched<V> {
        Watched { below, observer }
    }
}

impl<V: Vfs> Vfs for Watched<V> {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        let (below, flags) = self.below.open(name, flags)?;
        let file = WatchedFile {
            below,
            observer: Arc::clone(&self.observer),
            kind: Kind::of(flags),
            name: name.text().unwrap_or_default().to_string(),
            level: Level::None,
        };
        file.tell(Call::Open);
        Ok((Box::new(file), flags))
    }

    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        self.below.delete(name, sync_dir)?;
        let text = name.text().unwrap_or_default();
        let call = Call::Delete(sync_dir);
        self.observer.event(&Event { kind: Kind::of_name(text), name: text, call });
        Ok(())
    }

    fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool> {
        self.below.access(name, flags)
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        self.below.full_path(name)
    }

    fn randomness(&self, out: &mut [u8]) -> bool {
        self.below.randomness(out)
    }

    fn time(&self) -> Option<i64> {
        self.below.time()
    }

    fn last_error(&self) -> Option<String> {
        self.below.last_error()
    }
}

struct WatchedFile {
    below: Box<dyn File>,
    observer: Arc<dyn Observer>,
    kind: Kind,
    name: String,
    level: Level,
}

impl WatchedFile {
    fn tell(&self, call: Call<'_>) {
        self.observer.event(&Event { kind: self.kind, name: &self.name, call });
    }
}

impl File for WatchedFile {
    fn read(&mut self, caller: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        let found = self.below.read(caller, out, at)?;
        self.tell(Call::Read { at, bytes: out.len() as u64 });
        Ok(found)
    }

    fn write(&mut self, caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        self.below.write(caller, data, at)?;
        self.tell(Call::Write { at, data });
        Ok(())
    }

    fn truncate(&mut self, caller: Caller, size: u64) -> Answer<()> {
        self.below.truncate(caller, size)?;
        self.tell(Call::Truncate(size));
        Ok(())
    }

    fn sync(&mut self, caller: Caller, flags: c_int) -> Answer<()> {
        self.below.sync(caller, flags)?;
        self.tell(Call::Sync);
        Ok(())
    }

    fn size(&mut self, caller: Caller) -> Answer<u64> {
        self.below.size(caller)
    }

    fn lock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        self.below.lock(caller, level)?;
        self.level = self.level.max(level);
        Ok(())
    }

    fn unlock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        self.below.unlock(caller, level)?;
        if self.level == Level::Exclusive && level < Level::Exclusive {
            self.tell(Call::Unlock);
        }
        self.level = level;
        Ok(())
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        self.below.check_reserved()
    }

    fn control(&mut self, caller: Caller, control: Control<'_>, raw: Raw) -> Answer<Reply> {
        let call = match control {
            Control::Sync => Some(Call::SyncWish),
            Control::CommitPhaseTwo => Some(Call::Commit),
            Control::BatchBegin => Some(Call::BatchBegin),
            Control::BatchCommit => Some(Call::BatchCommit),
            Control::BatchRollback => Some(Call::BatchRollback),
            Control::CheckpointStart => Some(Call::CheckpointStart),
            Control::CheckpointDone => Some(Call::CheckpointDone),
            _ => None,
        };
        let reply = self.below.control(caller, control, raw)?;
        if let Some(call) = call {
            self.tell(call);
        }
        Ok(reply)
    }

    fn sector_size(&mut self) -> c_int {
        self.below.sector_size()
    }

    fn characteristics(&mut self) -> c_int {
        self.below.characteristics()
    }

    fn close(&mut self, caller: Caller) -> Answer<()> {
        self.tell(Call::Close);
        self.below.close(caller)
    }

    fn has_shm(&self) -> bool {
        self.below.has_shm()
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        self.below.shm_map(region, bytes, extend)
    }

    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        self.below.shm_lock(first, count, flags)
    }

    fn shm_barrier(&mut self) {
        self.below.shm_barrier();
    }

    fn shm_unmap(&mut self, delete: bool) -> Answer<()> {
        self.below.shm_unmap(delete)
    }
}
