//! The node address table in memory: blocks are loaded when first asked for.
//!
//! Invariants: a block is dirty from its first change to the checkpoint that writes it into the
//! copy that is not live, and stays in memory that long; a number freed in this epoch is not used
//! again before the checkpoint; what a frozen checkpoint has written stays until that is durable.

use std::collections::BTreeSet;

use block::BlockDevice;

use crate::disk::{Cause, Disk};
use crate::format::{Block, NAT_PER_BLOCK, NatEntry, msb_set, msb_test, zeroed};
use crate::layout::Layout;
use crate::{BlockAddr, FsError, Nid};

/// Blocks kept in memory: 64 MiB of them, 7 million nodes.
const MOST: usize = 16_384;

#[derive(Default)]
struct Slot {
    block: Option<Box<Block>>,
    dirty: bool,
    /// A frozen checkpoint has written it, into the copy that is not live yet.
    frozen: bool,
    /// Free numbers in it, once they were counted.
    free: Option<u16>,
}

pub(super) struct Nat {
    slots: Vec<Slot>,
    loaded: usize,
    /// Where the search for blocks to forget goes on.
    hand: usize,
    dirty: BTreeSet<u32>,
    /// Which copy of each block is live.
    bitmap: Vec<u8>,
    /// Where the search for a free number goes on.
    hint: u32,
    freed: BTreeSet<Nid>,
    /// Those that were freed before a checkpoint that is frozen.
    freed_before: BTreeSet<Nid>,
    /// Blocks that it has written.
    frozen: Vec<u32>,
    nids: u32,
}

/// It was just read.
const GONE: FsError = FsError::Corrupt("a node table block that was just read");

fn split(nid: Nid) -> (u32, usize) {
    (nid.0 / NAT_PER_BLOCK as u32, nid.index() % NAT_PER_BLOCK)
}

impl Nat {
    pub(super) fn new(layout: &Layout, bitmap: Vec<u8>, hint: u32) -> Nat {
        let slots = (0..layout.nat_blocks()).map(|_| Slot::default()).collect();
        let nids = layout.nids();
        let (dirty, freed) = (BTreeSet::new(), BTreeSet::new());
        let (freed_before, frozen) = (BTreeSet::new(), Vec::new());
        Nat { slots, loaded: 0, hand: 0, dirty, bitmap, hint, freed, freed_before, frozen, nids }
    }

    /// Where the next mount's search begins.
    pub(super) fn hint(&self) -> Nid {
        Nid(self.hint)
    }

    fn load<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        i: u32,
    ) -> Result<&mut Slot, FsError> {
        let slot = self
            .slots
            .get_mut(i as usize)
            .ok_or(FsError::Corrupt("a node number beyond the table"))?;
        if slot.block.is_none() {
            let mut block = zeroed();
            disk.read(layout.nat_block(i, msb_test(&self.bitmap, i as usize)), &mut block)?;
            slot.block = Some(block);
            self.loaded += 1;
        }
        Ok(slot)
    }

    /// Forgets clean blocks if there are too many.
    pub(super) fn trim(&mut self) {
        if self.loaded <= MOST {
            return;
        }
        for _ in 0..self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            if !slot.dirty && !slot.frozen && slot.block.take().is_some() {
                self.loaded -= 1;
                if self.loaded <= MOST - MOST / 8 {
                    return;
                }
            }
        }
    }

    pub(super) fn get<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        nid: Nid,
    ) -> Result<NatEntry, FsError> {
        let (i, at) = split(nid);
        let block = self.load(disk, layout, i)?.block.as_deref().ok_or(GONE)?;
        Ok(NatEntry::get(&block[..], at))
    }

    pub(super) fn set<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        nid: Nid,
        entry: NatEntry,
    ) -> Result<(), FsError> {
        let (i, at) = split(nid);
        let slot = self.load(disk, layout, i)?;
        let block = slot.block.as_deref_mut().ok_or(GONE)?;
        let was = NatEntry::get(&block[..], at).addr == BlockAddr::HOLE;
        entry.put(&mut block[..], at);
        let is = entry.addr == BlockAddr::HOLE;
        slot.free = slot.free.map(|n| (n + u16::from(is)).saturating_sub(u16::from(was)));
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.insert(i);
        }
        Ok(())
    }

    /// A free number; none if there is none.
    pub(super) fn find_free<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
    ) -> Result<Option<Nid>, FsError> {
        let (first, at) = split(Nid(self.hint % self.nids));
        let blocks = self.slots.len() as u32;
        // The block that the search begins in is looked at from there, and once more as a whole.
        for step in 0..=blocks {
            let i = (first + step) % blocks;
            if self.slots[i as usize].free == Some(0) {
                continue;
            }
            let from = if step == 0 { at } else { 0 };
            if let Some(nid) = self.free_in(disk, layout, i, from)? {
                self.hint = nid.0 + 1;
                return Ok(Some(nid));
            }
        }
        Ok(None)
    }

    /// Goes on if the block of the next free number is in memory.
    pub(super) fn prepare_free<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
    ) -> Result<(), FsError> {
        let hint = self.hint;
        let found = self.find_free(disk, layout).map(|_| ());
        self.hint = hint;
        found
    }

    fn free_in<D: BlockDevice>(
        &mut self,
        disk: &mut Disk<D>,
        layout: &Layout,
        i: u32,
        from: usize,
    ) -> Result<Option<Nid>, FsError> {
        self.load(disk, layout, i)?;
        let slot = &mut self.slots[i as usize];
        let block = slot.block.as_deref().ok_or(GONE)?;
        let is_free = |at: usize| NatEntry::get(&block[..], at).addr == BlockAddr::HOLE;
        if slot.free.is_none() {
            slot.free = Some((0..NAT_PER_BLOCK).filter(|at| is_free(*at)).count() as u16);
        }
        let nid = |at: usize| Nid(i * NAT_PER_BLOCK as u32 + at as u32);
        let rests = |nid: &Nid| self.freed.contains(nid) || self.freed_before.contains(nid);
        let may = |nid: &Nid| nid.0 > Nid::ROOT.0 && nid.0 < self.nids && !rests(nid);
        Ok((from..NAT_PER_BLOCK).filter(|at| is_free(*at)).map(nid).find(may))
    }

    /// Keeps a number from being given out before the checkpoint.
    pub(super) fn reserve(&mut self, nid: Nid) {
        self.freed.insert(nid);
    }

    /// A planted bug: the number is the next to be given out.
    pub(super) fn forget_freed(&mut self, nid: Nid) {
        self.freed.remove(&nid);
        self.freed_before.remove(&nid);
        self.hint = self.hint.min(nid.0);
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
        u64::from(self.nids)
            .saturating_sub(4 + used + (self.freed.len() + self.freed_before.len()) as u64)
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
            if let Some(block) = &self.slots[*i as usize].block {
                disk.write(layout.nat_block(*i, copy), block, Cause::Nat)?;
                msb_set(&mut bitmap, *i as usize, copy);
            }
        }
        Ok(bitmap)
    }

    /// A checkpoint is frozen: what changes from now on is the next one's.
    pub(super) fn freeze(&mut self) {
        self.frozen = std::mem::take(&mut self.dirty).into_iter().collect();
        for i in &self.frozen {
            let slot = &mut self.slots[*i as usize];
            (slot.dirty, slot.frozen) = (false, true);
        }
        self.freed_before = std::mem::take(&mut self.freed);
    }

    /// It is durable.
    pub(super) fn settle(&mut self, bitmap: Vec<u8>) {
        self.bitmap = bitmap;
        for i in std::mem::take(&mut self.frozen) {
            self.slots[i as usize].frozen = false;
        }
        self.freed_before.clear();
    }
}
