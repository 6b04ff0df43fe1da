//! The file system behind its lock.
//!
//! Invariants: an inode that the kernel knows is held, so that what was unlinked lives until the
//! kernel forgets it; how often the kernel was told of it is counted before it is told. Time never
//! falls. While the power is off nothing is answered but an error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use block::{DeviceError, Time};
use fuser::Errno;
use lfs::fs::{Attributes, DirEntry, Syncing};
use lfs::{Fs, FsError, Mark, Nid, Now, Stamp};

use super::device::DiskDevice;
use super::end;
use super::errors::errno;
use super::options::Atime;
use stack::disk::{Asked, Meter};
use stack::power::Power;

/// Seconds after which `relatime` sets a time of access again.
const DAY: u64 = 86_400;
/// Entries of a directory that are looked at in one go.
const PART: usize = 256;

/// The wall clock.
#[allow(clippy::disallowed_methods)] // an edge: what files' times are set to
pub fn wall() -> Stamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp { seconds: now.as_secs(), nanos: now.subsec_nanos() }
}

/// A flush that the device is asked for without the lock.
pub(super) struct Flushing {
    /// What it is to cover.
    pub(super) mark: Mark,
    pub(super) device: DiskDevice,
    pub(super) now: Now,
}

struct Inner {
    fs: Option<Fs<DiskDevice>>,
    /// File systems served so far.
    mounts: u64,
    /// How often the kernel was told of an inode.
    known: BTreeMap<Nid, u64>,
}

/// A file system that many threads use.
pub(super) struct Volume {
    inner: Mutex<Inner>,
    power: Arc<dyn Power>,
    started: Instant,
    atime: Atime,
    /// Requests so far.
    asked: AtomicU64,
    /// What programs ask of files.
    meter: Arc<Meter>,
    /// Where it is mounted, for what is said about it.
    dir: PathBuf,
    /// Where a report of a bad end goes.
    end: PathBuf,
    /// What was said and not durable when it failed, once it failed.
    failed: Mutex<Option<String>>,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("power", &self.power).finish_non_exhaustive()
    }
}

impl Volume {
    pub(super) fn new(power: Arc<dyn Power>, atime: Atime, dir: &Path) -> Volume {
        let inner = Mutex::new(Inner { fs: None, mounts: 0, known: BTreeMap::new() });
        Volume {
            inner,
            power,
            started: Instant::now(),
            atime,
            asked: AtomicU64::new(0),
            meter: Arc::default(),
            dir: dir.to_path_buf(),
            end: end::place(),
            failed: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Now {
        let since = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { at: Time::from_us(since.min(Time::LIMIT.as_ns() / 1000)), wall: wall() }
    }

    /// Begins to serve a file system.
    pub(super) fn put(&self, fs: Fs<DiskDevice>) {
        let mut inner = self.lock();
        inner.known.clear();
        inner.mounts += 1;
        inner.fs = Some(fs);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// File systems served so far: which one is served now.
    pub(super) fn mounts(&self) -> u64 {
        self.lock().mounts
    }

    /// Takes files a step further on their way to be durable; before that a flush is reported that the
    /// step before asked for. What is to be flushed next, if some files wait for it.
    pub(super) fn sync(
        &self,
        mount: u64,
        flushed: Option<(Mark, Result<(), DeviceError>)>,
        files: &mut [Syncing],
    ) -> Result<Option<Flushing>, Errno> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.lock();
        let same = inner.mounts == mount;
        let fs = inner.fs.as_mut().filter(|_| same && self.power.state().on).ok_or(Errno::EIO)?;
        let now = self.now();
        if fs.is_read_only() && fs.failed().is_none() {
            // Nothing was ever changed.
            files.iter_mut().for_each(Syncing::settle);
            return Ok(None);
        }
        let done = match flushed {
            Some((mark, done)) => fs.flushed(mark, done),
            None => Ok(()),
        };
        let done = done.and_then(|()| fs.sync_some(now, files));
        self.look_for_failure(fs, now);
        let mark = done.map_err(|error| errno(&error))?;
        Ok(mark.map(|mark| Flushing { mark, device: fs.device().clone(), now }))
    }

    /// Ends serving. What the kernel still knew is let go.
    pub(super) fn take(&self) -> Option<Fs<DiskDevice>> {
        let mut inner = self.lock();
        let known = std::mem::take(&mut inner.known);
        let mut fs = inner.fs.take()?;
        for ino in known.into_keys() {
            // After an error of the device nothing changes any more: recovery removes it.
            let _ = fs.release(self.now(), ino);
        }
        Some(fs)
    }

    /// What programs ask of files.
    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// As [`Volume::with`], counted: a request, and how long it took. What it did says what it was.
    pub(super) fn counted<T>(
        &self,
        asked: impl FnOnce(&T) -> Asked,
        body: impl FnOnce(&mut Fs<DiskDevice>, Now) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        let since = Instant::now();
        let result = self.with(body);
        match &result {
            Ok(found) => self.meter.answered(asked(found), since, None),
            Err(_) => self.meter.refused(),
        }
        result
    }

    fn run<T>(
        &self,
        body: impl FnOnce(&mut Fs<DiskDevice>, Now, &mut BTreeMap<Nid, u64>) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.lock();
        let Inner { fs, known, .. } = &mut *inner;
        let fs = fs.as_mut().filter(|_| self.power.state().on).ok_or(Errno::EIO)?;
        let now = self.now();
        let done = body(fs, now, known);
        self.look_for_failure(fs, now);
        done.map_err(|error| errno(&error))
    }

    /// The first cause since which a volume takes no changes is said at once.
    fn look_for_failure(&self, fs: &mut Fs<DiskDevice>, now: Now) {
        let Some(cause) = fs.cause().map(ToString::to_string) else { return };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() && self.power.state().on {
            let lost = end::lost(fs, now);
            end::say(&self.dir, &format!("{cause}: read-only until it is mounted again; {lost}"));
            *failed = Some(format!("{cause}; {lost}"));
        }
    }

    /// Why it failed and what was lost, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where a report of a bad end goes.
    pub(super) fn end(&self) -> &Path {
        &self.end
    }

    /// Does something with the file system.
    pub(super) fn with<T>(
        &self,
        body: impl FnOnce(&mut Fs<DiskDevice>, Now) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        self.run(|fs, now, _| body(fs, now))
    }

    /// Finds or makes an inode that the kernel is told of.
    pub(super) fn tell(
        &self,
        body: impl FnOnce(&mut Fs<DiskDevice>, Now) -> Result<Nid, FsError>,
    ) -> Result<Attributes, Errno> {
        self.run(|fs, now, known| {
            let ino = body(fs, now)?;
            let found = fs.attributes(now, ino)?;
            note(fs, now, known, ino)?;
            Ok(found)
        })
    }

    /// Names in a directory, as many as `add` takes; it says when it is full.
    pub(super) fn names(
        &self,
        dir: Nid,
        mut from: u64,
        mut add: impl FnMut(u64, &DirEntry) -> bool,
    ) -> Result<(), Errno> {
        self.run(|fs, now, _| {
            touch(fs, now, dir, self.atime)?;
            loop {
                let part = fs.entries(now, dir, from, PART)?;
                let Some((last, _)) = part.last() else { return Ok(()) };
                from = *last;
                if part.iter().any(|(next, entry)| add(*next, entry)) {
                    return Ok(());
                }
            }
        })
    }

    /// The same with attributes; `add` also says whether the kernel is told of the inode.
    pub(super) fn list(
        &self,
        dir: Nid,
        mut from: u64,
        mut add: impl FnMut(u64, &[u8], &Attributes) -> (bool, bool),
    ) -> Result<(), Errno> {
        self.run(|fs, now, known| {
            touch(fs, now, dir, self.atime)?;
            loop {
                let part = fs.entries(now, dir, from, PART)?;
                let Some((last, _)) = part.last() else { return Ok(()) };
                from = *last;
                for (next, entry) in part {
                    let found = fs.attributes(now, entry.ino)?;
                    let (full, told) = add(next, &entry.name, &found);
                    if full {
                        return Ok(());
                    }
                    if told {
                        note(fs, now, known, entry.ino)?;
                    }
                }
            }
        })
    }

    /// The kernel forgets that it was told of an inode so often.
    pub(super) fn forget(&self, ino: Nid, times: u64) {
        let mut inner = self.lock();
        let Inner { fs, known, .. } = &mut *inner;
        let Some(count) = known.get_mut(&ino) else { return };
        *count = count.saturating_sub(times);
        if *count == 0 {
            known.remove(&ino);
            if let Some(fs) = fs {
                // Nobody waits for an answer; an error of the device shows at the next request.
                let _ = fs.release(self.now(), ino);
            }
        }
    }

    /// Somebody read it.
    pub(super) fn accessed(
        &self,
        fs: &mut Fs<DiskDevice>,
        now: Now,
        ino: Nid,
    ) -> Result<(), FsError> {
        touch(fs, now, ino, self.atime)
    }

    /// Requests so far.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Inodes that the kernel knows.
    pub(super) fn known(&self) -> usize {
        self.lock().known.len()
    }
}

/// The kernel is told of an inode.
fn note(
    fs: &mut Fs<DiskDevice>,
    now: Now,
    known: &mut BTreeMap<Nid, u64>,
    ino: Nid,
) -> Result<(), FsError> {
    if ino == Nid::ROOT {
        return Ok(());
    }
    if let Some(count) = known.get_mut(&ino) {
        *count += 1;
        return Ok(());
    }
    fs.hold(now, ino)?;
    known.insert(ino, 1);
    Ok(())
}

fn touch(fs: &mut Fs<DiskDevice>, now: Now, ino: Nid, atime: Atime) -> Result<(), FsError> {
    if atime == Atime::Never || fs.is_read_only() {
        return Ok(());
    }
    let found = fs.attributes(now, ino)?;
    let old = found.accessed.seconds as i64;
    let stale = now.wall.seconds as i64 - old >= DAY as i64;
    if found.accessed <= found.modified || found.accessed <= found.changed || stale {
        match fs.set_accessed(now, ino, now.wall) {
            // Reading needs no room.
            Err(FsError::NoSpace) => {}
            set => set?,
        }
    }
    Ok(())
}
