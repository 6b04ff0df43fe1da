//! The host log, live: the engine of `remap` over a medium, used by many threads at once.
//!
//! Planning happens under one short lock, copies, CRCs, reads and writes outside it. Invariants:
//! * a write is answered when its batch is on the medium, or buffered; until then reads find it here;
//! * one flush runs and one is pending, shared by all who wait;
//! * after a write or flush that failed nothing is written any more, and only what is durable is
//!   read;
//! * one thread at a time cleans or takes a checkpoint; a freed segment is discarded before anybody
//!   can use it.

mod buffer;
mod clean;
mod damage;
mod error;
mod feed;
mod flight;
mod group;
mod house;
mod io;
mod medium;
mod shared;
mod turns;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use block::{DeviceError, Lpn, Medium, Plant};

use crate::engine::{Engine, Occasion};
use crate::error::LogError;
use crate::options::{Ack, LogOptions};
use crate::planted::Planted;
use crate::recovery::{Summary, format_store, recover};
use shared::Shared;

pub use error::{Halt, LiveError, is_full};
pub use group::Group;
pub use medium::MediumStore;
pub use turns::Turns;

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
        options: &LogOptions,
        around: Around,
    ) -> Result<LiveLog, LogError> {
        LiveLog::format_with(medium, options, around, Plant::default())
    }

    #[doc(hidden)]
    pub fn format_with(
        medium: Arc<dyn Medium>,
        options: &LogOptions,
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
        options: &LogOptions,
        around: Around,
    ) -> Result<LiveLog, LogError> {
        LiveLog::open_with(medium, options, around, Plant::default())
    }

    #[doc(hidden)]
    pub fn open_with(
        medium: Arc<dyn Medium>,
        options: &LogOptions,
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
        options: &LogOptions,
        around: Around,
    ) -> Result<LiveLog, LogError> {
        let Around { say, turns } = around;
        let read_only = engine.read_only().is_some();
        if let Some(why) = engine.read_only() {
            say(&format!("the host log is read-only: {why}"));
        }
        let shared = Arc::new(Shared::new(medium, engine, options, say, turns.clone()));
        let keeper = match read_only || turns.is_some() {
            true => None,
            false => {
                let shared = shared.clone();
                let thread = std::thread::Builder::new().name("host-log".to_string());
                let spawned = thread.spawn(move || house::keep_or_stop(&shared));
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
            // The buffer joins them.
            0 if self.shared.options.ack == Ack::Buffer => 0,
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

    /// Writes bytes: they are on the medium, not flushed, when this returns; with `ack = buffer` they are
    /// buffered.
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
            ("blocks_absorbed", c.absorbed),
            ("batches", c.batches),
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

fn serves(options: &LogOptions) -> Result<(), LogError> {
    let refused = |name: &str, value: &str, expected: &str| {
        let (name, value) = (name.to_string(), value.to_string());
        Err(LogError::Option { name, value, expected: expected.to_string() })
    };
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
