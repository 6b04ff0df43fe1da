//! A store: SQLite's files as objects on a transactional device.
//!
//! Invariants:
//! * only database pages, the store's own records and write-ahead logs reach the device; journals,
//!   super-journals and shared memory live in RAM, but for journals of more than 1 MiB, which lie with the host's
//!   temporary files as these do;
//! * a commit is durable when SQLite is told so, unless group commit was asked for, or
//!   `synchronous=OFF`; where the store has a log, by a record of what it changes (`commit`, `replay`);
//! * one lock guards a store; no call into SQLite is made under it, and nobody waits for the log under it where the
//!   log has a sink;
//! * a store serves the process that opened it, and nobody who was forked from that one.

mod asked;
mod behind;
mod beside;
mod commit;
mod copies;
mod core;
mod delta;
mod device;
mod far;
mod file;
mod group;
mod growth;
mod home;
mod images;
mod journal;
mod locks;
mod objects;
mod open;
mod past;
mod power_on;
mod pragma;
mod queue;
mod record;
mod replay;
mod ring;
mod space;
mod spool;
mod super_journal;
mod table;
mod tx;
mod vfs;
mod waiting;
mod wal;

use std::sync::{Arc, MutexGuard};

use block::{Bytes, Plant, Span, Time, TxError};
use live::{Damage, ImageDrive};

pub use device::Device;
pub use home::Inherited;
pub use open::{FIRST_CAPACITY, OpenError, USUAL_LIMIT};
pub use vfs::{Stores, Virtual};

pub(crate) use self::file::forget_missed;

use self::core::{Core, Done};
use self::home::Home;
use self::objects::Owner;

/// How a store learns that a transaction is over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Way {
    /// From SQLite's file controls (way B): in process, every journal mode but OFF.
    #[default]
    Controls,
    /// From the life of the journal (way A): needs file operations only, but a journal.
    JournalLife,
}

/// What a checkpoint of a write-ahead log does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Checkpoint {
    /// Copies pages into the database, as SQLite asks.
    #[default]
    Copy,
    /// Moves them by remapping when the whole log is checkpointed.
    Remap,
}

/// How a store works. The defaults are durable at every COMMIT.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// How it learns of commits.
    pub way: Way,
    /// What a checkpoint does.
    pub checkpoint: Checkpoint,
    /// Page writes that are collected before whole transactions go to the device together; 0: each
    /// goes at its COMMIT. Lowers durability: after a crash of the program or of the machine the
    /// last transactions may be missing.
    pub group: u64,
    /// How long the first of them may wait, in the store's time.
    pub group_time: Span,
    /// Commits go to the log first, as records of what they change, where the store has a log; their
    /// pages follow together. Else each writes its pages.
    pub delta: bool,
    /// Pages that wait in memory for that, at most (and no more than the device commits at once).
    pub overlay: u32,
    /// The least that a record takes in the log: 512 or 4096 bytes.
    pub log_grain: u32,
    /// Pages of the log, of 4096 bytes, when a store is made; 0: none. `None`: in an image as many as are usual
    /// ([`Store::create`]), unless commits are to write pages; on a device none. A device that has a log keeps it.
    pub log_pages: Option<u32>,
    /// Bytes that an image may hold one day, when one is made: it grows on demand. `None`: what it is made for.
    pub limit: Option<Bytes>,
    /// A reader lets go of a database when all that it may have seen there is durable; else it may act on what a
    /// power cut then takes back.
    pub read_wait: bool,
    /// What a test plants, where power-on is to have it.
    #[doc(hidden)]
    pub bug: Plant<Bug>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            way: Way::default(),
            checkpoint: Checkpoint::default(),
            group: 0,
            group_time: Span::from_us(1_000_000),
            delta: true,
            overlay: 7_500,
            log_grain: 4096,
            log_pages: None,
            limit: None,
            read_wait: true,
            bug: Plant::default(),
        }
    }
}

/// The paper's group, used where `synchronous=OFF` asks for none of ours.
const DEFAULT_GROUP: u64 = 1_000;

impl StoreOptions {
    fn group_limit(&self) -> u64 {
        if self.group == 0 { DEFAULT_GROUP } else { self.group }
    }
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Commits that SQLite was told of.
    pub commits: u64,
    /// Of these, transactions that went into a group.
    pub grouped: u64,
    /// Of the commits, those that are records in the log, and the bytes of these.
    pub logged: u64,
    /// See `logged`.
    pub log_bytes: u64,
    /// Writes to the log: commits of a moment share one, and its flush.
    pub log_writes: u64,
    /// Commits that power-on has found in the log.
    pub replayed: u64,
    /// Groups made durable.
    pub groups: u64,
    /// How often the device has grown.
    pub growths: u64,
    /// Transactions taken back.
    pub aborts: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written in transactions.
    pub tagged: u64,
    /// Pages written outside any.
    pub plain: u64,
    /// Pages of the object table.
    pub table: u64,
    /// Flushes of the device.
    pub flushes: u64,
    /// Transactions that outgrew the device and went on with durable journals.
    pub fallbacks: u64,
    /// Writes to journals, which stay in RAM.
    pub journal_writes: u64,
    /// Pages moved by remapping.
    pub remapped: u64,
    /// How often a connection that slept because a lock was taken was told that it is free.
    pub woken: u64,
}

/// Wrong on purpose: what a test plants to see that it is found.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Bug {
    CommitAtSync,
    PhaseTwoPerFile,
    SuperIgnored,
    SuperWithoutNames,
    MagicUnchecked,
    SpillUntagged,
    SizeOutsideTransaction,
    PhaseTwoErrorSwallowed,
    HalfGroup,
    CheckpointTagged,
    JournalLeft,
    JournalTrusted,
    BehindUnchecked,
    CopyForgotten,
    ChainDropped,
    EpochApart,
    EpochEarly,
    RingReusedEarly,
    AppendBehindTorn,
    DiffAgainstUncommitted,
    MetasLeftOut,
    TwoRecords,
    LogUnchecked,
    ReplayReversed,
    UnloggedMissing,
    SealedEarly,
    AnsweredEarly,
    DurableUnwritten,
    SettledUnwritten,
    LogErrorSwallowed,
    PastForgotten,
    ReaderAhead,
    NobodyWoken,
    ExtentNotDiscarded,
    ExtentNotFlushed,
    PartsApart,
    SlotsUncounted,
    BatchTakesAll,
    LimitsTold,
}

impl Bug {
    /// Whether it is one of a power-on.
    #[doc(hidden)]
    pub fn is_of_power_on(self) -> bool {
        use Bug::{AppendBehindTorn, ChainDropped, LogUnchecked, ReplayReversed};
        matches!(self, AppendBehindTorn | ChainDropped | LogUnchecked | ReplayReversed)
    }
}

/// Why a store cannot be made or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The device holds no store.
    #[error("the device holds no store")]
    NoStore,
    /// It holds something else, and is left as it is.
    #[error("the device holds something, and no store; it is made one only when it is empty")]
    Taken,
    /// The device failed or refused.
    #[error(transparent)]
    Device(#[from] TxError),
    /// What lies behind the drive, for a journal that is to be played back, is damaged.
    #[error("damaged: {0}")]
    Damaged(Damage),
    /// The process was forked from the one that opened it.
    #[error(transparent)]
    Inherited(#[from] Inherited),
}

/// A store; clones are the same one. It serves the process that opened it: in one that was forked
/// from that, SQLite is told of an I/O error, nothing is written, and the methods that cannot say so
/// panic.
#[derive(Clone)]
pub struct Store(Arc<Home>);

impl Store {
    /// Makes an empty store. What the device held is gone.
    ///
    /// # Errors
    /// [`StoreError::Device`].
    pub fn format(device: Box<dyn Device>, options: StoreOptions) -> Result<Store, StoreError> {
        Ok(Store(Arc::new(Home::new(Core::format(device, None, options)?))))
    }

    /// Opens the store that a device holds. Writes nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn mount(device: Box<dyn Device>, options: StoreOptions) -> Result<Store, StoreError> {
        let core = Core::mount(device, None, options)?.ok_or(StoreError::NoStore)?;
        Ok(Store(Arc::new(Home::new(core))))
    }

    /// The same on the drive of an image, which has room behind it for journals when it is full.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn mount_image(drive: ImageDrive, options: StoreOptions) -> Result<Store, StoreError> {
        let (annex, named) = (Some(drive.annex()), drive.named());
        let mut core = Core::mount(Box::new(drive), annex, options)?.ok_or(StoreError::NoStore)?;
        core.named = named;
        Ok(Store(Arc::new(Home::new(core))))
    }

    /// Makes an empty store on the drive of an image.
    ///
    /// # Errors
    /// [`StoreError::Device`].
    pub fn format_image(drive: ImageDrive, options: StoreOptions) -> Result<Store, StoreError> {
        let (annex, named) = (Some(drive.annex()), drive.named());
        let mut core = Core::format(Box::new(drive), annex, options)?;
        core.named = named;
        Ok(Store(Arc::new(Home::new(core))))
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        self.here().stats
    }

    /// The time its device answered last.
    pub fn now(&self) -> Time {
        self.here().now
    }

    /// Lets time pass until `at`: a workload that thinks.
    pub fn advance(&self, at: Time) {
        let mut core = self.here();
        core.now = core.now.max(at);
    }

    /// Makes the group and everything written plainly durable.
    ///
    /// # Errors
    /// [`StoreError::Device`].
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut core = self.core()?;
        core.flush_group()?;
        Ok(core.sync_plain()?)
    }

    /// Works on the device, as a harness or a report does: between SQLite's calls.
    pub fn with_device<T>(&self, body: impl FnOnce(&mut dyn Device) -> T) -> T {
        body(self.here().device.as_mut())
    }

    /// Lets its device hold `capacity` bytes, whatever its limit was.
    ///
    /// # Errors
    /// [`StoreError::Device`]; where there is no room for that, everything is as it was.
    pub fn grow(&self, capacity: Bytes) -> Result<(), StoreError> {
        let mut core = self.0.quiet()?;
        let done = core.grow_by_order(capacity);
        done.map_err(|error| match core.why.take() {
            Some(why) => TxError::from(block::DeviceError::Io(why)).into(),
            None => error.into(),
        })
    }

    /// The names and sizes of its objects.
    pub fn objects(&self) -> Vec<(String, u64)> {
        let core = self.here();
        core.names.iter().map(|(name, id)| (name.clone(), core.size_of(None, *id))).collect()
    }

    /// Bytes of an object, as SQLite sees it: of a write-ahead log those that are laid out otherwise here.
    ///
    /// # Errors
    /// [`StoreError::Device`]; no such object is one of no bytes.
    pub fn bytes(&self, name: &str) -> Result<u64, StoreError> {
        let mut core = self.core()?;
        let Some(id) = core.id_of(name) else { return Ok(0) };
        if core.log_of(name).is_none() {
            return Ok(core.size_of(Some(Owner::Object(id)), id));
        }
        core.wal_open(id)?;
        Ok(core.wal_size(id)?)
    }

    /// Reads of an object as it is committed; how many bytes there were. For who saves what can be read of a damaged
    /// one: SQLite gives up at the first page that cannot be.
    ///
    /// # Errors
    /// As [`Store::bytes`].
    pub fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<usize, StoreError> {
        let mut core = self.core()?;
        let Some(id) = core.id_of(name) else { return Ok(0) };
        let database = core.log_of(name);
        if database.is_none() {
            return Ok(core.read(Some(Owner::Object(id)), id, out, at)?);
        }
        core.wal_open(id)?;
        Ok(core.wal_read(id, database, out, at)?)
    }

    /// Plants a bug.
    #[doc(hidden)]
    pub fn plant(&self, bug: Plant<Bug>) {
        self.here().bug = bug;
    }

    /// Lets the `n`-th write to a journal from here fail.
    #[doc(hidden)]
    pub fn fail_journal_write(&self, n: u64) {
        self.here().journal_fault = Some(n);
    }

    fn core(&self) -> Result<MutexGuard<'_, Core>, Inherited> {
        self.0.lock()
    }

    /// What a call answers: when all that it has committed is durable.
    fn answer<'a, T>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        done: Done<T>,
    ) -> (MutexGuard<'a, Core>, Done<T>) {
        match (done, core.owed.take()) {
            (Ok(value), Some(number)) => {
                let (core, settled) = self.0.settle(core, number);
                (core, settled.map(|()| value))
            }
            (done, _) => (core, done),
        }
    }

    /// For callers who have opened the store themselves.
    fn here(&self) -> MutexGuard<'_, Core> {
        match self.core() {
            Ok(core) => core,
            Err(inherited) => panic!("{inherited}"),
        }
    }
}
