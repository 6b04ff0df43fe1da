//! The index tree: from a file's block number to the pointer that names the block.
//!
//! Invariant: a file's count of blocks is its inode, its nodes, and its pointers that are no holes.

use block::BlockDevice;

use super::Fs;
use crate::format::{ADDRS_PER_BLOCK, Origin, Reach};
use crate::{BlockAddr, FsError, Nid};

/// A pointer: which node, which word of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pointer {
    pub(super) nid: Nid,
    pub(super) slot: usize,
}

/// Blocks that a child of an inode reaches, by its slot.
const SPANS: [(u64, u32); 5] = {
    let one = ADDRS_PER_BLOCK as u64;
    [(one, 0), (one, 0), (one * one, 1), (one * one, 1), (one * one * one, 2)]
};

impl<D: BlockDevice> Fs<D> {
    /// The pointer of a block, if all nodes on the way are there.
    pub(super) fn find_pointer(
        &mut self,
        ino: Nid,
        index: u64,
    ) -> Result<Option<Pointer>, FsError> {
        Ok(self.pointer_or_next(ino, index)?.ok())
    }

    /// The pointer of a block; nodes on the way are made. `leaf` is the number that the last of
    /// them is to have, if it is made.
    pub(super) fn make_pointer(
        &mut self,
        ino: Nid,
        index: u64,
        leaf: Option<Nid>,
    ) -> Result<Pointer, FsError> {
        let inode = self.inode(ino)?;
        let reach = Reach::of(index, inode.slots()).ok_or(FsError::TooLarge)?;
        let mut nid = ino;
        for (i, (slot, offset)) in reach.steps().iter().enumerate() {
            let slot = usize::from(*slot);
            let mut child = self.child(ino, nid, (i, slot))?;
            if child == Nid::NONE {
                child = match leaf.filter(|_| i + 1 == reach.steps().len()) {
                    Some(leaf) => {
                        self.new_node_at(leaf, ino, *offset, false)?;
                        leaf
                    }
                    None => self.new_node(Some(ino), *offset)?,
                };
                let node = self.node_mut(nid)?;
                if i == 0 {
                    node.set_child(slot, child);
                } else {
                    node.set_word(slot, child.0);
                }
            }
            nid = child;
        }
        Ok(Pointer { nid, slot: reach.slot })
    }

    /// The node that a node on the way names, the inode being the first of them.
    fn child(&mut self, ino: Nid, nid: Nid, (i, slot): (usize, usize)) -> Result<Nid, FsError> {
        let node = self.node(nid)?;
        let child = match i {
            0 => node.child(slot),
            _ if node.is_indirect() => Nid(node.word(slot)),
            _ => return Err(FsError::Corrupt("a file's tree holds a node of another level")),
        };
        match child == ino {
            true => Err(FsError::Corrupt("an inode is a node of its own tree")),
            false => Ok(child),
        }
    }

    pub(super) fn pointed(&mut self, pointer: Pointer) -> Result<BlockAddr, FsError> {
        let node = self.node(pointer.nid)?;
        if pointer.slot >= node.slots() || node.is_indirect() {
            return Err(FsError::Corrupt("a pointer beyond its node"));
        }
        Ok(BlockAddr(node.word(pointer.slot)))
    }

    /// Pointers of its node from this one on.
    pub(super) fn pointers_from(&mut self, pointer: Pointer) -> Result<u64, FsError> {
        let slots = self.node(pointer.nid)?.slots();
        Ok(slots.saturating_sub(pointer.slot).max(1) as u64)
    }

    /// Where a block lies.
    pub(super) fn block_at(&mut self, ino: Nid, index: u64) -> Result<BlockAddr, FsError> {
        match self.find_pointer(ino, index)? {
            Some(pointer) => self.pointed(pointer),
            None => Ok(BlockAddr::HOLE),
        }
    }

    /// Whose a block behind this pointer is, for its segment's summary.
    pub(super) fn origin(&mut self, pointer: Pointer) -> Result<Origin, FsError> {
        let version = self.nat_entry(pointer.nid)?.version;
        Ok(Origin { nid: pointer.nid, version, slot: pointer.slot as u16 })
    }

    /// Makes a pointer name another place: what it named before is free, counts follow.
    pub(super) fn aim(&mut self, ino: Nid, at: Pointer, addr: BlockAddr) -> Result<(), FsError> {
        let old = self.pointed(at)?;
        self.disk.begun();
        if old.is_place() && old != addr {
            self.segs.clear(old, self.elapsed())?;
        }
        let node = self.node_mut(at.nid)?;
        node.set_word(at.slot, addr.0);
        let (was, is) = (old != BlockAddr::HOLE, addr != BlockAddr::HOLE);
        let inode = self.node_mut(ino)?;
        inode.clear_extent();
        let blocks = inode.blocks();
        inode.set_blocks(blocks.saturating_add(u64::from(is)).saturating_sub(u64::from(was)));
        self.epoch.gain(u64::from(is && !was));
        self.counts.blocks_changed(u64::from(is), u64::from(was));
        Ok(())
    }

    /// Frees every block from `first` on, and nodes that name nothing any more.
    pub(super) fn cut_blocks(&mut self, ino: Nid, first: u64) -> Result<(), FsError> {
        let own = self.inode(ino)?.slots();
        self.drop_pointers(ino, ino, first.min(own as u64) as usize)?;
        let mut base = own as u64;
        for (which, (span, level)) in SPANS.into_iter().enumerate() {
            let child = self.inode(ino)?.child(which);
            let reached = child != Nid::NONE && base + span > first;
            if reached && self.cut_node(ino, child, level, base, first)? {
                self.node_mut(ino)?.set_child(which, Nid::NONE);
            }
            base += span;
        }
        Ok(())
    }

    /// Whether the node went, too.
    fn cut_node(
        &mut self,
        ino: Nid,
        nid: Nid,
        level: u32,
        base: u64,
        first: u64,
    ) -> Result<bool, FsError> {
        let node = self.node(nid)?;
        if nid == ino || node.ino() != ino || node.is_indirect() != (level > 0) {
            return Err(FsError::Corrupt("a file's tree holds a node that does not belong there"));
        }
        let span = (ADDRS_PER_BLOCK as u64).pow(level);
        // Everything below slots before this one stays.
        let from = (first.saturating_sub(base) / span) as usize;
        if level == 0 {
            self.drop_pointers(ino, nid, from)?;
        }
        for slot in from..if level == 0 { 0 } else { ADDRS_PER_BLOCK } {
            let from = base + slot as u64 * span;
            let child = Nid(self.node(nid)?.word(slot));
            if child != Nid::NONE && self.cut_node(ino, child, level - 1, from, first)? {
                self.node_mut(nid)?.set_word(slot, 0);
            }
        }
        if base >= first {
            self.free_node(nid)?;
        }
        Ok(base >= first)
    }

    /// Makes the pointers of a node from one on holes, all at once.
    fn drop_pointers(&mut self, ino: Nid, nid: Nid, from: usize) -> Result<(), FsError> {
        let (mut words, mut count) = ([0; ADDRS_PER_BLOCK], 0);
        let node = self.node(nid)?;
        for word in node.words(from).filter(|word| *word != 0) {
            words[count] = word;
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let mtime = self.elapsed();
        self.disk.begun();
        for addr in words[..count].iter().map(|word| BlockAddr(*word)) {
            if addr.is_place() {
                self.segs.clear(addr, mtime)?;
            }
        }
        self.node_mut(nid)?.clear_words(from);
        let inode = self.node_mut(ino)?;
        inode.clear_extent();
        inode.set_blocks(inode.blocks().saturating_sub(count as u64));
        self.counts.blocks_changed(0, count as u64);
        Ok(())
    }

    /// Frees blocks `from..to`, those that so many nodes name; nodes stay. Where it is to go on: at `to` or behind it,
    /// if nothing is left.
    pub(super) fn punch_blocks(
        &mut self,
        ino: Nid,
        (from, to): (u64, u64),
        most: usize,
    ) -> Result<u64, FsError> {
        let (mut index, mut nodes, mut last) = (from, 0, Nid::NONE);
        while index < to {
            match self.pointer_or_next(ino, index)? {
                Ok(at) => {
                    if self.pointed(at)? != BlockAddr::HOLE {
                        if at.nid != last && nodes == most {
                            break;
                        }
                        (nodes, last) = (nodes + usize::from(at.nid != last), at.nid);
                        self.aim(ino, at, BlockAddr::HOLE)?;
                    }
                    index += 1;
                }
                Err(next) => index = next,
            }
        }
        Ok(index)
    }

    /// The pointer of a block; or, if a node on the way is not there, the first block behind
    /// everything that would be below it.
    pub(super) fn pointer_or_next(
        &mut self,
        ino: Nid,
        index: u64,
    ) -> Result<Result<Pointer, u64>, FsError> {
        let inode = self.inode(ino)?;
        let own = inode.slots() as u64;
        let reach = Reach::of(index, own as usize).ok_or(FsError::TooLarge)?;
        let per = ADDRS_PER_BLOCK as u64;
        let base = own + [0, 0, 2 * per, 2 * per + 2 * per * per][reach.steps().len()];
        let mut nid = ino;
        for (i, (slot, _)) in reach.steps().iter().enumerate() {
            nid = self.child(ino, nid, (i, usize::from(*slot)))?;
            if nid == Nid::NONE {
                let span = per.pow((reach.steps().len() - i) as u32);
                return Ok(Err(base + ((index - base) / span + 1) * span));
            }
            if self.node(nid)?.ino() != ino {
                return Err(FsError::Corrupt("a file's tree holds another file's node"));
            }
        }
        Ok(Ok(Pointer { nid, slot: reach.slot }))
    }
}
