//! How often blocks were erased: the blocks that are not bad, by erase count.
//!
//! Invariant: entry `n` is the number of good blocks erased `n` times, and no entry is 0. The array
//! keeps it as blocks are erased and marked bad, because statistics ask for it at every window and
//! a drive has many blocks; [`Nand::check_wear`] counts again.

use std::collections::BTreeMap;

use block::BlockId;

use crate::array::Nand;
use crate::image::BlockMeta;

/// Good blocks by erase count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WearTable {
    blocks: BTreeMap<u32, u64>,
}

impl WearTable {
    pub(crate) fn of(blocks: &[BlockMeta]) -> WearTable {
        let mut table = WearTable::default();
        for meta in blocks.iter().filter(|meta| !meta.bad) {
            table.add(meta.erases);
        }
        table
    }
    pub(crate) fn add(&mut self, erases: u32) {
        *self.blocks.entry(erases).or_default() += 1;
    }
    pub(crate) fn remove(&mut self, erases: u32) {
        if let Some(blocks) = self.blocks.get_mut(&erases) {
            *blocks -= 1;
            if *blocks == 0 {
                self.blocks.remove(&erases);
            }
        }
    }
    /// Erase counts that good blocks have, ascending, each with the number of those blocks.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.blocks.iter().map(|(erases, blocks)| (*erases, *blocks))
    }
    /// Least and most erases of a good block, if there is one.
    pub fn range(&self) -> Option<(u32, u32)> {
        let (least, _) = self.blocks.first_key_value()?;
        let (most, _) = self.blocks.last_key_value()?;
        Some((*least, *most))
    }
}

impl Nand {
    /// Good blocks by erase count.
    pub fn wear(&self) -> &WearTable {
        &self.wear
    }

    /// Checks the table against the blocks.
    ///
    /// # Errors
    /// What the blocks say, and what is counted.
    pub fn check_wear(&self) -> Result<(), String> {
        let found = WearTable::of(&self.image.meta);
        if found == self.wear {
            return Ok(());
        }
        Err(format!("blocks by erases are {:?}, {:?} are counted", found.blocks, self.wear.blocks))
    }

    /// Marks a block bad in memory.
    pub(crate) fn set_bad(&mut self, block: BlockId) {
        let meta = &mut self.image.meta[block.index()];
        if !meta.bad {
            meta.bad = true;
            self.wear.remove(meta.erases);
        }
    }
}
