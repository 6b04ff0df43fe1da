//! Fsyncs: those that wait at the same time share the device's flushes, and nobody else waits for them.
//!
//! Invariants: the volume's lock is not held while the device flushes; an answer comes after the flush
//! that made the file durable; what was asked of one mount is not answered for by the next one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use block::{BlockDevice, Request};
use fuser::Errno;
use lfs::Nid;
use lfs::fs::Syncing;
use stack::disk::Asked;

use super::volume::{Flushing, Volume};

/// Who is told what came of it.
type Answer = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Somebody waits until a file is durable.
struct Waiting {
    answer: Answer,
    since: Instant,
}

#[derive(Default)]
struct Asks {
    new: Vec<(Nid, Waiting)>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    asks: Mutex<Asks>,
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked meanwhile; with nothing else to do waits for it. None: nothing will be.
    fn next(&self, idle: bool) -> Option<Vec<(Nid, Waiting)>> {
        let mut asks = self.lock();
        while idle && asks.new.is_empty() {
            if asks.ended {
                return None;
            }
            asks = self.told.wait(asks).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut asks.new))
    }
}

/// The fsyncs of one mount, and the thread that answers them.
pub(super) struct Syncs {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Syncs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syncs").finish_non_exhaustive()
    }
}

impl Syncs {
    /// For the file system that a volume serves now.
    pub(super) fn new(volume: &Arc<Volume>) -> std::io::Result<Syncs> {
        let shared = Arc::new(Shared::default());
        let (asks, volume, mount) = (Arc::clone(&shared), Arc::clone(volume), volume.mounts());
        let body = move || serve(&volume, mount, &asks);
        let thread = std::thread::Builder::new().name("fsync".to_string()).spawn(body)?;
        Ok(Syncs { shared, thread: Some(thread) })
    }

    /// Makes a file durable; `answer` is told when it is, or why it is not. Without a thread to do it (it
    /// failed) at once.
    pub(super) fn ask(&self, ino: Nid, answer: impl FnOnce(Result<(), Errno>) + Send + 'static) {
        let mut asks = self.shared.lock();
        if asks.ended {
            drop(asks);
            return answer(Err(Errno::EIO));
        }
        let waiting = Waiting { answer: Box::new(answer), since: Instant::now() };
        asks.new.push((ino, waiting));
        self.shared.told.notify_all();
    }
}

impl Drop for Syncs {
    /// What was asked for before is answered.
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.told.notify_all();
        if let Some(thread) = self.thread.take() {
            // Whom a thread that panicked did not answer, its end did.
            let _ = thread.join();
        }
    }
}

/// However the thread ends: nobody waits for it any more.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut asks = self.0.lock();
        asks.ended = true;
        for (_, one) in std::mem::take(&mut asks.new) {
            (one.answer)(Err(Errno::EIO));
        }
    }
}

fn serve(volume: &Volume, mount: u64, asks: &Shared) {
    let _end = End(asks);
    let (mut files, mut waiting) = (Vec::new(), Vec::new());
    let mut flushed = None;
    while let Some(new) = asks.next(files.is_empty()) {
        for (ino, one) in new {
            files.push(Syncing::new(ino));
            waiting.push(one);
        }
        let round = volume.sync(mount, flushed.take(), &mut files);
        let failed = round.as_ref().err().copied();
        let mut left = Vec::new();
        for (file, one) in std::mem::take(&mut files).into_iter().zip(std::mem::take(&mut waiting))
        {
            match failed {
                Some(error) => answer(volume, one, Err(error)),
                None if file.is_done() => {
                    answer(volume, one, file.result().map_err(|e| super::errors::errno(&e)))
                }
                None => left.push((file, one)),
            }
        }
        (files, waiting) = left.into_iter().unzip();
        if let Ok(Some(Flushing { mark, mut device, now })) = round {
            flushed = Some((mark, device.submit(now.at, Request::flush()).map(|_| ())));
        }
    }
}

fn answer(volume: &Volume, one: Waiting, result: Result<(), Errno>) {
    match result {
        Ok(()) => volume.meter().answered(Asked::Flush, one.since, None),
        Err(_) => volume.meter().refused(),
    }
    (one.answer)(result);
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use block::{Bytes, Medium};
    use lfs::fs::NewInode;
    use lfs::{Fs, FsOptions, MkfsOptions, format};
    use stack::disk::{MediumDisk, RamDisk};
    use stack::power::NoSwitch;

    use super::super::behind::Behind;
    use super::super::device::DiskDevice;
    use super::super::options::Atime;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Memory whose flushes wait until somebody lets them.
    #[derive(Debug)]
    struct Gate {
        below: RamDisk,
        shut: Mutex<bool>,
        opened: Condvar,
        flushes: AtomicU64,
    }

    impl Gate {
        fn set(&self, shut: bool) {
            *self.shut.lock().expect("the gate") = shut;
            self.opened.notify_all();
        }
    }

    impl Medium for Gate {
        fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
            Medium::read(&self.below, at, out)
        }
        fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            Medium::write(&self.below, at, bytes)
        }
        fn sync(&self) -> io::Result<()> {
            self.flushes.fetch_add(1, Ordering::SeqCst);
            let shut = self.shut.lock().expect("the gate");
            drop(self.opened.wait_while(shut, |shut| *shut).expect("the gate"));
            Ok(())
        }
        fn size(&self) -> io::Result<u64> {
            self.below.size()
        }
    }

    #[test]
    fn flushes_are_shared_and_nobody_else_waits_for_them() {
        let below = RamDisk::new(64 << 20).expect("memory");
        let (shut, opened, flushes) = (Mutex::new(false), Condvar::new(), AtomicU64::new(0));
        let gate = Arc::new(Gate { below, shut, opened, flushes });
        let disk = Arc::new(MediumDisk::new(gate.clone()).expect("a disk"));
        let power = Arc::new(NoSwitch("a test"));
        let volume = Arc::new(Volume::new(power, Atime::Never, std::path::Path::new("test")));
        let options = MkfsOptions::new([1; 16], 1);
        let device = lfs::mkfs(DiskDevice(disk), &options, volume.now()).expect("made").0;
        let device = Behind::new(device, false).expect("a thread");
        volume.put(Fs::mount(device, FsOptions::default(), volume.now()).expect("mounted"));
        let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
        let files: Vec<Nid> = (0..8_u8)
            .map(|i| {
                let made = volume.with(|fs, now| {
                    let kind = format::FileType::File;
                    let ino = fs.create(now, Nid::ROOT, &[b'a' + i], kind, new, (0, 0))?;
                    fs.write(now, ino, Bytes(0), &[i; 9000])?;
                    Ok(ino)
                });
                made.expect("written")
            })
            .collect();
        let syncs = Syncs::new(&volume).expect("a thread");
        let before = gate.flushes.load(Ordering::SeqCst);
        gate.set(true);
        let (told, answers) = mpsc::channel();
        for ino in &files {
            let told = told.clone();
            syncs.ask(*ino, move |result| told.send(result).expect("heard"));
        }
        while gate.flushes.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        // The device flushes. Somebody else reads and writes meanwhile, and another fsync is asked for.
        let (done, others) = mpsc::channel();
        let (beside, file) = (Arc::clone(&volume), files[3]);
        let other = std::thread::spawn(move || {
            let mut out = [0; 100];
            let read = beside.with(|fs, now| fs.read(now, file, Bytes(50), &mut out));
            let wrote = beside.with(|fs, now| fs.write(now, file, Bytes(20_000), &[9; 5000]));
            done.send((read, out, wrote)).expect("heard");
        });
        let beside = others.recv_timeout(PATIENCE).expect("it waited for the flush");
        assert_eq!(beside, (Ok(100), [3; 100], Ok(())));
        other.join().expect("no panic");
        assert!(answers.try_recv().is_err(), "told before the flush was done");
        gate.set(false);
        for _ in &files {
            assert_eq!(answers.recv_timeout(PATIENCE), Ok(Ok(())));
        }
        let flushes = gate.flushes.load(Ordering::SeqCst) - before;
        // Data and nodes of the first, those of the others, and of the one that changed meanwhile.
        assert!((2..=5).contains(&flushes), "{flushes} flushes for 8 files");
        let again = gate.flushes.load(Ordering::SeqCst);
        syncs.ask(files[0], move |result| told.send(result).expect("heard"));
        assert_eq!(answers.recv_timeout(PATIENCE), Ok(Ok(())));
        assert_eq!(gate.flushes.load(Ordering::SeqCst), again, "nothing was changed");
        // What was asked of one mount is not answered for by the next.
        let fs = volume.take().expect("served");
        volume.put(fs);
        let (told, answers) = mpsc::channel();
        syncs.ask(files[0], move |result| told.send(result).expect("heard"));
        assert_eq!(answers.recv_timeout(PATIENCE), Ok(Err(Errno::EIO)));
    }
}
