//! Nodes in memory: read when first asked for, written by fsync, checkpoints and cleaning only.
//!
//! Invariant: a dirty node stays in memory until it is written; a clean one may go at the end of
//! any operation.

use std::collections::{BTreeMap, BTreeSet};

use block::BlockDevice;

use super::Fs;
use super::logs::LogKind;
use crate::disk::Cause;
use crate::format::{FileType, NatEntry, NodeBlock, NodeFlags, Origin, zeroed};
use crate::{BlockAddr, FsError, Nid};

#[derive(Default)]
pub(super) struct Nodes {
    cached: BTreeMap<Nid, NodeBlock>,
    /// File, node.
    dirty: BTreeSet<(Nid, Nid)>,
}

impl Nodes {
    pub(super) fn dirty(&self) -> usize {
        self.dirty.len()
    }
    pub(super) fn is_dirty(&self, ino: Nid, nid: Nid) -> bool {
        self.dirty.contains(&(ino, nid))
    }
    /// Dirty nodes of a file.
    pub(super) fn dirty_of(&self, ino: Nid) -> Vec<Nid> {
        self.dirty.range((ino, Nid(0))..=(ino, Nid(u32::MAX))).map(|(_, nid)| *nid).collect()
    }
    pub(super) fn all_dirty(&self) -> Vec<(Nid, Nid)> {
        self.dirty.iter().copied().collect()
    }
    /// Forgets clean nodes if there are more than `most`.
    pub(super) fn trim(&mut self, most: usize) {
        if self.cached.len() > most {
            let dirty: BTreeSet<Nid> = self.dirty.iter().map(|(_, nid)| *nid).collect();
            self.cached.retain(|nid, _| dirty.contains(nid));
        }
    }
}

impl<D: BlockDevice> Fs<D> {
    pub(super) fn nat_entry(&mut self, nid: Nid) -> Result<NatEntry, FsError> {
        self.nat.get(&mut self.disk, &self.layout, nid)
    }

    pub(super) fn set_nat(&mut self, nid: Nid, entry: NatEntry) -> Result<(), FsError> {
        self.nat.set(&mut self.disk, &self.layout, nid, entry)
    }

    /// Reads a block and refuses one that is not this node.
    pub(super) fn read_node(&mut self, nid: Nid, addr: BlockAddr) -> Result<NodeBlock, FsError> {
        if self.layout.place(addr).is_none() {
            return Err(FsError::Corrupt("a node's address is outside the main area"));
        }
        let mut block = zeroed();
        self.disk.read(addr, &mut block)?;
        let node = NodeBlock(block);
        if node.nid() != nid {
            return Err(FsError::Corrupt("a node's block is another's"));
        }
        Ok(node)
    }

    pub(super) fn node(&mut self, nid: Nid) -> Result<&NodeBlock, FsError> {
        self.load(nid)?;
        self.nodes.cached.get(&nid).ok_or(FsError::Corrupt("a node that was just read"))
    }

    fn load(&mut self, nid: Nid) -> Result<(), FsError> {
        if self.nodes.cached.contains_key(&nid) {
            return Ok(());
        }
        let entry = self.nat_entry(nid)?;
        if entry.addr == BlockAddr::HOLE || nid.0 < Nid::ROOT.0 {
            return Err(FsError::NotFound);
        }
        let node = self.read_node(nid, entry.addr)?;
        if node.ino() != entry.ino {
            return Err(FsError::Corrupt("a node belongs to another file than its entry says"));
        }
        self.nodes.cached.insert(nid, node);
        Ok(())
    }

    /// A node to be changed.
    pub(super) fn node_mut(&mut self, nid: Nid) -> Result<&mut NodeBlock, FsError> {
        self.load(nid)?;
        let node =
            self.nodes.cached.get_mut(&nid).ok_or(FsError::Corrupt("a node that was just read"))?;
        self.nodes.dirty.insert((node.ino(), nid));
        Ok(node)
    }

    /// Puts a node into memory, dirty.
    pub(super) fn put_node(&mut self, node: NodeBlock) {
        self.nodes.dirty.insert((node.ino(), node.nid()));
        self.nodes.cached.insert(node.nid(), node);
    }

    /// An inode; [`FsError::NotFound`] if the number is none's or another kind of node's.
    pub(super) fn inode(&mut self, ino: Nid) -> Result<&NodeBlock, FsError> {
        let node = self.node(ino)?;
        if node.is_inode() { Ok(node) } else { Err(FsError::NotFound) }
    }

    pub(super) fn is_dir(&mut self, ino: Nid) -> Result<bool, FsError> {
        Ok(FileType::of_mode(self.inode(ino)?.mode()) == FileType::Directory)
    }

    /// A new node with a free number.
    pub(super) fn new_node(&mut self, ino: Option<Nid>, offset: u32) -> Result<Nid, FsError> {
        let nid = self.nat.find_free(&mut self.disk, &self.layout)?.ok_or(FsError::NoSpace)?;
        self.new_node_at(nid, ino.unwrap_or(nid), offset, ino.is_none())?;
        Ok(nid)
    }

    /// A new node with this number.
    pub(super) fn new_node_at(
        &mut self,
        nid: Nid,
        ino: Nid,
        offset: u32,
        inode: bool,
    ) -> Result<(), FsError> {
        let cold = inode || !self.is_dir(ino)?;
        let version = self.nat_entry(nid)?.version;
        self.set_nat(nid, NatEntry { version, ino, addr: BlockAddr::RESERVED })?;
        self.put_node(NodeBlock::new(nid, ino, offset, cold));
        self.counts.nodes += 1;
        self.counts.blocks += 1;
        if inode {
            self.counts.inodes += 1;
        } else {
            let owner = self.node_mut(ino)?;
            let blocks = owner.blocks() + 1;
            owner.set_blocks(blocks);
        }
        Ok(())
    }

    /// Frees a node. Its pointers have been dealt with.
    pub(super) fn free_node(&mut self, nid: Nid) -> Result<(), FsError> {
        let (ino, offset) = {
            let node = self.node(nid)?;
            (node.ino(), node.offset())
        };
        let addr = self.nat_entry(nid)?.addr;
        if addr.is_place() {
            self.segs.clear(addr, self.elapsed())?;
        }
        self.nat.free(&mut self.disk, &self.layout, nid)?;
        self.nodes.cached.remove(&nid);
        self.nodes.dirty.remove(&(ino, nid));
        self.epoch.moved.remove(&(ino, nid));
        self.counts.nodes -= 1;
        self.counts.blocks -= 1;
        if nid == ino {
            self.counts.inodes -= 1;
        } else {
            let owner = self.node_mut(ino)?;
            let blocks = owner.blocks().saturating_sub(1);
            owner.set_blocks(blocks);
            if offset != crate::format::XATTR_OFFSET {
                self.epoch.of(ino).freed_nodes = true;
            }
        }
        Ok(())
    }

    /// The log of a node.
    pub(super) fn node_log(&self, node: &NodeBlock) -> LogKind {
        if node.is_indirect() {
            LogKind::ColdNode
        } else if node.has(NodeFlags::COLD) {
            LogKind::WarmNode
        } else {
            LogKind::HotNode
        }
    }

    /// Writes a node to its log; it is clean then.
    pub(super) fn write_node(
        &mut self,
        nid: Nid,
        marks: (bool, bool),
        cause: Cause,
    ) -> Result<BlockAddr, FsError> {
        self.load(nid)?;
        let Some(mut node) = self.nodes.cached.remove(&nid) else {
            return Err(FsError::Corrupt("a node that was just read"));
        };
        let kind = self.node_log(&node);
        let addr = self.alloc(kind, Origin { nid, version: 0, slot: 0 })?;
        let next = match kind {
            LogKind::WarmNode => self.chain_head(),
            _ => BlockAddr::HOLE,
        };
        node.mark(marks.0, marks.1);
        node.stamp(self.written_after(), next);
        self.disk.write(addr, &node.0, cause)?;
        let old = self.nat_entry(nid)?;
        self.set_nat(nid, NatEntry { addr, ..old })?;
        if old.addr.is_place() {
            self.segs.clear(old.addr, self.elapsed())?;
        }
        self.nodes.dirty.remove(&(node.ino(), nid));
        self.nodes.cached.insert(nid, node);
        Ok(addr)
    }
}
