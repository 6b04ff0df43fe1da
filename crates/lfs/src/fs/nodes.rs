//! Nodes in memory: read when first asked for, written by fsync, checkpoints and cleaning only.
//!
//! Invariant: a dirty node stays in memory until it is written; a clean one may go at the end of
//! any operation.

use std::collections::BTreeSet;

use block::BlockDevice;

use super::Fs;
use super::cache::Slab;
use super::logs::LogKind;
use super::options::Bug;
use crate::disk::Cause;
use crate::format::{FileType, NatEntry, NodeBlock, NodeFlags, Origin, zeroed};
use crate::{BlockAddr, FsError, Nid};

/// Node numbers of a leaf of the index.
const LEAF: usize = 512;
/// A number whose node is not in memory.
const ABSENT: u32 = u32::MAX;
/// It was just read or made.
const GONE: FsError = FsError::Corrupt("a node that was just read");

#[derive(Default)]
pub(super) struct Nodes {
    slab: Slab<Nid, NodeBlock>,
    /// Place of each node, by its number: a leaf for so many of them.
    index: Vec<Option<Box<[u32; LEAF]>>>,
    /// File, node.
    dirty: BTreeSet<(Nid, Nid)>,
}

impl Nodes {
    fn place(&self, nid: Nid) -> Option<u32> {
        let leaf = self.index.get(nid.index() / LEAF)?.as_deref()?;
        Some(leaf[nid.index() % LEAF]).filter(|at| *at != ABSENT)
    }

    fn add(&mut self, node: NodeBlock) -> u32 {
        let nid = node.nid();
        self.drop(nid);
        let at = self.slab.add(nid, node);
        let leaf = nid.index() / LEAF;
        if self.index.len() <= leaf {
            self.index.resize_with(leaf + 1, || None);
        }
        let leaf = self.index[leaf].get_or_insert_with(|| Box::new([ABSENT; LEAF]));
        leaf[nid.index() % LEAF] = at;
        at
    }

    fn drop(&mut self, nid: Nid) {
        let Some(at) = self.place(nid) else { return };
        self.slab.remove(at);
        if let Some(leaf) = &mut self.index[nid.index() / LEAF] {
            leaf[nid.index() % LEAF] = ABSENT;
        }
    }

    fn soil(&mut self, ino: Nid, nid: Nid, at: u32) {
        if !self.slab.set_dirty(at, true) {
            self.dirty.insert((ino, nid));
        }
    }

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
        if self.slab.is_over(most) {
            while let Some((_, nid)) = self.slab.next_victim(most) {
                self.drop(nid);
            }
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
        let mut node = self.nodes.slab.spare().unwrap_or_else(|| NodeBlock(zeroed()));
        self.disk.read(addr, &mut node.0)?;
        if node.nid() != nid {
            return Err(FsError::Corrupt("a node's block is another's"));
        }
        Ok(node)
    }

    pub(super) fn node(&mut self, nid: Nid) -> Result<&NodeBlock, FsError> {
        let at = self.load(nid)?;
        self.nodes.slab.get(at).map(|node| &*node).ok_or(GONE)
    }

    /// A node's place in memory.
    fn load(&mut self, nid: Nid) -> Result<u32, FsError> {
        if let Some(at) = self.nodes.place(nid) {
            return Ok(at);
        }
        let entry = self.nat_entry(nid)?;
        if entry.addr == BlockAddr::HOLE || nid.0 < Nid::ROOT.0 {
            return Err(FsError::NotFound);
        }
        let node = self.read_node(nid, entry.addr)?;
        if node.ino() != entry.ino {
            return Err(FsError::Corrupt("a node belongs to another file than its entry says"));
        }
        Ok(self.nodes.add(node))
    }

    /// A node to be changed.
    pub(super) fn node_mut(&mut self, nid: Nid) -> Result<&mut NodeBlock, FsError> {
        let at = self.load(nid)?;
        let ino = self.nodes.slab.peek(at).ok_or(GONE)?.ino();
        self.nodes.soil(ino, nid, at);
        self.nodes.slab.get(at).ok_or(GONE)
    }

    /// Puts a node into memory, dirty.
    pub(super) fn put_node(&mut self, node: NodeBlock) {
        let (ino, nid) = (node.ino(), node.nid());
        let at = self.nodes.add(node);
        self.nodes.soil(ino, nid, at);
    }

    /// A node without pointers, not in memory yet.
    pub(super) fn blank_node(&mut self, nid: Nid, ino: Nid, offset: u32, cold: bool) -> NodeBlock {
        match self.nodes.slab.spare() {
            Some(mut node) => {
                node.renew(nid, ino, offset, cold);
                node
            }
            None => NodeBlock::new(nid, ino, offset, cold),
        }
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
        let node = self.blank_node(nid, ino, offset, cold);
        self.put_node(node);
        self.counts.add_node(inode);
        self.epoch.gain(1);
        if !inode {
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
        if self.options.bug.has(Bug::NidReused) {
            self.nat.forget_freed(nid);
        }
        self.nodes.drop(nid);
        self.nodes.dirty.remove(&(ino, nid));
        self.epoch.settled(ino, nid);
        self.counts.drop_node(nid == ino);
        if nid != ino {
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
    fn log_of(node: &NodeBlock) -> LogKind {
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
        let place = self.load(nid)?;
        let kind = Fs::<D>::log_of(self.nodes.slab.peek(place).ok_or(GONE)?);
        let addr = self.alloc(kind, Origin { nid, version: 0, slot: 0 })?;
        let next = match kind {
            LogKind::WarmNode if self.options.bug.has(Bug::NextLate) => BlockAddr(addr.0 + 1),
            LogKind::WarmNode => self.chain_head(),
            _ => BlockAddr::HOLE,
        };
        let node = self.nodes.slab.get(place).ok_or(GONE)?;
        node.mark(marks.0, marks.1);
        node.link(next);
        let node = self.nodes.slab.peek(place).ok_or(GONE)?;
        let stamp = match kind {
            LogKind::WarmNode => self.stamp_in_chain(node),
            _ => self.written_after(),
        };
        let node = self.nodes.slab.get(place).ok_or(GONE)?;
        node.stamp(stamp, next);
        let ino = node.ino();
        self.disk.write(addr, &node.0, cause)?;
        let old = self.nat_entry(nid)?;
        self.set_nat(nid, NatEntry { addr, ..old })?;
        if old.addr.is_place() {
            self.segs.clear(old.addr, self.elapsed())?;
        }
        if self.nodes.slab.set_dirty(place, false) {
            self.nodes.dirty.remove(&(ino, nid));
        }
        Ok(addr)
    }
}
