//! A mounted volume.
//!
//! Invariants:
//! * every change of the media goes through [`Disk`], and only logs, checkpoints and the journal
//!   write: nothing that recovery may read is written over;
//! * operations on the name space change memory only; the media follow at checkpoints and fsyncs;
//! * space for what an operation may add is made and looked at before it changes anything.

mod ahead;
mod attributes;
mod cache;
mod candidates;
mod check;
mod checkpoint;
mod clean;
mod clean_ahead;
mod cleaner;
mod counts;
mod dir;
mod durable;
mod epoch;
mod file;
mod fsync;
mod health;
mod idle;
mod inspect;
mod jobs;
mod journal;
mod links;
mod listing;
mod logs;
mod marks;
mod mount;
mod names;
mod nat;
mod nodes;
mod options;
mod orphans;
mod outside;
mod pages;
mod records;
mod recover;
mod rename;
mod reserve;
mod seal;
mod seek;
mod segs;
mod space;
mod stats;
mod stretch;
mod summaries;
mod tree;
mod victim;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet};

use block::{BlockDevice, Time};

pub use attributes::{Attributes, SetAttributes};
pub use checkpoint::{FsyncFallback, Trigger};
pub use clean::CleaningCounts;
pub use dir::DirEntry;
pub use fsync::Syncing;
pub use idle::Idle;
pub use inspect::{Durable, DurableJournal};
pub use jobs::{Covering, Job};
pub use logs::LogKind;
pub use names::NewInode;
pub use options::{Bug, Cleaning, FsOptions, OPTIONS, Scj, Victim};
pub use outside::ReadPlan;
pub use seek::Seeking;
pub use space::Usage;
pub use stats::{CheckpointTime, CleaningTime, Event, LogStats, Stats};
pub use stretch::Stretch;

use crate::disk::{Cause, Disk};
use crate::format::{Checkpoint, Inode as _, Superblock};
use crate::layout::Layout;
use crate::{FsError, Nid, Now, Stamp};

/// A mounted volume.
pub struct Fs<D> {
    disk: Disk<D>,
    superblock: Superblock,
    layout: Layout,
    options: FsOptions,
    checkpoints: durable::Checkpoints,
    nat: nat::Nat,
    segs: segs::Segs,
    logs: [logs::Log; 6],
    nodes: nodes::Nodes,
    pages: pages::Pages,
    summaries: summaries::Summaries,
    counts: counts::Counts,
    orphans: orphans::Orphans,
    epoch: epoch::Epoch,
    health: health::Health,
    now: Now,
    mounted: Now,
    /// Seconds that it was mounted before.
    elapsed_before: u64,
    generations: u32,
    cleaner: cleaner::Cleaner,
    counted: stats::Counters,
    /// Blocks of data that somebody above holds back.
    held_back: u64,
    /// The superblock on media says that there is a journal.
    live: bool,
    journal: journal::Journal,
    /// Victims of cleaning ahead of need.
    ahead: ahead::Ahead,
    jobs: jobs::Jobs,
    /// What recovery found in it.
    records: records::Records,
}

impl<D: BlockDevice> Fs<D> {
    fn begin(&mut self, now: Now) {
        self.now = now;
        self.disk.begin(now.at);
    }

    /// An operation that changes nothing.
    fn look<T>(
        &mut self,
        now: Now,
        body: impl FnOnce(&mut Fs<D>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.begin(now);
        let out = body(self);
        if !matches!(out, Err(FsError::Again)) {
            self.trim();
        }
        out
    }

    /// An operation that changes something. After an error of the device, or of what lies on it,
    /// memory and media may have parted: nothing more is changed.
    fn change<T>(
        &mut self,
        now: Now,
        body: impl FnOnce(&mut Fs<D>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.change_after(now, Fs::balance, body)
    }

    /// An operation that adds next to nothing: a full volume does not refuse it.
    fn lessen<T>(
        &mut self,
        now: Now,
        body: impl FnOnce(&mut Fs<D>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.change_after(now, Fs::balance_little, body)
    }

    fn change_after<T>(
        &mut self,
        now: Now,
        balance: impl FnOnce(&mut Fs<D>) -> Result<(), FsError>,
        body: impl FnOnce(&mut Fs<D>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        self.writable()?;
        self.begin(now);
        let out = balance(self);
        self.disk.fresh();
        let out = out.and_then(|()| body(self));
        if matches!(out, Err(FsError::Again)) {
            // What was brought for it stays until it comes again.
            return out;
        }
        let out = out.and_then(|value| self.after_change().map(|()| value));
        if let Err(error) = &out {
            self.freeze_after(error);
        }
        self.trim();
        out
    }

    /// After such an error memory and media may have parted.
    fn freeze_after(&mut self, error: &FsError) {
        self.health.fail(error);
    }

    /// Caches are bounded.
    fn trim(&mut self) {
        self.nodes.trim(self.options.cached_nodes);
        self.pages.trim(self.options.cached_nodes);
        self.nat.trim();
    }

    fn writable(&self) -> Result<(), FsError> {
        self.health.closed().map_or(Ok(()), |why| Err(FsError::ReadOnly(why)))
    }

    /// Whether it takes no changes: as it was mounted, or since an error.
    pub fn is_read_only(&self) -> bool {
        self.health.closed().is_some()
    }

    /// The error since which it takes no changes: what was changed before and not made durable is
    /// lost with the mount.
    pub fn failed(&self) -> Option<&'static str> {
        self.health.closed().filter(|_| !self.options.read_only)
    }

    /// What happened then.
    pub fn cause(&self) -> Option<&FsError> {
        self.health.cause()
    }

    /// Files and directories of which something was changed since the last checkpoint and is in memory
    /// only: what a mount that failed loses. An fsync that was refused may have lost more.
    pub fn unsaved(&self) -> BTreeSet<Nid> {
        let nodes = self.nodes.all_dirty().into_iter().map(|(ino, _)| ino);
        let changed = nodes.chain(self.pages.dirty_dirs()).chain(self.epoch.inodes());
        let frozen = self.checkpoints.frozen().into_iter().flat_map(durable::Frozen::unsaved);
        changed.chain(frozen).collect()
    }

    /// The name under which an inode was known last; none of the root, and of one that cannot be read.
    pub fn last_name(&mut self, now: Now, ino: Nid) -> Option<Vec<u8>> {
        let name = self.look(now, |fs| Ok(fs.inode(ino)?.name().to_vec())).ok()?;
        Some(name).filter(|name| !name.is_empty())
    }

    /// The wall clock's time of the last checkpoint.
    pub fn settled(&self) -> Stamp {
        self.checkpoints.stamp()
    }

    /// When the last operation was done.
    pub fn done(&self) -> Time {
        self.disk.time()
    }

    /// Stops in the middle, as a crash of the program would: what was not written yet is lost, and
    /// the next mount recovers.
    pub fn abandon(self) -> D {
        self.disk.abandon()
    }

    /// When the next operation may begin: writes to the log, and reads of contents that were not
    /// waited for, go on beside it.
    pub fn ready(&self) -> Time {
        self.disk.clock()
    }

    /// When the contents are there that the last [`Fs::read`] asked for.
    pub fn fetched(&self) -> Time {
        self.disk.fetched()
    }

    /// The device below.
    pub fn device(&self) -> &D {
        self.disk.device()
    }

    /// The device below, to be told something that is no request.
    pub fn device_mut(&mut self) -> &mut D {
        self.disk.device_mut()
    }

    /// Sends what is gathered and waits for it: nothing becomes durable by that.
    ///
    /// # Errors
    /// What the device says.
    pub fn settle(&mut self) -> Result<(), FsError> {
        Ok(self.disk.wait()?)
    }

    /// The volume's superblock: identity, label, sizes.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Blocks written, by cause.
    pub fn written(&self, cause: Cause) -> u64 {
        self.disk.written(cause)
    }

    /// Checkpoints made, by what asked for them.
    pub fn checkpoints(&self) -> &BTreeMap<Trigger, u64> {
        self.checkpoints.by_trigger()
    }

    /// Checkpoints begun, by what asked for them: those that were made, and a frozen one.
    pub fn checkpoints_begun(&self) -> &BTreeMap<Trigger, u64> {
        self.checkpoints.begun()
    }

    /// The durable checkpoint.
    fn cp(&self) -> &Checkpoint {
        self.checkpoints.last()
    }

    /// Seconds that the volume was ever mounted.
    fn elapsed(&self) -> u64 {
        let here = self.now.wall.seconds.saturating_sub(self.mounted.wall.seconds);
        self.elapsed_before + here
    }

    /// A number that no other inode of this number had.
    fn generation(&mut self) -> u32 {
        self.generations = self.generations.wrapping_add(1);
        (self.cp().version as u32).wrapping_mul(0x9E37).wrapping_add(self.generations)
    }
}
