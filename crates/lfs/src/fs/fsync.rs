//! Making files durable without a checkpoint: their nodes go to the warm log, marked.
//!
//! | what a file waits for | then |
//! | --- | --- |
//! | its data is durable | its nodes are written |
//! | its nodes are durable | it is |
//!
//! Files that are waited for at the same time share the flushes, whatever each of them waits for.
//!
//! Invariants: data is durable before the nodes that name it are written (the kernel's default
//! leaves that flush out and may expose stale blocks after a crash), whoever wrote or moved it; one
//! mark, on the inode, which comes last, makes an fsync all or nothing. What roll-forward could not
//! rebuild is a checkpoint.

use block::{BlockDevice, DeviceError};

use super::jobs::Covering;
use super::options::Bug;
use super::{Fs, FsyncFallback, Trigger};
use crate::disk::{Cause, Mark};
use crate::format::{FileType, XATTR_OFFSET};
use crate::{BlockAddr, FsError, Nid, Now};

/// How often a file that is written all the time is waited for before its fsync is a checkpoint.
const WAITS: u32 = 8;

/// A file that somebody wants to be durable.
#[derive(Debug)]
pub struct Syncing {
    ino: Nid,
    /// The checkpoint that makes it durable.
    covering: Covering,
    /// How often it waited for its data.
    waited: u32,
    /// Behind its nodes.
    nodes: Option<Mark>,
    /// They were written for it.
    wrote: bool,
    result: Option<Result<(), FsError>>,
}

impl Syncing {
    /// Nothing was done for it.
    pub fn new(ino: Nid) -> Syncing {
        let covering = Covering::default();
        Syncing { ino, covering, waited: 0, nodes: None, wrote: false, result: None }
    }
    /// There is nothing of it to make durable.
    pub fn settle(&mut self) {
        self.result = Some(Ok(()));
    }
    /// Whether nodes were written for it: a power cut may leave them, or not.
    pub fn wrote(&self) -> bool {
        self.wrote
    }
    /// It is durable, or never will be.
    pub fn is_done(&self) -> bool {
        self.result.is_some()
    }
    /// What came of it.
    ///
    /// # Errors
    /// Why it is not durable.
    pub fn result(self) -> Result<(), FsError> {
        self.result.unwrap_or(Err(FsError::Corrupt("an fsync that was not waited for")))
    }
}

impl<D: BlockDevice> Fs<D> {
    /// Makes a file durable: name, attributes and contents.
    ///
    /// # Errors
    /// [`FsError::NotFound`], and what the device says.
    pub fn fsync(&mut self, now: Now, ino: Nid) -> Result<(), FsError> {
        let mut one = [Syncing::new(ino)];
        self.fsync_all(now, &mut one)?;
        let [one] = one;
        one.result()
    }

    /// Makes several files durable together; each has its own result.
    ///
    /// # Errors
    /// What the device says: then nothing may be relied on of any of them.
    pub fn fsync_all(&mut self, now: Now, all: &mut [Syncing]) -> Result<(), FsError> {
        self.lessen(now, |fs| {
            while fs.sync_step(all)? {
                fs.disk.flush()?;
            }
            Ok(())
        })
    }

    /// Does for files what can be done now. If some of them wait for a flush: what that is to cover. Whoever
    /// asks the device for it says so with [`Fs::flushed`] and comes again; anything may be done between.
    ///
    /// # Errors
    /// What the device says.
    pub fn sync_some(&mut self, now: Now, all: &mut [Syncing]) -> Result<Option<Mark>, FsError> {
        self.lessen(now, |fs| match fs.sync_step(all)? {
            true => Ok(Some(fs.disk.ticket()?)),
            false => Ok(None),
        })
    }

    /// A flush is done, or failed, that was begun after [`Fs::sync_some`] asked for it.
    ///
    /// # Errors
    /// The device's.
    pub fn flushed(&mut self, what: Mark, done: Result<(), DeviceError>) -> Result<(), FsError> {
        self.writable()?;
        match done {
            Ok(()) => {
                let late = self.options.bug.has(Bug::TicketLate);
                self.disk.flushed(if late { self.disk.mark() } else { what });
                Ok(())
            }
            Err(error) => {
                let error = FsError::Device(error);
                self.freeze_after(&error);
                Err(error)
            }
        }
    }

    /// Takes every file a step further; whether some of them wait for a flush.
    fn sync_step(&mut self, all: &mut [Syncing]) -> Result<bool, FsError> {
        let mut waits = false;
        for one in all.iter_mut().filter(|one| one.result.is_none()) {
            match self.sync_one(one) {
                Ok(true) => one.result = Some(Ok(())),
                Ok(false) => waits = true,
                Err(error @ (FsError::Device(_) | FsError::Corrupt(_) | FsError::Again)) => {
                    return Err(error);
                }
                Err(error) => one.result = Some(Err(error)),
            }
        }
        Ok(waits)
    }

    /// Takes a file a step further; whether it is durable.
    fn sync_one(&mut self, one: &mut Syncing) -> Result<bool, FsError> {
        self.disk.fresh();
        if let Some(nodes) = one.nodes {
            return Ok(self.disk.is_durable(nodes));
        }
        if one.covering.is_begun() {
            return self.make_durable(&mut one.covering, Trigger::Sync).map(|()| true);
        }
        if self.is_frozen() && !self.options.bug.has(Bug::SyncsFrozen) {
            // Nodes that it wrote now would belong to neither checkpoint for sure.
            return Err(FsError::Again);
        }
        if let Some(why) = self.fallback(one.ino)? {
            return self.make_durable(&mut one.covering, Trigger::Fsync(why)).map(|()| true);
        }
        let nids = self.nodes_to_sync(one.ino);
        if nids.is_empty() {
            // Somebody else's fsync may have written them.
            if self.options.bug.has(Bug::SyncedEarly) {
                return Ok(true);
            }
            one.nodes = self.epoch.nodes_of(one.ino);
            return Ok(one.nodes.is_none_or(|nodes| self.disk.is_durable(nodes)));
        }
        if self.data_waits(one.ino) {
            one.waited += 1;
            let outside = self.disk.is_outside();
            if one.waited == 1 || outside && one.waited <= WAITS {
                return Ok(false);
            }
            // It was written, or moved, again meanwhile, and may be for ever. A checkpoint's flush covers what
            // is there when it is frozen.
            if outside {
                let why = Trigger::Fsync(FsyncFallback::Rewritten);
                return self.make_durable(&mut one.covering, why).map(|()| true);
            }
            self.disk.flush()?;
        }
        self.fsync_nodes(one.ino, nids)?;
        let nodes = self.disk.mark();
        self.epoch.synced(one.ino, nodes);
        (one.nodes, one.wrote) = (Some(nodes), true);
        Ok(false)
    }

    /// Whether some of a file's data is not durable.
    fn data_waits(&mut self, ino: Nid) -> bool {
        let mark = self.epoch.data_of(ino);
        let waits = mark.is_some_and(|mark| !self.disk.is_durable(mark));
        waits && !self.options.bug.has(Bug::DataFlush)
    }

    fn nodes_to_sync(&self, ino: Nid) -> Vec<Nid> {
        let mut nids = self.nodes.dirty_of(ino);
        nids.extend(self.epoch.moved_of(ino));
        nids.sort_unstable();
        nids.dedup();
        nids
    }

    /// Why roll-forward could not bring this file back.
    fn fallback(&mut self, ino: Nid) -> Result<Option<FsyncFallback>, FsError> {
        let inode = self.inode(ino)?;
        let (kind, links) = (FileType::of_mode(inode.mode()), inode.links());
        let dir = Nid(inode.parent());
        let (since, parent) = (self.epoch.look(ino), self.epoch.look(dir));
        // What is named by nobody needs no entry.
        let checks = [
            (kind != FileType::File, FsyncFallback::NotRegular),
            (links != 1, FsyncFallback::Links),
            (since.renamed, FsyncFallback::Renamed),
            (since.created && parent.created, FsyncFallback::ParentNotDurable),
            (since.created && parent.moved_out, FsyncFallback::ParentRenames),
            (since.created && parent.xattrs, FsyncFallback::ParentXattrs),
            (since.xattrs, FsyncFallback::Xattrs),
            (since.freed_nodes, FsyncFallback::FreedNodes),
            (
                self.cp().valid_blocks + self.epoch.gained() > self.cp().user_blocks,
                FsyncFallback::NoRoom,
            ),
        ];
        Ok(checks.into_iter().find(|(met, _)| *met).map(|(_, why)| why))
    }

    fn fsync_nodes(&mut self, ino: Nid, nids: Vec<Nid>) -> Result<(), FsError> {
        for nid in nids.iter().chain([&ino]) {
            self.node(*nid)?;
            self.nat_entry(*nid)?;
        }
        let mut leaves = Vec::new();
        for nid in nids {
            // Indirect nodes are rebuilt by recovery; the attributes' node did not change.
            let node = self.node(nid)?;
            if nid != ino && !node.is_indirect() && node.offset() != XATTR_OFFSET {
                leaves.push(nid);
            }
        }
        self.need_blocks_of(ino, &leaves)?;
        let created = self.epoch.look(ino).created;
        for nid in leaves {
            let addr = self.write_node(nid, (false, false), Cause::Node)?;
            self.need_node(ino, nid, addr)?;
        }
        let addr = self.write_node(ino, (true, created), Cause::Node)?;
        self.need_node(ino, ino, addr)
    }

    /// In the baselines nothing that was written is used again before the checkpoint.
    fn fsync_needs(&self) -> bool {
        self.journals() && !self.options.bug.has(Bug::FsyncJ)
    }

    /// Recovery will read a node that fsync wrote.
    fn need_node(&mut self, ino: Nid, nid: Nid, addr: BlockAddr) -> Result<(), FsError> {
        self.epoch.settled(ino, nid);
        if self.fsync_needs() { self.segs.need(addr) } else { Ok(()) }
    }

    /// Recovery will read what these nodes name (rule `fsyncj`).
    fn need_blocks_of(&mut self, ino: Nid, leaves: &[Nid]) -> Result<(), FsError> {
        if !self.fsync_needs() {
            return Ok(());
        }
        for nid in leaves.iter().copied().chain([ino]) {
            let node = self.node(nid)?;
            if nid == ino && node.is_inline_data() {
                continue;
            }
            let words: Vec<u32> = node.words(0).filter(|word| *word != 0).collect();
            for addr in words.into_iter().map(BlockAddr).filter(|addr| addr.is_place()) {
                self.segs.need(addr)?;
            }
        }
        Ok(())
    }
}
