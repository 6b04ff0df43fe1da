//! The file system behind its lock.
//!
//! Invariants: an inode that the kernel knows is held, so that what was unlinked lives until the
//! kernel forgets it; how often the kernel was told of it is counted before it is told. Time never
//! falls. While the power is off nothing is answered but an error. Nobody waits for the device with the
//! lock held (`held`):
//!
//! | what | with the lock | without |
//! | --- | --- | --- |
//! | any request | it is done, or says what it needs of the media and has changed nothing | that is read; then it is done anew |
//! | contents are read | where they lie | they are read; if somebody wrote there meanwhile, anew |
//! | something is written | handed over | who waits for it, or the thread of `behind`, writes it |
//! | an fsync | its data and nodes are handed over | who asks, or the thread of `syncs`, flushes |
//! | a checkpoint | all of it but its last block is handed over (`lfs`, `jobs`) | who waits for it, or the thread of `cleaner`, flushes and writes that |
//! | cleaning | victims are copied in memory | the same threads read them, flush, and write their records |
//!
//! One lock is taken at a time: the volume's, or the queue's of `behind` inside it, which is a leaf. Who
//! waits for what somebody else reads waits for `brought`, which is told after every read, and who waits for
//! somebody else's job for `done`, with the lock given up; who reads, or does a job, never waits for anybody
//! but the device. A thread that panics on the way is as an error of the device: nothing is changed any more,
//! and nobody waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use block::{Bytes, DeviceError, Time};
use fuser::Errno;
use lfs::fs::{Attributes, Covering, DirEntry, Syncing};
use lfs::{Fs, FsError, Mark, Nid, Now, Stamp};

use super::behind::Behind;
use super::beside::{Begun, PANICKED};
use super::end;
use super::errors::errno;
use super::held::{Held, Lock};
use super::options::Atime;
use super::takers::away;
use super::told::Told;
use stack::disk::Meter;
use stack::power::Power;

/// Seconds after which `relatime` sets a time of access again.
const DAY: u64 = 86_400;
/// Entries of a directory that are looked at in one go.
const PART: usize = 256;
/// How often something is done anew before it waits for the device with the lock held.
const PATIENCE: u32 = 256;
/// Texts that are said of errors of reading, at most.
const MET: usize = 32;

/// How often the kernel was told of an inode.
type Known = BTreeMap<Nid, u64>;

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
    pub(super) device: Behind,
    pub(super) now: Now,
}

pub(super) struct Inner {
    pub(super) fs: Option<Fs<Behind>>,
    /// File systems served so far.
    pub(super) mounts: u64,
    /// How often the kernel was told of an inode.
    known: Known,
    /// Nobody cleans beside the requests any more.
    pub(super) rests: bool,
}

/// A file system that many threads use.
pub(super) struct Volume {
    inner: Lock<Inner>,
    /// The device of the file system that is served.
    behind: Mutex<Option<Behind>>,
    /// Somebody has read what was wanted.
    pub(super) brought: Condvar,
    /// Cleaning wants something, somebody wants a job done, or it ends.
    pub(super) cleaning: Condvar,
    /// A job was done.
    pub(super) done: Condvar,
    pub(super) power: Arc<dyn Power>,
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
    /// Errors that were met by who only reads, and said.
    met: Mutex<BTreeSet<String>>,
    pub(super) kernel: Told,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("power", &self.power).finish_non_exhaustive()
    }
}

impl Volume {
    pub(super) fn new(power: Arc<dyn Power>, atime: Atime, dir: &Path) -> Volume {
        let inner = Lock::new(Inner { fs: None, mounts: 0, known: BTreeMap::new(), rests: false });
        Volume {
            inner,
            behind: Mutex::default(),
            brought: Condvar::new(),
            cleaning: Condvar::new(),
            done: Condvar::new(),
            power,
            started: Instant::now(),
            atime,
            asked: AtomicU64::new(0),
            meter: Arc::default(),
            dir: dir.to_path_buf(),
            end: end::place(),
            failed: Mutex::new(None),
            met: Mutex::default(),
            kernel: Told::default(),
        }
    }

    pub(super) fn lock(&self) -> Held<'_, Inner> {
        let (mut inner, broken) = self.inner.lock();
        if broken && let Some(fs) = &mut inner.fs {
            fs.fail(&PANICKED);
        }
        inner
    }

    /// Before another part of something large is done: those who wait meanwhile do not wait for all of it.
    pub(super) fn give_way(&self) {
        self.inner.give_way();
    }

    /// Waits while too much is handed over and not written yet; before a change that hands over more.
    pub(super) fn admit(&self) {
        let device = self.behind.lock().unwrap_or_else(PoisonError::into_inner).clone();
        device.iter().for_each(Behind::admit);
    }

    pub(super) fn now(&self) -> Now {
        let since = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { at: Time::from_us(since.min(Time::LIMIT.as_ns() / 1000)), wall: wall() }
    }

    /// Begins to serve a file system. From now on nobody waits for the device while he has it.
    pub(super) fn put(&self, mut fs: Fs<Behind>) {
        fs.read_outside(self.now(), true);
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = Some(fs.device().clone());
        let mut inner = self.lock();
        inner.known.clear();
        inner.mounts += 1;
        inner.rests = false;
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
        let mut flushed = flushed;
        self.again(Some(mount), |fs, now, _| {
            if fs.is_read_only() && fs.failed().is_none() {
                // Nothing was ever changed.
                files.iter_mut().for_each(Syncing::settle);
                return Ok(None);
            }
            if let Some((mark, done)) = flushed.take() {
                fs.flushed(mark, done)?;
            }
            let mark = fs.sync_some(now, files)?;
            Ok(mark.map(|mark| Flushing { mark, device: fs.device().clone(), now }))
        })
    }

    /// Ends serving. What the kernel still knew is let go.
    pub(super) fn take(&self) -> Option<Fs<Behind>> {
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut inner = self.lock();
        while inner.fs.as_ref().is_some_and(Fs::is_job_under_way) {
            // What is being written must not come behind what is written from now on.
            inner = inner.wait(&self.done);
        }
        let known = std::mem::take(&mut inner.known);
        let mut fs = inner.fs.take()?;
        drop(inner);
        // Whoever waits for a read of it, or a job, learns that it is gone.
        self.brought.notify_all();
        self.done.notify_all();
        fs.read_outside(self.now(), false);
        self.look_for_failure(&mut fs, self.now());
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

    fn run<T>(
        &self,
        body: impl FnMut(&mut Fs<Behind>, Now, &mut Known) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.again(None, body)
    }

    /// Does something with the file system (of this mount). What that needs and is not in memory is read
    /// without the lock, and it is done anew: so `body` may be called again, when it says
    /// [`FsError::Again`]; nothing was changed then.
    fn again<T>(
        &self,
        mount: Option<u64>,
        mut body: impl FnMut(&mut Fs<Behind>, Now, &mut Known) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        let mut inner = self.lock();
        let mount = mount.unwrap_or(inner.mounts);
        let mut tries = 0;
        loop {
            let same = inner.mounts == mount;
            let Inner { fs, known, .. } = &mut *inner;
            let fs = fs.as_mut().filter(|_| same && self.power.state().on).ok_or(Errno::EIO)?;
            let now = self.now();
            let last = tries >= PATIENCE;
            fs.insist(last);
            let done = body(fs, now, known);
            fs.insist(false);
            self.look_for_failure(fs, now);
            if fs.cleaning_wants() || fs.has_jobs() {
                self.cleaning.notify_one();
            }
            match done {
                Err(FsError::Again) => {
                    let next = self.bring(inner)?;
                    (inner, tries) = (next.0, tries + next.1);
                }
                Err(error) => {
                    let known = fs.cause().is_some();
                    // Whoever writes the log may need the volume: it may lie on it.
                    drop(inner);
                    if !known {
                        self.meet(&error);
                    }
                    return Err(errno(&error));
                }
                done => return done.map_err(|error| errno(&error)),
            }
        }
    }

    /// What a program is told by a number is said once in words: damage, and errors of the device.
    fn meet(&self, error: &FsError) {
        let damage = match error {
            FsError::Corrupt(_) => "; `varve fsck` says more",
            FsError::Device(DeviceError::NoSpace(_)) => return,
            FsError::Device(_) => "",
            _ => return,
        };
        let text = error.to_string();
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() < MET && met.insert(text.clone()) {
            end::say(&self.dir, &format!("what was asked for could not be read: {text}{damage}"));
        }
    }

    /// A checkpoint of all that is changed now.
    pub(super) fn checkpoint(&self) -> Result<(), Errno> {
        let mut how = Covering::default();
        self.run(|fs, now, _| match fs.is_read_only() && fs.failed().is_none() {
            true => Ok(()),
            false => fs.sync_on(now, &mut how),
        })
    }

    /// Reads contents of a file, without the lock; how many bytes there were.
    pub(super) fn read(&self, ino: Nid, at: Bytes, out: &mut [u8]) -> Result<usize, Errno> {
        for _ in 0..PATIENCE {
            let mount = self.mounts();
            let (plan, mut device, now) = self.run(|fs, now, _| {
                touch(fs, now, ino, self.atime)?;
                let plan = fs.plan_read(now, ino, at, out.len())?;
                Ok((plan, fs.device().clone(), now))
            })?;
            let begun = Begun::read(self, mount, plan.number());
            let away = away();
            let (done, bytes) = (plan.read(now.at, &mut device, out), plan.bytes());
            drop(away);
            let mut inner = begun.ended();
            self.brought.notify_all();
            let same = inner.mounts == mount;
            let counts = match inner.fs.as_mut().filter(|_| same) {
                Some(fs) => fs.was_read(plan),
                None => return Err(Errno::EIO),
            };
            drop(inner);
            done.map_err(|error| {
                let error = FsError::Device(error);
                self.meet(&error);
                errno(&error)
            })?;
            if counts {
                return Ok(bytes);
            }
        }
        self.run(|fs, now, _| fs.read(now, ino, at, out))
    }

    /// The first cause since which a volume takes no changes is said at once.
    pub(super) fn look_for_failure(&self, fs: &mut Fs<Behind>, now: Now) {
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
        mut body: impl FnMut(&mut Fs<Behind>, Now) -> Result<T, FsError>,
    ) -> Result<T, Errno> {
        self.run(|fs, now, _| body(fs, now))
    }

    /// Finds or makes an inode that the kernel is told of.
    pub(super) fn tell(
        &self,
        mut body: impl FnMut(&mut Fs<Behind>, Now) -> Result<Nid, FsError>,
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
                if part.is_empty() {
                    return Ok(());
                }
                // All that is missing is wanted at once.
                let is_missing = |entry: &&(u64, DirEntry)| {
                    matches!(fs.attributes(now, entry.1.ino), Err(FsError::Again))
                };
                if part.iter().filter(is_missing).count() > 0 {
                    return Err(FsError::Again);
                }
                for (next, entry) in part {
                    let found = fs.attributes(now, entry.ino)?;
                    let (full, told) = add(next, &entry.name, &found);
                    if full {
                        return Ok(());
                    }
                    if told {
                        note(fs, now, known, entry.ino)?;
                    }
                    from = next;
                }
            }
        })
    }

    /// The kernel forgets that it was told of an inode so often.
    pub(super) fn forget(&self, ino: Nid, times: u64) {
        {
            let mut inner = self.lock();
            let Some(count) = inner.known.get_mut(&ino) else { return };
            *count = count.saturating_sub(times);
            if *count > 0 {
                return;
            }
            inner.known.remove(&ino);
        }
        // Nobody waits for an answer; an error of the device shows at the next request.
        let _ = self.again(None, |fs, now, _| fs.release(now, ino));
    }

    /// Somebody read it.
    pub(super) fn accessed(&self, fs: &mut Fs<Behind>, now: Now, ino: Nid) -> Result<(), FsError> {
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
fn note(fs: &mut Fs<Behind>, now: Now, known: &mut Known, ino: Nid) -> Result<(), FsError> {
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

fn touch(fs: &mut Fs<Behind>, now: Now, ino: Nid, atime: Atime) -> Result<(), FsError> {
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
