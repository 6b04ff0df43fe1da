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
mod error;
mod flight;
mod group;
mod house;
mod io;
mod turns;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use block::{DeviceError, Lpn, Medium, Plant};

use crate::engine::{Engine, Occasion};
use crate::error::LogError;
use crate::geometry::{BLOCK, Pba, Seg};
use crate::options::{Ack, Options};
use crate::planted::Planted;
use crate::recovery::{Summary, format_store, recover};
use crate::store::Store;
use clean::Victim;
use damage::Damage;
use flight::{Feed, Flight};
use turns::Waits;

pub use error::{Halt, LiveError, is_full};
pub use group::Group;
pub use turns::Turns;

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

/// A run of bytes that is in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes.
    pub bytes: u64,
    /// Nothing is stored there: it reads as zeroes.
    pub hole: bool,
}

/// What a live log is told of the program around it.
#[derive(Clone, Debug)]
pub struct Around {
    /// Tells an operator what he must know at once.
    pub say: fn(&str),
    /// Its threads take turns, and nobody keeps house but who calls [`LiveLog::keep`].
    pub turns: Option<Arc<dyn Turns>>,
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
    house: Mutex<Victim>,
    /// Held by whoever writes a part of a block, by its number.
    parts: Vec<Mutex<()>>,
    group: Group,
    damage: Damage,
    say: fn(&str),
    waits: Waits,
    logical: u32,
    segment: u32,
    options: Options,
}

/// A host log over a medium, for many threads at once.
#[derive(Debug)]
pub struct LiveLog {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
    summary: Summary,
    read_only: bool,
}

impl LiveLog {
    /// Makes a log on a medium; what it held is gone.
    ///
    /// # Errors
    /// The options ask for what a live log has not, the medium does not fit them, or it fails.
    pub fn format(
        medium: Arc<dyn Medium>,
        options: &Options,
        around: Around,
    ) -> Result<LiveLog, LogError> {
        LiveLog::format_with(medium, options, around, Plant::default())
    }

    #[doc(hidden)]
    pub fn format_with(
        medium: Arc<dyn Medium>,
        options: &Options,
        around: Around,
        planted: Plant<Planted>,
    ) -> Result<LiveLog, LogError> {
        serves(options)?;
        let engine = format_store(&mut MediumStore(medium.clone()), options, planted)?;
        LiveLog::start(medium, engine, Summary::default(), options, around)
    }

    /// Opens the log on a medium: recovery.
    ///
    /// # Errors
    /// As [`LiveLog::format`]; there is no log, or it cannot be opened at all. A log whose flushed
    /// part is damaged is opened read-only.
    pub fn open(
        medium: Arc<dyn Medium>,
        options: &Options,
        around: Around,
    ) -> Result<LiveLog, LogError> {
        LiveLog::open_with(medium, options, around, Plant::default())
    }

    #[doc(hidden)]
    pub fn open_with(
        medium: Arc<dyn Medium>,
        options: &Options,
        around: Around,
        planted: Plant<Planted>,
    ) -> Result<LiveLog, LogError> {
        serves(options)?;
        let found = recover(&mut MediumStore(medium.clone()), options, true, planted)?;
        LiveLog::start(medium, found.engine, found.summary, options, around)
    }

    fn start(
        medium: Arc<dyn Medium>,
        engine: Engine,
        summary: Summary,
        options: &Options,
        around: Around,
    ) -> Result<LiveLog, LogError> {
        let Around { say, turns } = around;
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
            stop: false,
            freed: Vec::new(),
        };
        let shared = Arc::new(Shared {
            medium,
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            work: Condvar::new(),
            house: Mutex::default(),
            parts: (0..PARTS).map(|_| Mutex::new(())).collect(),
            group: Group::among(turns.clone()),
            damage: Damage::new(say),
            say,
            waits: Waits::new(turns.clone()),
            logical: g.logical,
            segment: g.segment,
            options: options.clone(),
        });
        let keeper = match read_only || turns.is_some() {
            true => None,
            false => {
                let shared = shared.clone();
                let thread = std::thread::Builder::new().name("host-log".to_string());
                let spawned = thread.spawn(move || house::keep(&shared));
                Some(spawned.map_err(|e| DeviceError::Io(e.to_string()))?)
            }
        };
        Ok(LiveLog { shared, keeper: Mutex::new(keeper), summary, read_only })
    }

    /// Switches the check of what is read on, where the log keeps CRCs, or off.
    pub fn verify_reads(&self, on: bool) {
        self.shared.lock().engine.verify_reads(on);
    }

    /// What opening found and did.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Damage that opening found: nothing is written.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Blocks of 4 KiB.
    pub fn blocks(&self) -> u32 {
        self.shared.logical
    }

    /// Blocks of a write that is there as a whole or not at all after a power cut.
    pub fn atomic_blocks(&self) -> u32 {
        self.shared.atomic_blocks()
    }

    /// Blocks of writes that may be admitted together.
    pub fn joined_blocks(&self) -> u32 {
        match self.shared.options.map_memory.0 {
            0 => self.shared.atomic_blocks(),
            // Loading the map of one may let go that of another.
            _ => 0,
        }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// [`LiveError`]; `into` holds nothing to be believed then.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), LiveError> {
        self.shared.read(at, into)
    }

    /// Writes bytes: they are on the medium, not flushed, when this returns.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), LiveError> {
        self.shared.write(at, bytes)
    }

    /// Writes whole blocks, each from its first on, [`LiveLog::joined_blocks`] in all at most: all of
    /// them or, with an error other than [`LiveError::Stopped`], none.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn write_together(&self, writes: &[(Lpn, &[u8])]) -> Result<(), LiveError> {
        self.shared.admit(writes, |_| true).map(|_| ())
    }

    /// Returns when all that was answered before is durable.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn flush(&self) -> Result<(), LiveError> {
        self.shared.flush()
    }

    /// Forgets the whole blocks of a range: they read as zeroes.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn trim(&self, at: u64, bytes: u64) -> Result<(), LiveError> {
        self.shared.trim(at, bytes)
    }

    /// Makes a range read as zeroes; with `keep` by writing them.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn zero(&self, at: u64, bytes: u64, keep: bool) -> Result<(), LiveError> {
        self.shared.zero(at, bytes, keep)
    }

    /// The state of a range, as `most` extents at most.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, LiveError> {
        self.shared.extents(at, bytes, most)
    }

    /// A clean stop: everything is durable, and the next start has nothing to replay.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn close(&self) -> Result<(), LiveError> {
        self.stop();
        if self.read_only { Ok(()) } else { self.shared.last_checkpoint() }
    }

    /// What was counted, one name and number each.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let (asked, ran) = self.shared.group.counts();
        let (damaged, refused) = self.shared.damage.counts();
        let inner = self.shared.lock();
        let c = inner.engine.counters();
        vec![
            ("flushes_asked", asked),
            ("syncs", ran),
            ("user_blocks", c.user),
            ("header_blocks", c.header),
            ("gc_blocks", c.gc),
            ("meta_blocks", c.meta),
            ("root_blocks", c.root),
            ("records", c.records),
            ("trims", c.trims),
            ("checkpoints", c.checkpoints),
            ("segments_cleaned", c.cleaned),
            ("segments_freed", c.freed),
            ("segments_free", u64::from(inner.engine.free_segments())),
            ("blocks_poisoned", c.poisoned),
            ("segments_quarantined", c.quarantined),
            ("reads_verified", u64::from(inner.engine.verifies())),
            ("blocks_damaged", damaged),
            ("requests_damaged", refused),
            ("log_writes", inner.flight.batches),
            ("log_blocks", inner.flight.blocks),
            ("memory_bytes", inner.engine.memory()),
        ]
    }

    /// Looks at the engine: tables and decisions.
    pub fn with_engine<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        look(&self.shared.lock().engine)
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), LogError> {
        self.shared.lock().engine.check()
    }

    /// Blocks of 4 KiB that are counted ([`crate::Counters::written`]) and not sent to the medium yet.
    /// `None` while some are on their way or a step of house-keeping is under way, or after an error.
    pub fn unsent(&self) -> Option<u64> {
        let _no_step = self.shared.house.try_lock().ok()?;
        let inner = self.shared.lock();
        let gathered = inner.flight.gathered().filter(|_| inner.failed.is_none())?;
        Some(gathered + inner.engine.checkpoint_owed())
    }

    /// Keeps house until [`LiveLog::stop`]: for threads that take turns.
    pub fn keep(&self) {
        house::keep(&self.shared);
    }

    /// Keeps house by this thread until nothing is due: where nobody else does.
    pub fn keep_quiet(&self, occasion: Occasion) {
        house::keep_quiet(&self.shared, occasion);
    }

    /// Stops house-keeping.
    pub fn stop(&self) {
        self.shared.lock().stop = true;
        self.shared.waits.tell(&self.shared.work);
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

impl Drop for LiveLog {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let mut inner = inner;
        inner.waiting += 1;
        inner = self.waits.wait(&self.inner, inner, &self.changed, None);
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
        inner.engine.set_now(self.waits.now());
    }

    fn fail(&self, inner: &mut Inner, why: Halt) -> LiveError {
        if inner.failed.is_none() {
            (self.say)(&format!("the host log writes nothing any more: {why}"));
        }
        let why = inner.failed.get_or_insert(why).clone();
        self.tell(inner);
        self.waits.tell(&self.work);
        LiveError::Stopped(why)
    }

    /// Makes the map pages of these blocks be in memory, for as long as the lock is held.
    fn pages<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        lpn: Lpn,
        count: u32,
    ) -> Result<MutexGuard<'a, Inner>, LiveError> {
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
    ) -> Result<MutexGuard<'a, Inner>, LiveError> {
        loop {
            if let Some(why) = &inner.failed {
                return Err(LiveError::Stopped(why.clone()));
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
    ) -> Result<MutexGuard<'_, Inner>, LiveError> {
        let mut inner = self.lock();
        inner.flight.arrive(id);
        self.tell(&inner);
        match result {
            Ok(()) => Ok(inner),
            Err(error) => Err(self.fail(&mut inner, Halt::from(&error))),
        }
    }

    /// Makes everything admitted durable.
    fn flush(&self) -> Result<(), LiveError> {
        let result = self.group.flush(|| self.flush_now().map_err(Halt::from));
        result.map_err(|why| LiveError::Stopped(self.lock().failed.clone().unwrap_or(why)))
    }

    fn flush_now(&self) -> Result<(), LiveError> {
        let mut inner = self.lock();
        self.tick(&mut inner);
        if let Some(why) = &inner.failed {
            return Err(LiveError::Stopped(why.clone()));
        }
        if !inner.engine.dirty() {
            // A segment that a reader held may be free by now.
            let Inner { engine, freed, .. } = &mut *inner;
            engine.reclaim(freed);
            return self.discard_freed(&mut inner);
        }
        let Inner { engine, flight, .. } = &mut *inner;
        let seq = engine.flush_begin(&mut Feed::new(flight));
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
        engine.flush_end(seq, freed);
        self.discard_freed(&mut inner)
    }

    /// Discards what became free, before anybody can take it: the lock is held.
    fn discard_freed(&self, inner: &mut Inner) -> Result<(), LiveError> {
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
