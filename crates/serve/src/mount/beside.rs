//! What is done for a volume without its lock: reads, and jobs (flushes, records of cleaning, ends of
//! checkpoints). By the request that waits for it, or by the thread that cleans.
//!
//! Invariants: what was begun ends: it is said that it did, or (a panic) that it never will, and then nothing
//! is changed any more and nobody waits for it.

use fuser::Errno;
use lfs::FsError;
use lfs::fs::Job;

use super::errors::errno;
use super::held::Held;
use super::volume::{Inner, Volume};

/// A thread ended in the middle of something: what it had begun is not known.
pub(super) const PANICKED: FsError = FsError::Corrupt("a thread that panicked at work on it");

/// What is begun without the lock.
enum Work {
    Read(u64),
    Job,
}

/// Something is done without the lock: should it never end, that is known.
struct Begun<'a> {
    volume: &'a Volume,
    mount: u64,
    what: Option<Work>,
}

impl<'a> Begun<'a> {
    fn ended(mut self) -> Held<'a, Inner> {
        self.what = None;
        self.volume.lock()
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        let mut inner = self.volume.lock();
        let same = inner.mounts == self.mount;
        if let Some(fs) = inner.fs.as_mut().filter(|_| same) {
            match what {
                Work::Read(number) => fs.read_lost(number, &PANICKED),
                Work::Job => fs.job_lost(&PANICKED),
            }
            self.volume.look_for_failure(fs, self.volume.now());
        }
        drop(inner);
        self.volume.brought.notify_all();
        self.volume.done.notify_all();
    }
}

impl Volume {
    /// Reads what is wanted, or does the next job, without the lock; or waits until somebody else has. And
    /// for how many attempts that counts.
    pub(super) fn bring<'a>(
        &'a self,
        mut inner: Held<'a, Inner>,
    ) -> Result<(Held<'a, Inner>, u32), Errno> {
        let mount = inner.mounts;
        let fs = inner.fs.as_mut().ok_or(Errno::EIO)?;
        let failed = |error: FsError| errno(&error);
        // Who waits for cleaning may read for it; the others do not wait for what it reads.
        let mut wants = fs.wants().map_err(failed)?;
        if wants.is_none() {
            if let Some(job) = fs.next_job().map_err(failed)? {
                return Ok((self.perform(inner, &job), 0));
            }
            if fs.is_job_under_way() {
                return Ok((inner.wait(&self.done), 0));
            }
            wants = fs.wants_of_cleaning().map_err(failed)?;
        }
        let Some(mut fetch) = wants else {
            return Ok((if fs.is_reading() { inner.wait(&self.brought) } else { inner }, 1));
        };
        let (mut device, now) = (fs.device().clone(), self.now());
        drop(inner);
        let begun = Begun { volume: self, mount, what: Some(Work::Read(fetch.number())) };
        let done = fetch.read(now.at, &mut device);
        let mut inner = begun.ended();
        let same = mount == inner.mounts;
        if let Some(fs) = inner.fs.as_mut().filter(|_| same) {
            fs.brought(fetch, done.is_ok());
        }
        self.brought.notify_all();
        done.map_err(|error| errno(&FsError::Device(error))).map(|_| (inner, 1))
    }

    /// Asks the device for a job without the lock. An error of it shows at whatever is done next.
    fn perform<'a>(&'a self, inner: Held<'a, Inner>, job: &Job) -> Held<'a, Inner> {
        let (mount, now) = (inner.mounts, self.now());
        let Some(mut device) = inner.fs.as_ref().map(|fs| fs.device().clone()) else {
            return inner;
        };
        drop(inner);
        let begun = Begun { volume: self, mount, what: Some(Work::Job) };
        let done = job.perform(now.at, &mut device).map(|_| ());
        let mut inner = begun.ended();
        let same = mount == inner.mounts;
        if let Some(fs) = inner.fs.as_mut().filter(|_| same) {
            let now = self.now();
            // It is the cause since which nothing is changed.
            let _ = fs.job_done(now, job, done);
            self.look_for_failure(fs, now);
        }
        self.done.notify_all();
        inner
    }

    /// A turn of the thread that cleans: waits until cleaning wants something, reads it without the lock,
    /// and takes cleaning on. No: it ends.
    pub(super) fn clean(&self, mount: u64) -> bool {
        let mut inner = self.lock();
        let mut fetch = loop {
            let ends = inner.rests || inner.mounts != mount;
            let Some(fs) = inner.fs.as_mut().filter(|_| !ends) else { return false };
            // The next request that writes meets an error.
            let Ok(job) = fs.next_job() else { return false };
            if let Some(job) = job {
                inner = self.perform(inner, &job);
                return self.clean_on(inner, mount);
            }
            match fs.wants_of_cleaning() {
                Ok(Some(fetch)) => break fetch,
                Ok(None) => inner = inner.wait(&self.cleaning),
                Err(_) => return false,
            }
        };
        let Some(fs) = &inner.fs else { return false };
        let mut device = fs.device().clone();
        drop(inner);
        let begun = Begun { volume: self, mount, what: Some(Work::Read(fetch.number())) };
        let done = fetch.read(self.now().at, &mut device);
        let mut inner = begun.ended();
        // Behind this no change of what others wait for: they look as soon as the lock is given up.
        self.brought.notify_all();
        let same = inner.mounts == mount;
        let Some(fs) = inner.fs.as_mut().filter(|_| same && self.power.state().on) else {
            return false;
        };
        fs.brought(fetch, done.is_ok());
        if let Err(error) = done {
            fs.fail(&FsError::Device(error));
        }
        self.clean_on(inner, mount)
    }

    /// Cleaning goes on with what was read, or done. No: it ends.
    fn clean_on(&self, mut inner: Held<'_, Inner>, mount: u64) -> bool {
        let same = inner.mounts == mount;
        let Some(fs) = inner.fs.as_mut().filter(|_| same && self.power.state().on) else {
            return false;
        };
        let now = self.now();
        // An error shows at the next request.
        drop(fs.clean_on(now));
        self.look_for_failure(fs, now);
        true
    }

    /// Nobody cleans beside the requests any more.
    pub(super) fn rest(&self) {
        self.lock().rests = true;
        self.cleaning.notify_all();
    }
}
