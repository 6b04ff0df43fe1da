//! Directory blocks in memory: changed there, written at checkpoints.
//!
//! Invariant: a dirty block's pointer is not a hole (a new one's is reserved, so that its space is
//! counted); it stays in memory until it is written.

use std::collections::{BTreeMap, BTreeSet};

use block::BlockDevice;

use super::Fs;
use super::cache::Slab;
use super::logs::LogKind;
use crate::disk::Cause;
use crate::format::{Block, zeroed};
use crate::{BlockAddr, FsError, Nid};

/// It was just read or made.
const GONE: FsError = FsError::Corrupt("a block that was just made");

#[derive(Default)]
pub(super) struct Pages {
    slab: Slab<(Nid, u64), Box<Block>>,
    index: BTreeMap<(Nid, u64), u32>,
    dirty: BTreeSet<(Nid, u64)>,
}

impl Pages {
    pub(super) fn dirty(&self) -> usize {
        self.dirty.len()
    }
    pub(super) fn all_dirty(&self) -> Vec<(Nid, u64)> {
        self.dirty.iter().copied().collect()
    }
    /// Directories with dirty blocks.
    pub(super) fn dirty_dirs(&self) -> impl Iterator<Item = Nid> {
        self.dirty.iter().map(|(dir, _)| *dir)
    }
    /// Forgets clean blocks if there are more than `most`.
    pub(super) fn trim(&mut self, most: usize) {
        if self.slab.is_over(most) {
            while let Some((at, key)) = self.slab.next_victim(most) {
                self.slab.remove(at);
                self.index.remove(&key);
            }
        }
    }
    /// Forgets a block: nothing names it any more.
    pub(super) fn drop(&mut self, dir: Nid, index: u64) {
        if let Some(at) = self.index.remove(&(dir, index)) {
            self.slab.remove(at);
        }
        self.dirty.remove(&(dir, index));
    }
    /// Forgets a whole directory.
    pub(super) fn drop_all(&mut self, dir: Nid) {
        let range = (dir, 0)..=(dir, u64::MAX);
        while let Some(((_, index), _)) = self.index.range(range.clone()).next() {
            let index = *index;
            self.drop(dir, index);
        }
    }
    fn add(&mut self, key: (Nid, u64), block: Box<Block>) -> u32 {
        let at = self.slab.add(key, block);
        self.index.insert(key, at);
        at
    }
    fn blank(&mut self) -> Box<Block> {
        match self.slab.spare() {
            Some(mut block) => {
                block.fill(0);
                block
            }
            None => zeroed(),
        }
    }
}

impl<D: BlockDevice> Fs<D> {
    /// A directory's block; none where it has a hole.
    pub(super) fn page(&mut self, dir: Nid, index: u64) -> Result<Option<&Block>, FsError> {
        let Some(at) = self.load_page(dir, index)? else { return Ok(None) };
        Ok(self.pages.slab.get(at).map(|block| &**block))
    }

    /// Its place in memory.
    fn load_page(&mut self, dir: Nid, index: u64) -> Result<Option<u32>, FsError> {
        if let Some(at) = self.pages.index.get(&(dir, index)) {
            return Ok(Some(*at));
        }
        let addr = self.block_at(dir, index)?;
        if addr == BlockAddr::HOLE {
            return Ok(None);
        }
        let mut block = self.pages.blank();
        if addr != BlockAddr::RESERVED {
            self.layout.place(addr).ok_or(FsError::Corrupt("a pointer leaves the main area"))?;
            self.disk.read(addr, &mut block)?;
        }
        Ok(Some(self.pages.add((dir, index), block)))
    }

    /// A directory's block to be changed; it is made if it is not there.
    pub(super) fn page_mut(&mut self, dir: Nid, index: u64) -> Result<&mut Block, FsError> {
        let at = match self.load_page(dir, index)? {
            Some(at) => at,
            None => {
                let at = self.make_pointer(dir, index, None)?;
                self.aim(dir, at, BlockAddr::RESERVED)?;
                let block = self.pages.blank();
                self.pages.add((dir, index), block)
            }
        };
        self.disk.begun();
        if !self.pages.slab.set_dirty(at, true) {
            self.pages.dirty.insert((dir, index));
        }
        self.pages.slab.get(at).map(|block| &mut **block).ok_or(GONE)
    }

    /// Writes every dirty block.
    pub(super) fn write_pages(&mut self) -> Result<(), FsError> {
        for (dir, index) in self.pages.all_dirty() {
            let at = self.make_pointer(dir, index, None)?;
            let origin = self.origin(at)?;
            let addr = self.alloc(LogKind::HotData, origin)?;
            let place = *self.pages.index.get(&(dir, index)).ok_or(GONE)?;
            let block = self.pages.slab.peek(place).ok_or(GONE)?;
            self.disk.write(addr, block, Cause::Dentry)?;
            self.pages.slab.set_dirty(place, false);
            self.pages.dirty.remove(&(dir, index));
            self.aim(dir, at, addr)?;
        }
        Ok(())
    }
}
