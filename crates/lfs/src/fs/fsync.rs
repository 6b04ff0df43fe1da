//! Making one file durable without a checkpoint: its nodes go to the warm log, marked.
//!
//! Invariants: data is durable before the nodes that name it are written (the kernel's default
//! leaves that flush out and may expose stale blocks after a crash); one mark, on the inode, which
//! comes last, makes an fsync all or nothing. What roll-forward could not rebuild is a checkpoint.

use block::BlockDevice;

use super::options::Bug;
use super::{Fs, FsyncFallback, Trigger};
use crate::disk::Cause;
use crate::format::{FileType, XATTR_OFFSET};
use crate::{BlockAddr, FsError, Nid, Now};

impl<D: BlockDevice> Fs<D> {
    /// Makes a file durable: name, attributes and contents.
    ///
    /// # Errors
    /// [`FsError::NotFound`], and what the device says.
    pub fn fsync(&mut self, now: Now, ino: Nid) -> Result<(), FsError> {
        self.lessen(now, |fs| match fs.fallback(ino)? {
            Some(why) => fs.checkpoint(Trigger::Fsync(why)),
            None => fs.fsync_nodes(ino),
        })
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
                self.cp().valid_blocks + self.epoch.gained > self.cp().user_blocks,
                FsyncFallback::NoRoom,
            ),
        ];
        Ok(checks.into_iter().find(|(met, _)| *met).map(|(_, why)| why))
    }

    fn fsync_nodes(&mut self, ino: Nid) -> Result<(), FsError> {
        let mut nids = self.nodes.dirty_of(ino);
        let moved = (ino, Nid(0))..=(ino, Nid(u32::MAX));
        nids.extend(self.epoch.moved.range(moved).map(|(_, nid)| *nid));
        nids.sort_unstable();
        nids.dedup();
        if nids.is_empty() {
            return Ok(());
        }
        if !self.options.bug.has(Bug::DataFlush) {
            self.disk.flush()?;
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
        self.need_node(ino, ino, addr)?;
        self.disk.flush()?;
        Ok(())
    }

    /// In the baselines nothing that was written is used again before the checkpoint.
    fn fsync_needs(&self) -> bool {
        self.journals() && !self.options.bug.has(Bug::FsyncJ)
    }

    /// Recovery will read a node that fsync wrote.
    fn need_node(&mut self, ino: Nid, nid: Nid, addr: BlockAddr) -> Result<(), FsError> {
        self.epoch.moved.remove(&(ino, nid));
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
