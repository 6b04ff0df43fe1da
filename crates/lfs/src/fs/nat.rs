//! The node address table in memory: blocks are loaded when first asked for.
//!
//! Invariants: a block is dirty from its first change to the checkpoint that writes it into the
//! copy that is not live; a number freed in this epoch is not used again before the checkpoint.

use std::collections::BTreeSet;

use block::BlockDevice;

use crate::disk::{Cause, Disk};
use crate::format::{Block, NAT_PER_BLOCK, NatEntry, msb_set, msb_test, zeroed};
use crate::layout::Layout;
use crate::{BlockAddr, FsError, Nid};

pub(super) struct Nat {
    blocks: Vec<Option<Box<Block>>>,
    dirty: BTreeSet<u32>,
    /// Which copy of each block is live.
    bitmap: Vec<u8>,
    /// Where the search for a free number goes on.
    pub(super) hint: u32,
    freed: BTreeSet<Nid>,
    nids: u32,
}

fn split(nid: Nid) -> (u32, usize) {
    (nid.0 / NAT_PER_BLOCK as u32, nid.index() % NAT_PER_BLOCK)
}

impl Nat {
    pub(super) fn new(layout: &Layout, bitmap: Vec<u8>, hint: u32) -> Nat {
        let blocks = (0..layout.nat_blocks()).map(|_| None).collect();
        let nids = layout.nids();
        Nat { blocks, dirty: BTreeSet::new(), bitmap, hint, freed: BTreeSet::new(), nids }
    }

    fn load<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        i: u32,
    ) -> Result<&mut Block, FsError> {
        let slot = self
            .blocks
            .get_mut(i as usize)
            .ok_or(FsError::Corrupt("a node number beyond the table"))?;
        if slot.is_none() {
            let mut block = zeroed();
            disk.read(layout.nat_block(i, msb_test(&self.bitmap, i as usize)), &mut block)?;
            *slot = Some(block);
        }
        slot.as_deref_mut().ok_or(FsError::Corrupt("a node table block that was just read"))
    }

    pub(super) fn get<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        nid: Nid,
    ) -> Result<NatEntry, FsError> {
        let (i, at) = split(nid);
        Ok(NatEntry::get(&self.load(disk, layout, i)?[..], at))
    }

    pub(super) fn set<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        nid: Nid,
        entry: NatEntry,
    ) -> Result<(), FsError> {
        let (i, at) = split(nid);
        entry.put(&mut self.load(disk, layout, i)?[..], at);
        self.dirty.insert(i);
        Ok(())
    }

    /// A free number; none if there is none.
    pub(super) fn find_free<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
    ) -> Result<Option<Nid>, FsError> {
        for step in 0..self.nids {
            let nid = Nid((self.hint.wrapping_add(step)) % self.nids);
            if nid.0 <= Nid::ROOT.0 || self.freed.contains(&nid) {
                continue;
            }
            if self.get(disk, layout, nid)?.addr == BlockAddr::HOLE {
                self.hint = nid.0 + 1;
                return Ok(Some(nid));
            }
        }
        Ok(None)
    }

    /// Keeps a number from being given out before the checkpoint.
    pub(super) fn reserve(&mut self, nid: Nid) {
        self.freed.insert(nid);
    }

    /// Frees a number; it rests until the checkpoint.
    pub(super) fn free<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        nid: Nid,
    ) -> Result<(), FsError> {
        let old = self.get(disk, layout, nid)?;
        // The next user of the number is told apart from this one by its version.
        let version = old.version.wrapping_add(1);
        let entry = NatEntry { version, ino: Nid::NONE, addr: BlockAddr::HOLE };
        self.set(disk, layout, nid, entry)?;
        self.freed.insert(nid);
        Ok(())
    }

    /// Numbers that could be given out now, if so many are in use.
    pub(super) fn available(&self, used: u64) -> u64 {
        u64::from(self.nids).saturating_sub(4 + used + self.freed.len() as u64)
    }

    pub(super) fn dirty_blocks(&self) -> usize {
        self.dirty.len()
    }

    /// Writes what is dirty into the other copies; returns the bitmap of the checkpoint to come.
    pub(super) fn write<D: BlockDevice>(
        &self,
        disk: &mut Disk<D>,
        layout: &Layout,
    ) -> Result<Vec<u8>, FsError> {
        let mut bitmap = self.bitmap.clone();
        for i in &self.dirty {
            let copy = !msb_test(&bitmap, *i as usize);
            if let Some(block) = &self.blocks[*i as usize] {
                disk.write(layout.nat_block(*i, copy), block, Cause::Nat)?;
                msb_set(&mut bitmap, *i as usize, copy);
            }
        }
        Ok(bitmap)
    }

    /// The checkpoint is durable.
    pub(super) fn settle(&mut self, bitmap: Vec<u8>) {
        self.bitmap = bitmap;
        self.dirty.clear();
        self.freed.clear();
    }
}
