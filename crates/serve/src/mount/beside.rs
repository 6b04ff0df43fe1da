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
use super::takers::away;
use super::volume::{Inner, Volume};

/// A thread ended in the middle of something: what it had begun is not known.
pub(super) const PANICKED: FsError = FsError::Corrupt("a thread that panicked at work on it");

/// What is begun without the lock.
enum Work {
    Read(u64),
    Job,
}

/// Something is done without the lock: should it never end, that is known.
pub(super) struct Begun<'a> {
    volume: &'a Volume,
    mount: u64,
    what: Option<Work>,
}

impl<'a> Begun<'a> {
    /// Somebody reads what was asked for with this number.
    pub(super) fn read(volume: &'a Volume, mount: u64, number: u64) -> Begun<'a> {
        Begun { volume, mount, what: Some(Work::Read(number)) }
    }
    fn job(volume: &'a Volume, mount: u64) -> Begun<'a> {
        Begun { volume, mount, what: Some(Work::Job) }
    }
    /// It ended; with the lock again.
    pub(super) fn ended(mut self) -> Held<'a, Inner> {
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
            if let Some(job) = fs.next_job(self.now()).map_err(failed)? {
                let _away = away();
                return Ok((self.perform(inner, &job), 0));
            }
            if fs.is_job_under_way() {
                let _away = away();
                return Ok((inner.wait(&self.done), 0));
            }
            wants = fs.wants_of_cleaning().map_err(failed)?;
        }
        let _away = away();
        let Some(mut fetch) = wants else {
            return Ok((if fs.is_reading() { inner.wait(&self.brought) } else { inner }, 1));
        };
        let (mut device, now) = (fs.device().clone(), self.now());
        drop(inner);
        let begun = Begun::read(self, mount, fetch.number());
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
        let begun = Begun::job(self, mount);
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
            let Ok(job) = fs.next_job(self.now()) else { return false };
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
        let begun = Begun::read(self, mount, fetch.number());
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Condvar, Mutex, mpsc};
    use std::time::Duration;

    use block::{Bytes, Medium, Rng};
    use lfs::fs::{Cleaning, FsyncFallback, NewInode, Scj, Trigger};
    use lfs::{Fs, FsOptions, MkfsOptions, Nid, format};
    use stack::disk::{MediumDisk, RamDisk};
    use stack::power::NoSwitch;

    use super::super::behind::Behind;
    use super::super::cleaner::Cleaner;
    use super::super::device::DiskDevice;
    use super::super::options::Atime;
    use super::super::syncs::Syncs;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const BLOCK: u64 = 4096;

    /// Memory that takes its time to flush, and panics below the thread that cleans once that is wanted.
    #[derive(Debug)]
    struct Slow {
        below: RamDisk,
        trap: AtomicBool,
        flushes: AtomicU64,
        /// Writes that somebody has made, if each flush is to last until it has met one.
        meets: Mutex<Option<u64>>,
        met: Condvar,
    }

    impl Slow {
        fn spring(&self) {
            let cleans = std::thread::current().name() == Some("clean");
            assert!(!(cleans && self.trap.load(Ordering::SeqCst)), "a planted panic");
        }
    }

    impl Medium for Slow {
        fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
            self.spring();
            Medium::read(&self.below, at, out)
        }
        fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            Medium::write(&self.below, at, bytes)
        }
        fn sync(&self) -> io::Result<()> {
            self.spring();
            self.flushes.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            let meets = self.meets.lock().expect("no panic");
            // The next one may have been under way before; the one after it was not.
            let until = meets.map(|writes| writes + 2);
            let alone = |meets: &mut Option<u64>| meets.is_some() && *meets < until;
            drop(self.met.wait_while(meets, alone).expect("no panic"));
            Ok(())
        }
        fn size(&self) -> io::Result<u64> {
            self.below.size()
        }
    }

    const NEW: NewInode = NewInode { permissions: 0o644, uid: 0, gid: 0 };

    fn served(options: FsOptions) -> (Arc<Slow>, Arc<Volume>) {
        let below = RamDisk::new(24 << 20).expect("memory");
        let (trap, flushes) = (AtomicBool::new(false), AtomicU64::new(0));
        let (meets, met) = (Mutex::new(None), Condvar::new());
        let slow = Arc::new(Slow { below, trap, flushes, meets, met });
        let disk = Arc::new(MediumDisk::new(slow.clone()).expect("a disk"));
        let power = Arc::new(NoSwitch("a test"));
        let volume = Arc::new(Volume::new(power, Atime::Never, Path::new("test")));
        let small = MkfsOptions { log_blocks_per_seg: 5, ..MkfsOptions::new([1; 16], 1) };
        let device = lfs::mkfs(DiskDevice(disk), &small, volume.now()).expect("made").0;
        let device = Behind::new(device, true).expect("a thread");
        volume.put(Fs::mount(device, options, volume.now()).expect("mounted"));
        (slow, volume)
    }

    fn make(volume: &Volume, dir: Nid, name: &str) -> Result<Nid, Errno> {
        let kind = format::FileType::File;
        volume.with(|fs, now| fs.create(now, dir, name.as_bytes(), kind, NEW, (0, 0)))
    }

    fn write(volume: &Volume, ino: Nid, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        volume.admit();
        volume.with(|fs, now| fs.write(now, ino, Bytes(at), bytes))
    }

    /// Files that fill three quarters of the volume.
    fn fill(volume: &Volume) -> Vec<Nid> {
        let room = volume.with(|fs, now| Ok(fs.usage(now)?.blocks)).expect("usage");
        let files = room * 3 / 4 / 16;
        let one = |n| {
            let ino = make(volume, Nid::ROOT, &format!("old{n}")).expect("made");
            write(volume, ino, 0, &[n as u8; 16 * BLOCK as usize]).expect("written");
            ino
        };
        let all = (0..files).map(one).collect();
        volume.checkpoint().expect("durable");
        all
    }

    fn sync(syncs: &Syncs, ino: Nid) -> Result<(), Errno> {
        let (told, answer) = mpsc::channel();
        syncs.ask(ino, move |result| told.send(result).expect("heard"));
        answer.recv_timeout(PATIENCE).expect("an fsync without an answer")
    }

    /// What a client does again and again; every kind of operation that changes something.
    fn work(volume: &Volume, syncs: &Syncs, files: &[Nid], client: u64) -> Result<(), Errno> {
        let mut rng = Rng::stream(client, "client");
        let name = format!("dir{client}");
        let dir = volume.with(|fs, now| fs.mkdir(now, Nid::ROOT, name.as_bytes(), NEW))?;
        let own = make(volume, dir, "own")?;
        for round in 0..300_u64 {
            let old = files[rng.below(files.len() as u64) as usize];
            write(volume, old, rng.below(16) * BLOCK, &[client as u8; BLOCK as usize])?;
            match round % 10 {
                0 => {
                    write(volume, own, rng.below(20) * BLOCK, &[9; 5000])?;
                    sync(syncs, own)?;
                }
                1 => {
                    let new = make(volume, dir, &format!("new{round}"))?;
                    write(volume, new, 0, &[3; 8192])?;
                }
                2 => {
                    let from = format!("new{}", round - 1);
                    let (from, to) = (from.as_bytes(), b"renamed");
                    volume.with(|fs, now| fs.rename(now, (dir, from), (dir, to)))?;
                }
                3 => volume.with(|fs, now| fs.unlink(now, dir, b"renamed"))?,
                4 => volume.with(|fs, now| fs.truncate(now, own, Bytes(rng.below(60_000))))?,
                5 => volume.with(|fs, now| fs.punch(now, own, Bytes(5000), Bytes(9000)))?,
                6 => drop(volume.with(|fs, now| fs.usage(now))?),
                7 => sync(syncs, dir)?,
                8 => volume.with(|fs, now| fs.set_xattr(now, own, 1, b"x", Some(&[1; 300])))?,
                _ => {
                    let mut out = vec![0; 30_000];
                    volume.read(old, Bytes(100), &mut out)?;
                }
            }
            match client {
                0 if round % 40 == 7 => volume.checkpoint()?,
                1 if round % 25 == 3 => drop(volume.with(|fs, now| fs.idle(now, 2))?),
                1 if round % 25 == 9 => drop(volume.with(|fs, now| fs.clean(now, 2))?),
                _ => {}
            }
        }
        Ok(())
    }

    #[test]
    fn nobody_waits_for_the_device_with_the_lock() {
        for cleaning in [Cleaning::Scj(Scj::default()), Cleaning::Bl6] {
            let options = FsOptions {
                cleaning,
                ahead: 2,
                cached_nodes: 64,
                dirty: 64,
                ..FsOptions::default()
            };
            let (slow, volume) = served(options);
            let files = fill(&volume);
            let syncs = Syncs::new(&volume).expect("a thread");
            let cleaner = Cleaner::new(&volume).expect("a thread");
            std::thread::scope(|scope| {
                let (volume, syncs, files) = (&volume, &syncs, &files[..]);
                let clients: Vec<_> =
                    (0..4).map(|n| scope.spawn(move || work(volume, syncs, files, n))).collect();
                for client in clients {
                    assert_eq!(client.join().expect("no panic"), Ok(()), "{:?}", volume.failure());
                }
            });
            let asked = volume.with(|fs, _| Ok(fs.device().asked_with_lock())).expect("served");
            assert_eq!(asked, [0; 3], "reads, writes, flushes");
            let cleaned = volume.with(|fs, _| Ok(fs.cleaning())).expect("served");
            // How many depends on how the threads have the processor: enough to have met each other.
            assert!(cleaned.ahead > 20, "{cleaned:?}");
            let made = volume.with(|fs, _| Ok(fs.checkpoints().values().sum::<u64>()));
            assert!(made.expect("served") > 5 && slow.flushes.load(Ordering::SeqCst) > 10);
            drop((syncs, cleaner));
            let fs = volume.take().expect("served");
            let device = fs.unmount(volume.now()).expect("unmounted");
            let mut fs = Fs::mount(device, FsOptions::default(), volume.now()).expect("mounted");
            fs.check(volume.now()).expect("whole");
        }
    }

    #[test]
    fn a_file_that_is_written_all_the_time_is_synced() {
        // No other checkpoint comes in between.
        let cleaning = Cleaning::Scj(Scj { threshold: Some(1 << 20), ..Scj::default() });
        let options = FsOptions { cleaning, ahead: 2, prefree: 90, ..FsOptions::default() };
        let (slow, volume) = served(options);
        let ino = make(&volume, Nid::ROOT, "busy").expect("made");
        volume.checkpoint().expect("durable");
        let syncs = Syncs::new(&volume).expect("a thread");
        let stop = AtomicBool::new(false);
        *slow.meets.lock().expect("no panic") = Some(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let goes_on = |_: &u64| !stop.load(Ordering::SeqCst);
                let done = (0..).take_while(goes_on).try_for_each(|n| {
                    std::thread::sleep(Duration::from_micros(100));
                    write(&volume, ino, n % 50 * BLOCK, &[n as u8; BLOCK as usize])?;
                    if let Some(writes) = slow.meets.lock().expect("no panic").as_mut() {
                        *writes += 1;
                    }
                    slow.met.notify_all();
                    Ok::<(), Errno>(())
                });
                *slow.meets.lock().expect("no panic") = None;
                slow.met.notify_all();
                done
            });
            // Nothing is to be synced before.
            let begun = slow.meets.lock().expect("no panic");
            drop(slow.met.wait_while(begun, |writes| *writes == Some(0)).expect("no panic"));
            let busy = Trigger::Fsync(FsyncFallback::Rewritten);
            let was_busy = |_| {
                assert_eq!(sync(&syncs, ino), Ok(()), "{:?}", volume.failure());
                volume.with(|fs, _| Ok(fs.checkpoints().contains_key(&busy))).expect("served")
            };
            let seen = (0..10).any(was_busy);
            stop.store(true, Ordering::SeqCst);
            assert_eq!(writer.join().expect("no panic"), Ok(()));
            assert!(seen, "it was never written before each flush");
        });
        let asked = volume.with(|fs, _| Ok(fs.device().asked_with_lock())).expect("served");
        assert_eq!(asked, [0; 3], "reads, writes, flushes");
    }

    #[test]
    fn a_thread_that_panics_while_it_reads_or_flushes_lets_nobody_wait() {
        let options = FsOptions {
            cleaning: Cleaning::Scj(Scj::default()),
            ahead: 2,
            cached_nodes: 64,
            ..FsOptions::default()
        };
        let (slow, volume) = served(options);
        let files = fill(&volume);
        let cleaner = Cleaner::new(&volume).expect("a thread");
        slow.trap.store(true, Ordering::SeqCst);
        let (told, answer) = mpsc::channel();
        let (beside, all) = (Arc::clone(&volume), files.clone());
        let writer = std::thread::spawn(move || {
            let mut rng = Rng::stream(1, "writer");
            let one = |_| {
                let ino = all[rng.below(all.len() as u64) as usize];
                write(&beside, ino, rng.below(16) * BLOCK, &[1; BLOCK as usize]).err()
            };
            told.send((0..200_000).find_map(one)).expect("heard");
        });
        let refused =
            answer.recv_timeout(PATIENCE).expect("somebody waits for a thread that is gone");
        writer.join().expect("no panic");
        assert_eq!(refused, Some(Errno::EROFS), "what was begun is not known: no more changes");
        assert!(volume.failure().is_some_and(|why| why.contains("panicked")));
        // What is there is still read.
        let mut out = [0; 100];
        assert_eq!(volume.read(files[0], Bytes(0), &mut out), Ok(100));
        drop(cleaner);
        assert!(volume.take().is_some_and(|fs| fs.failed().is_some()));
    }
}
