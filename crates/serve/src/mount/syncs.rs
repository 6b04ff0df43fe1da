//! Fsyncs: those that wait at the same time share the device's flushes, and nobody else waits for them.
//!
//! | who | does |
//! | --- | --- |
//! | who asks while nothing is asked for, and is not needed elsewhere | all of it himself, until his own is answered |
//! | anybody else | tells it, and goes |
//! | the thread | the rest |
//!
//! One of them at a time has the group: what is on its way. To hand one fsync to a thread and wait for it would
//! take longer than to write what it needs.
//!
//! Invariants: the volume's lock is not held while the device flushes; an answer comes after the flush
//! that made the file durable; what was asked of one mount is not answered for by the next one; whoever has
//! the group gives it back, or nothing is answered for any more.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use block::{BlockDevice, DeviceError, Request};
use fuser::Errno;
use lfs::fs::Syncing;
use lfs::{Mark, Nid};
use stack::disk::Asked;

use super::takers::away_if_others_take;
use super::volume::{Flushing, Volume};

/// Who is told what came of it.
type Answer = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Somebody waits until a file is durable.
struct Waiting {
    answer: Answer,
    since: Instant,
}

/// Fsyncs on their way.
#[derive(Default)]
struct Group {
    files: Vec<Syncing>,
    waiting: Vec<Waiting>,
    /// What some of them wait for.
    flush: Option<Flushing>,
}

impl Group {
    fn add(&mut self, new: Vec<(Nid, Waiting)>) {
        for (ino, one) in new {
            self.files.push(Syncing::new(ino));
            self.waiting.push(one);
        }
    }

    /// Asks the device for the flush that some of them wait for; what came of it.
    fn flush(&mut self) -> Option<(Mark, Result<(), DeviceError>)> {
        let Flushing { mark, mut device, now } = self.flush.take()?;
        Some((mark, device.submit(now.at, Request::flush()).map(|_| ())))
    }

    /// Takes all of them a step further.
    fn step(
        &mut self,
        volume: &Volume,
        mount: u64,
        flushed: Option<(Mark, Result<(), DeviceError>)>,
    ) {
        let round = volume.sync(mount, flushed, &mut self.files);
        let failed = round.as_ref().err().copied();
        let (files, waiting) = (std::mem::take(&mut self.files), std::mem::take(&mut self.waiting));
        for (file, one) in files.into_iter().zip(waiting) {
            match failed {
                Some(error) => answer(volume, one, Err(error)),
                None if file.is_done() => {
                    answer(volume, one, file.result().map_err(|e| super::errors::errno(&e)));
                }
                None => {
                    self.files.push(file);
                    self.waiting.push(one);
                }
            }
        }
        self.flush = round.ok().flatten();
    }
}

struct Asks {
    new: Vec<(Nid, Waiting)>,
    /// None: somebody has it.
    group: Option<Group>,
    ended: bool,
}

impl Asks {
    /// Whether the group is there, and has something to do.
    fn has_work(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.files.is_empty() || !self.new.is_empty())
    }
    /// Whether the group is there, and nobody waits for anything.
    fn is_idle(&self) -> bool {
        self.group.is_some() && !self.has_work()
    }
}

struct Shared {
    volume: Arc<Volume>,
    mount: u64,
    asks: Mutex<Asks>,
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has the group; takes it on until he has done enough, or nothing is left to do.
    fn lead(&self, mut group: Group, enough: impl Fn() -> bool) {
        let led = Led(self);
        loop {
            let flushed = group.flush();
            group.add(std::mem::take(&mut self.lock().new));
            group.step(&self.volume, self.mount, flushed);
            let mut asks = self.lock();
            if enough() || group.files.is_empty() && asks.new.is_empty() {
                asks.group = Some(group);
                break;
            }
        }
        drop(led);
    }

    /// The thread's life.
    fn serve(&self) {
        let mut asks = self.lock();
        loop {
            if asks.has_work()
                && let Some(group) = asks.group.take()
            {
                drop(asks);
                self.lead(group, || false);
                asks = self.lock();
            } else if asks.ended && asks.group.is_some() {
                return;
            } else {
                asks = self.told.wait(asks).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Somebody has the group. However he ends: who waits for it is told.
struct Led<'a>(&'a Shared);

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let mut asks = self.0.lock();
        if std::thread::panicking() {
            // What he had is answered for by being dropped.
            asks.group = Some(Group::default());
            asks.end();
        }
        if asks.has_work() || asks.ended {
            self.0.told.notify_all();
        }
    }
}

impl Asks {
    /// Nothing more is done.
    fn end(&mut self) {
        self.ended = true;
        for (_, one) in std::mem::take(&mut self.new) {
            (one.answer)(Err(Errno::EIO));
        }
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
        let asks = Asks { new: Vec::new(), group: Some(Group::default()), ended: false };
        let (volume, mount) = (Arc::clone(volume), volume.mounts());
        let (asks, told) = (Mutex::new(asks), Condvar::new());
        let shared = Arc::new(Shared { volume, mount, asks, told });
        let end = End(Arc::clone(&shared));
        let body = move || end.0.serve();
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
        let since = Instant::now();
        if asks.is_idle()
            && let Some(away) = away_if_others_take()
            && let Some(mut group) = asks.group.take()
        {
            drop(asks);
            let own = Arc::new(());
            let answered = Arc::downgrade(&own);
            let answer = Box::new(move |result| {
                answer(result);
                drop(own);
            });
            group.add(vec![(ino, Waiting { answer, since })]);
            self.shared.lead(group, || answered.strong_count() == 0);
            return drop(away);
        }
        asks.new.push((ino, Waiting { answer: Box::new(answer), since }));
        if asks.group.is_some() {
            self.shared.told.notify_all();
        }
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
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().end();
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
    use super::super::takers::Takers;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Memory whose flushes wait until somebody lets them.
    #[derive(Debug)]
    struct Gate {
        below: RamDisk,
        shut: Mutex<bool>,
        opened: Condvar,
        flushes: AtomicU64,
        /// Threads that flushed.
        by: Mutex<Vec<String>>,
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
            let name = std::thread::current().name().unwrap_or_default().to_string();
            self.by.lock().expect("the list").push(name);
            self.flushes.fetch_add(1, Ordering::SeqCst);
            let shut = self.shut.lock().expect("the gate");
            drop(self.opened.wait_while(shut, |shut| *shut).expect("the gate"));
            Ok(())
        }
        fn size(&self) -> io::Result<u64> {
            self.below.size()
        }
    }

    /// A volume on such memory, with files of which nothing is durable.
    fn served(count: u8) -> (Arc<Gate>, Arc<Volume>, Vec<Nid>) {
        let below = RamDisk::new(64 << 20).expect("memory");
        let (shut, opened, flushes) = (Mutex::new(false), Condvar::new(), AtomicU64::new(0));
        let by = Mutex::default();
        let gate = Arc::new(Gate { below, shut, opened, flushes, by });
        let disk = Arc::new(MediumDisk::new(gate.clone()).expect("a disk"));
        let power = Arc::new(NoSwitch("a test"));
        let volume = Arc::new(Volume::new(power, Atime::Never, std::path::Path::new("test")));
        let options = MkfsOptions::new([1; 16], 1);
        let device = lfs::mkfs(DiskDevice(disk), &options, volume.now()).expect("made").0;
        let device = Behind::new(device, false).expect("a thread");
        volume.put(Fs::mount(device, FsOptions::default(), volume.now()).expect("mounted"));
        let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
        let files = (0..count)
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
        (gate, volume, files)
    }

    #[test]
    fn flushes_are_shared_and_nobody_else_waits_for_them() {
        let (gate, volume, files) = served(8);
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
    /// Asks as a thread that takes requests; `told` when it has asked, and what came of it.
    fn ask_as(
        takers: &Arc<Takers>,
        syncs: &Arc<Syncs>,
        ino: Nid,
    ) -> (JoinHandle<()>, mpsc::Receiver<Result<(), Errno>>) {
        let (takers, syncs, (told, answer)) = (takers.clone(), syncs.clone(), mpsc::channel());
        let body = move || {
            let _turn = takers.take();
            syncs.ask(ino, move |result| told.send(result).expect("heard"));
        };
        let thread = std::thread::Builder::new().name("takes".to_string()).spawn(body);
        (thread.expect("a thread"), answer)
    }

    #[test]
    fn who_asks_alone_does_it_himself_and_what_others_asked_for_is_not_left() {
        let (gate, volume, files) = served(8);
        let syncs = Arc::new(Syncs::new(&volume).expect("a thread"));
        let takers = Arc::new(Takers::new(2));
        gate.by.lock().expect("the list").clear();
        let (thread, answer) = ask_as(&takers, &syncs, files[0]);
        thread.join().expect("no panic");
        assert_eq!(answer.try_recv(), Ok(Ok(())), "answered when it had been asked for");
        let by = std::mem::take(&mut *gate.by.lock().expect("the list"));
        assert!(!by.is_empty() && by.iter().all(|name| name == "takes"), "{by:?}");
        // While he flushes others write and ask. He does not stay for what they need beyond his own.
        gate.set(true);
        let before = gate.flushes.load(Ordering::SeqCst);
        let (thread, answer) = ask_as(&takers, &syncs, files[1]);
        while gate.flushes.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        for ino in &files[2..] {
            let more = volume.with(|fs, now| fs.write(now, *ino, Bytes(20_000), &[9; 5000]));
            more.expect("written");
        }
        let others: Vec<_> = files[2..].iter().map(|ino| ask_as(&takers, &syncs, *ino)).collect();
        let answers: Vec<_> = others
            .into_iter()
            .map(|(thread, answer)| {
                thread.join().expect("it went, although the device flushes");
                answer
            })
            .collect();
        gate.set(false);
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(())));
        thread.join().expect("no panic");
        for answer in answers {
            assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(())));
        }
        let by = gate.by.lock().expect("the list").clone();
        assert_eq!(by, ["takes", "fsync", "fsync"], "of his node; of their data, and nodes");
        // The only one that takes requests goes on with that.
        let takers = Arc::new(Takers::new(1));
        let more = volume.with(|fs, now| fs.write(now, files[0], Bytes(20_000), &[9; 5000]));
        more.expect("written");
        gate.set(true);
        let (thread, answer) = ask_as(&takers, &syncs, files[0]);
        thread.join().expect("it went");
        assert!(answer.try_recv().is_err(), "told before the flush was done");
        gate.set(false);
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(())));
    }

    #[test]
    fn whoever_panics_at_it_lets_nobody_wait() {
        let (gate, volume, files) = served(2);
        let syncs = Arc::new(Syncs::new(&volume).expect("a thread"));
        let takers = Arc::new(Takers::new(2));
        gate.set(true);
        let before = gate.flushes.load(Ordering::SeqCst);
        // The answer panics, in the thread that took the group.
        let (one, all) = (files[0], (takers.clone(), syncs.clone()));
        let panics = std::thread::spawn(move || {
            let _turn = all.0.take();
            all.1.ask(one, |_| panic!("a planted panic"));
        });
        while gate.flushes.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        let (thread, answer) = ask_as(&takers, &syncs, files[1]);
        thread.join().expect("it went");
        gate.set(false);
        assert!(panics.join().is_err());
        let answered = answer.recv_timeout(PATIENCE);
        assert!(!matches!(answered, Err(mpsc::RecvTimeoutError::Timeout)), "it waits for ever");
        let (thread, answer) = ask_as(&takers, &syncs, files[1]);
        thread.join().expect("no panic");
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(Err(Errno::EIO)), "nothing more is done");
    }
}
