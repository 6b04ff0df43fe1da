//! Directory blocks in memory: changed there, written at checkpoints.
//!
//! Invariant: a dirty block's pointer is not a hole (a new one's is reserved, so that its space is
//! counted); it stays in memory until it is written.

use std::collections::{BTreeMap, BTreeSet};

use block::BlockDevice;

use super::Fs;
use super::logs::LogKind;
use crate::disk::Cause;
use crate::format::{Block, zeroed};
use crate::{BlockAddr, FsError, Nid};

#[derive(Default)]
pub(super) struct Pages {
    cached: BTreeMap<(Nid, u64), Box<Block>>,
    dirty: BTreeSet<(Nid, u64)>,
}

impl Pages {
    pub(super) fn dirty(&self) -> usize {
        self.dirty.len()
    }
    /// Forgets clean blocks if there are more than `most`.
    pub(super) fn trim(&mut self, most: usize) {
        if self.cached.len() > most {
            let dirty = &self.dirty;
            self.cached.retain(|key, _| dirty.contains(key));
        }
    }
    /// Forgets a block: nothing names it any more.
    pub(super) fn drop(&mut self, dir: Nid, index: u64) {
        self.cached.remove(&(dir, index));
        self.dirty.remove(&(dir, index));
    }
    /// Forgets a whole directory.
    pub(super) fn drop_all(&mut self, dir: Nid) {
        let range = (dir, 0)..=(dir, u64::MAX);
        let gone: Vec<_> = self.cached.range(range).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|(dir, index)| self.drop(dir, index));
    }
}

impl<D: BlockDevice> Fs<D> {
    /// A directory's block; none where it has a hole.
    pub(super) fn page(&mut self, dir: Nid, index: u64) -> Result<Option<&Block>, FsError> {
        if !self.pages.cached.contains_key(&(dir, index)) {
            let addr = self.block_at(dir, index)?;
            if addr == BlockAddr::HOLE {
                return Ok(None);
            }
            let mut block = zeroed();
            if addr != BlockAddr::RESERVED {
                self.layout
                    .place(addr)
                    .ok_or(FsError::Corrupt("a pointer leaves the main area"))?;
                self.disk.read(addr, &mut block)?;
            }
            self.pages.cached.insert((dir, index), block);
        }
        Ok(self.pages.cached.get(&(dir, index)).map(|block| &**block))
    }

    /// A directory's block to be changed; it is made if it is not there.
    pub(super) fn page_mut(&mut self, dir: Nid, index: u64) -> Result<&mut Block, FsError> {
        if self.page(dir, index)?.is_none() {
            let at = self.make_pointer(dir, index, None)?;
            self.aim(dir, at, BlockAddr::RESERVED)?;
            self.pages.cached.insert((dir, index), zeroed());
        }
        self.pages.dirty.insert((dir, index));
        let page = self.pages.cached.get_mut(&(dir, index));
        page.map(|block| &mut **block).ok_or(FsError::Corrupt("a block that was just made"))
    }

    /// Writes every dirty block.
    pub(super) fn write_pages(&mut self) -> Result<(), FsError> {
        for (dir, index) in std::mem::take(&mut self.pages.dirty) {
            let at = self.make_pointer(dir, index, None)?;
            let origin = self.origin(at)?;
            let addr = self.alloc(LogKind::HotData, origin)?;
            if let Some(block) = self.pages.cached.get(&(dir, index)) {
                self.disk.write(addr, block, Cause::Dentry)?;
            }
            self.aim(dir, at, addr)?;
        }
        Ok(())
    }
}
