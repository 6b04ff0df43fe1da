//! The host log, live: the engine of `remap` over a medium, used by many threads at once.
//!
//! Planning happens under one short lock, copies, CRCs, reads and writes outside it. Invariants:
//! * a write is answered when its batch is on the medium; until then reads find it here;
//! * one flush runs and one is pending, shared by all who wait;
//! * after a write or flush that failed nothing is written any more, and only what is durable is
//!   read;
//! * one thread at a time cleans or takes a checkpoint; a freed segment is discarded before anybody
//!   can use it.

mod clean;
mod damage;
mod disk;
mod flight;
mod house;
mod io;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use block::{DeviceError, Lpn};
use block::Medium;
use remap::{Ack, BLOCK, Engine, LogError, Options, Pba, Planted, Seg, Store, Summary};

use super::{DiskError, Group, Halt};
use crate::notice::say;
use damage::Damage;
use flight::{Feed, Flight};

/// Locks for writes of parts of blocks.
const PARTS: usize = 256;

/// A medium as recovery and checks want it.
#[derive(Clone, Debug)]
pub struct MediumStore(pub Arc<dyn Medium>);

fn at(pba: Pba) -> u64 {
    u64::from(pba.0) * BLOCK as u64
}

impl Store for MediumStore {
    fn blocks(&self) -> u64 {
        self.0.size().unwrap_or(0) / BLOCK as u64
    }
    fn read(&mut self, pba: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(at(pba), out).map_err(|e| DeviceError::Io(e.to_string()))
    }
    fn read_stamps(&mut self, _: Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("a medium keeps bytes, no stamps"))
    }
    fn write(&mut self, pba: Pba, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write(at(pba), bytes).map_err(|e| DeviceError::Io(e.to_string()))
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        self.0.sync().map_err(|e| DeviceError::Io(e.to_string()))
    }
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    flight: Flight,
    /// The error after which nothing is written.
    failed: Option<Halt>,
    /// No room can be made.
    full: bool,
    /// Blocks for which somebody waits for room.
    wanted: Vec<u32>,
    /// So many wait for `changed`.
    waiting: u32,
    /// The keeper sleeps, and nobody has woken it since.
    asleep: bool,
    /// What was tried since somebody last found room.
    tries: u32,
    stop: bool,
    freed: Vec<Seg>,
}

#[derive(Debug)]
struct Shared {
    medium: Arc<dyn Medium>,
    inner: Mutex<Inner>,
    /// A batch has ended, room was made, or something failed.
    changed: Condvar,
    /// There is work for the keeper of the house.
    work: Condvar,
    /// Held by whoever cleans or takes a checkpoint.
    house: Mutex<()>,
    /// Held by whoever writes a part of a block, by its number.
    parts: Vec<Mutex<()>>,
    group: Group,
    damage: Damage,
    start: Instant,
    logical: u32,
    segment: u32,
    options: Options,
}

/// A host log over a medium, as a disk.
#[derive(Debug)]
pub struct LogDisk {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
    summary: Summary,
    read_only: bool,
}

impl LogDisk {
    /// Makes a log on a medium; what it held is gone.
    ///
    /// # Errors
    /// The options ask for what a live log has not, the medium does not fit them, or it fails.
    pub fn format(medium: Arc<dyn Medium>, options: &Options) -> Result<LogDisk, LogError> {
        LogDisk::format_with(medium, options, None)
    }

    #[doc(hidden)]
    pub fn format_with(
        medium: Arc<dyn Medium>,
        options: &Options,
        planted: Option<Planted>,
    ) -> Result<LogDisk, LogError> {
        serves(options)?;
        let engine = remap::format_store(&mut MediumStore(medium.clone()), options, planted)?;
        LogDisk::start(medium, engine, Summary::default(), options)
    }

    /// Opens the log on a medium: recovery.
    ///
    /// # Errors
    /// As [`LogDisk::format`]; there is no log, or it cannot be opened at all. A log whose flushed
    /// part is damaged is opened read-only.
    pub fn open(medium: Arc<dyn Medium>, options: &Options) -> Result<LogDisk, LogError> {
        LogDisk::open_with(medium, options, None)
    }

    #[doc(hidden)]
    pub fn open_with(
        medium: Arc<dyn Medium>,
        options: &Options,
        planted: Option<Planted>,
    ) -> Result<LogDisk, LogError> {
        serves(options)?;
        let found = remap::recover(&mut MediumStore(medium.clone()), options, true, planted)?;
        LogDisk::start(medium, found.engine, found.summary, options)
    }

    /// Opens the log on a medium, or makes one where the first mebibyte is all zeroes: nothing that
    /// might be somebody's is overwritten. With `verify` every block that is read is compared with its
    /// CRC, and a log that has lost what was flushed is refused; without it such a log is read-only,
    /// and what is read may be older than what was flushed. One that is made keeps the CRCs in any
    /// case.
    ///
    /// # Errors
    /// As [`LogDisk::open`] and [`LogDisk::format`].
    pub fn open_or_format(medium: Arc<dyn Medium>, verify: bool) -> Result<LogDisk, LogError> {
        let size = medium.size().map_err(|e| DeviceError::Io(e.to_string()))?;
        let mut first = vec![0; (1 << 20).min(size as usize)];
        medium.read(0, &mut first).map_err(|e| DeviceError::Io(e.to_string()))?;
        let mut options = Options { verify, ..Options::default() };
        if first.iter().any(|b| *b != 0) {
            return LogDisk::open(medium, &options);
        }
        // Some hundred segments, of 2 MiB if there is room for that many.
        let segment = (size / 256).max(1).next_power_of_two().clamp(64 << 10, 2 << 20);
        options.segment = block::Bytes(segment);
        // Two logs never have the same number: what one left behind must not look like the other's.
        options.seed = RandomState::new().build_hasher().finish();
        options.verify = true;
        let disk = LogDisk::format(medium, &options)?;
        disk.verify_reads(verify);
        Ok(disk)
    }

    fn start(
        medium: Arc<dyn Medium>,
        engine: Engine,
        summary: Summary,
        options: &Options,
    ) -> Result<LogDisk, LogError> {
        let g = *engine.geometry();
        let read_only = engine.read_only().is_some();
        if let Some(why) = engine.read_only() {
            say(&format!("the host log is read-only: {why}"));
        }
        let inner = Inner {
            flight: Flight::new(options.inflight),
            engine,
            failed: None,
            full: false,
            wanted: Vec::new(),
            waiting: 0,
            asleep: false,
            tries: 0,
            stop: false,
            freed: Vec::new(),
        };
        let shared = Arc::new(Shared {
            medium,
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            work: Condvar::new(),
            house: Mutex::new(()),
            parts: (0..PARTS).map(|_| Mutex::new(())).collect(),
            group: Group::default(),
            damage: Damage::default(),
            start: Instant::now(),
            logical: g.logical,
            segment: g.segment,
            options: options.clone(),
        });
        let keeper = match read_only {
            true => None,
            false => {
                let shared = shared.clone();
                let thread = std::thread::Builder::new().name("host-log".to_string());
                let spawned = thread.spawn(move || house::keep(&shared));
                Some(spawned.map_err(|e| DeviceError::Io(e.to_string()))?)
            }
        };
        Ok(LogDisk { shared, keeper: Mutex::new(keeper), summary, read_only })
    }

    /// Switches the check of what is read on, where the log keeps CRCs, or off.
    pub fn verify_reads(&self, on: bool) {
        self.shared.lock().engine.verify_reads(on);
    }

    /// What opening found and did.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), LogError> {
        self.shared.lock().engine.check()
    }

    fn stop_keeper(&self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper
            && keeper.join().is_err()
        {
            let why = "the keeper of the log died".to_string();
            self.shared.fail(&mut self.shared.lock(), why.into());
        }
    }
}

fn serves(options: &Options) -> Result<(), LogError> {
    let refused = |name: &str, value: &str, expected: &str| {
        let (name, value) = (name.to_string(), value.to_string());
        Err(LogError::Option { name, value, expected: expected.to_string() })
    };
    if options.ack == Ack::Buffer {
        return refused("ack", "buffer", "device: a live log answers when the data is below");
    }
    if !options.payload {
        return refused("payload", "none", "stored: a live log keeps what it is given");
    }
    Ok(())
}

impl Drop for LogDisk {
    fn drop(&mut self) {
        self.stop_keeper();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let mut inner = inner;
        inner.waiting += 1;
        inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        inner.waiting -= 1;
        inner
    }

    /// Tells those who wait that something has changed; a call of the system is saved where nobody
    /// does.
    fn tell(&self, inner: &Inner) {
        if inner.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn tick(&self, inner: &mut Inner) {
        inner.engine.set_now(self.start.elapsed().as_nanos() as u64);
    }

    fn fail(&self, inner: &mut Inner, why: Halt) -> DiskError {
        if inner.failed.is_none() {
            say(&format!("the host log writes nothing any more: {why}"));
        }
        let why = inner.failed.get_or_insert(why).clone();
        self.tell(inner);
        self.work.notify_all();
        DiskError::Stopped(why)
    }

    /// Makes the map pages of these blocks be in memory, for as long as the lock is held.
    fn pages<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        lpn: Lpn,
        count: u32,
    ) -> Result<MutexGuard<'a, Inner>, DiskError> {
        while let Some(wanted) = inner.engine.missing(lpn, count) {
            drop(inner);
            let mut bytes = [0; BLOCK];
            self.medium.read(at(wanted.1), &mut bytes)?;
            inner = self.lock();
            // Another thread may have been faster, and the page may have changed since.
            if inner.engine.missing(lpn, count) == Some(wanted) {
                inner.engine.install(wanted.0, &bytes);
            }
        }
        inner.engine.trim_memory(lpn, count);
        if inner.engine.damaged_map(lpn, count) {
            self.damage.found(lpn.index() as u64, "its page of the map cannot be believed");
            return Err(self.damage.refuse(format!("the map of block {lpn}")));
        }
        Ok(inner)
    }

    /// Waits until a batch has ended; sends what is gathered whenever a slot is free.
    fn see_off<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        ended: impl Fn(&Flight) -> bool,
    ) -> Result<MutexGuard<'a, Inner>, DiskError> {
        loop {
            if let Some(why) = &inner.failed {
                return Err(DiskError::Stopped(why.clone()));
            }
            if ended(&inner.flight) {
                return Ok(inner);
            }
            inner = match inner.flight.depart() {
                None => self.wait(inner),
                Some(batch) => {
                    drop(inner);
                    let (id, result) = (batch.id, batch.write(&*self.medium));
                    // Its buffer is used again if nobody else has it.
                    drop(batch);
                    self.arrive(id, result)?
                }
            };
        }
    }

    /// A batch has ended.
    fn arrive(
        &self,
        id: u64,
        result: std::io::Result<()>,
    ) -> Result<MutexGuard<'_, Inner>, DiskError> {
        let mut inner = self.lock();
        inner.flight.arrive(id);
        self.tell(&inner);
        match result {
            Ok(()) => Ok(inner),
            Err(error) => Err(self.fail(&mut inner, Halt::from(&error))),
        }
    }

    /// Makes everything admitted durable.
    fn flush(&self) -> Result<(), DiskError> {
        let result = self.group.flush(|| self.flush_now().map_err(Halt::from));
        result.map_err(|why| DiskError::Stopped(self.lock().failed.clone().unwrap_or(why)))
    }

    fn flush_now(&self) -> Result<(), DiskError> {
        let mut inner = self.lock();
        self.tick(&mut inner);
        if let Some(why) = &inner.failed {
            return Err(DiskError::Stopped(why.clone()));
        }
        if !inner.engine.dirty() {
            // A segment that a reader held may be free by now.
            let Inner { engine, freed, .. } = &mut *inner;
            engine.reclaim(freed);
            return self.discard_freed(&mut inner);
        }
        let Inner { engine, flight, .. } = &mut *inner;
        let seq = engine.seal_all(&mut Feed::new(flight));
        let last = inner.flight.last();
        let inner = self.see_off(inner, |flight| flight.all_ended(last))?;
        let sync = !inner.engine.has(Planted::AckBeforeFlush);
        drop(inner);
        let synced = if sync { self.medium.sync() } else { Ok(()) };
        let mut inner = self.lock();
        if let Err(error) = synced {
            return Err(self.fail(&mut inner, Halt::from(&error)));
        }
        let Inner { engine, freed, .. } = &mut *inner;
        engine.set_durable(seq, freed);
        self.discard_freed(&mut inner)
    }

    /// Discards what became free, before anybody can take it: the lock is held.
    fn discard_freed(&self, inner: &mut Inner) -> Result<(), DiskError> {
        let g = *inner.engine.geometry();
        let any = !inner.freed.is_empty();
        while let Some(seg) = inner.freed.pop() {
            let bytes = u64::from(self.segment) * BLOCK as u64;
            if self.options.discard
                && self.medium.discard_is_fast()
                && let Err(error) = self.medium.discard(at(g.base(seg)), bytes)
            {
                return Err(self.fail(inner, Halt::from(&error)));
            }
        }
        if any {
            self.tell(inner);
        }
        Ok(())
    }
}
