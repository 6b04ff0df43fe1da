//! The durable state as it lies on media, without recovery: for people who look.
//!
//! Invariant: nothing is written.

use std::collections::BTreeSet;

use block::{BlockDevice, Time};

use super::journal::read_state;
use super::mount::{Pack, check_payload, read, read_pack, superblock};
use crate::disk::Disk;
use crate::format::{
    Checkpoint, NAT_PER_BLOCK, NatEntry, NodeBlock, SIT_PER_BLOCK, SitEntry, Superblock, msb_test,
};
use crate::layout::Layout;
use crate::scj::{FIRST_SLOT, Identity, Move, RECORD_BLOCKS, State, decode};
use crate::{BlockAddr, FsError, Nid, SegNo};

/// The journal of cleaning as it lies on media.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DurableJournal {
    /// Its state block.
    pub state: State,
    /// The records of the checkpoint, in order.
    pub records: Vec<Vec<Move>>,
}

/// A volume that is only looked at.
pub struct Durable<D> {
    disk: Disk<D>,
    superblock: Superblock,
    layout: Layout,
    live: bool,
    pack: Pack,
}

impl<D: BlockDevice> Durable<D> {
    /// Opens a volume.
    ///
    /// # Errors
    /// As [`super::Fs::mount`].
    pub fn open(device: D) -> Result<Durable<D>, FsError> {
        let mut disk = Disk::new(device, Time::ZERO);
        let (superblock, layout, live) = superblock(&mut disk)?;
        check_payload(&superblock)?;
        let pack = read_pack(&mut disk, &layout)?;
        Ok(Durable { disk, superblock, layout, live, pack })
    }

    /// The superblock, with the magic number of a plain volume.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }
    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// It is mounted with a journal, or was not unmounted.
    pub fn is_live(&self) -> bool {
        self.live
    }
    /// The newest whole checkpoint.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.pack.cp
    }
    /// Where its pack begins.
    pub fn pack_at(&self) -> BlockAddr {
        self.layout.pack(self.pack.which)
    }
    /// The first block of that is damaged; the last one, which says the same, serves. Kernels take the pack before, with
    /// an older state.
    pub fn has_lost_its_head(&self) -> bool {
        self.pack.headless
    }
    /// Where a newer pack begins that has no end: a cut left it so, or its last block is damaged, which nobody can tell apart.
    pub fn begun(&mut self) -> Option<BlockAddr> {
        let at = self.layout.pack(1 - self.pack.which);
        let first = read(&mut self.disk, at).ok()?;
        let newer = Checkpoint::decode(&first)?.version > self.pack.cp.version;
        newer.then_some(at)
    }
    /// Inodes that nothing names.
    pub fn orphans(&self) -> &BTreeSet<Nid> {
        &self.pack.orphans
    }

    /// A node's entry, and the block of the table it is in (none: the pack's journal).
    ///
    /// # Errors
    /// [`FsError::NotFound`] for a number beyond the table; what the device says.
    pub fn nat(&mut self, nid: Nid) -> Result<(NatEntry, Option<BlockAddr>), FsError> {
        if let Some((_, entry)) = self.pack.nat.iter().find(|(known, _)| *known == nid) {
            return Ok((*entry, None));
        }
        let i = nid.0 / NAT_PER_BLOCK as u32;
        if i >= self.layout.nat_blocks() {
            return Err(FsError::NotFound);
        }
        let at = self.layout.nat_block(i, msb_test(&self.pack.cp.nat_bitmap, i as usize));
        let block = read(&mut self.disk, at)?;
        Ok((NatEntry::get(&block[..], nid.index() % NAT_PER_BLOCK), Some(at)))
    }

    /// A segment's entry, and the block of the table it is in (none: the pack's journal).
    ///
    /// # Errors
    /// [`FsError::NotFound`] for a segment that is not there; what the device says.
    pub fn sit(&mut self, seg: SegNo) -> Result<(SitEntry, Option<BlockAddr>), FsError> {
        if let Some((_, entry)) = self.pack.sit.iter().find(|(known, _)| *known == seg) {
            return Ok((*entry, None));
        }
        if seg.0 >= self.layout.main_segs {
            return Err(FsError::NotFound);
        }
        let i = seg.0 / SIT_PER_BLOCK as u32;
        let at = self.layout.sit_block(i, msb_test(&self.pack.cp.sit_bitmap, i as usize));
        let block = read(&mut self.disk, at)?;
        Ok((SitEntry::get(&block[..], seg.index() % SIT_PER_BLOCK), Some(at)))
    }

    /// A node as of the checkpoint, and where it is.
    ///
    /// # Errors
    /// [`FsError::NotFound`] for a number that is free; what the device says.
    pub fn node(&mut self, nid: Nid) -> Result<(NodeBlock, BlockAddr), FsError> {
        let addr = self.nat(nid)?.0.addr;
        if !addr.is_place() || nid.0 < Nid::ROOT.0 {
            return Err(FsError::NotFound);
        }
        self.layout.place(addr).ok_or(FsError::Corrupt("a node outside the main area"))?;
        let block = read(&mut self.disk, addr)?;
        Ok((NodeBlock(block), addr))
    }

    /// The journal of cleaning; none if the volume is not live.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] for a state block that is none; what the device says.
    pub fn journal(&mut self) -> Result<Option<DurableJournal>, FsError> {
        if !self.live {
            return Ok(None);
        }
        let state = read_state(&mut self.disk, &self.superblock.uuid)?;
        let mut records = Vec::new();
        for slot in 0..state.slots {
            let at = FIRST_SLOT + slot * RECORD_BLOCKS;
            if at + RECORD_BLOCKS > self.layout.gap() {
                return Err(FsError::Corrupt("the journal's slots leave the gap"));
            }
            let journal = read(&mut self.disk, BlockAddr(at))?;
            let summary = read(&mut self.disk, BlockAddr(at + 1))?;
            let version = self.pack.cp.version;
            let identity = Identity { uuid: self.superblock.uuid, version, slot };
            match decode(&identity, &journal, &summary) {
                Some((_, moves)) => records.push(moves),
                None => break,
            }
        }
        Ok(Some(DurableJournal { state, records }))
    }
}

#[cfg(test)]
mod tests {
    use block::{RamDevice, Sectors};

    use super::*;
    use crate::{MkfsOptions, mkfs};

    /// Kernels leave entries in the journal of the pack; volumes made here have none.
    #[test]
    fn an_entry_in_the_packs_journal_wins_over_the_tables() {
        let device = RamDevice::new(Sectors(64 << 11));
        let now = crate::Now { at: Time::ZERO, wall: crate::Stamp { seconds: 1, nanos: 2 } };
        let device = mkfs(device, &MkfsOptions::new([5; 16], 9), now).unwrap().0;
        let mut durable = Durable::open(device).unwrap();
        let (root, table) = durable.nat(Nid::ROOT).unwrap();
        assert!(table.is_some());
        let moved = NatEntry { addr: BlockAddr(root.addr.0 + 9), ..root };
        durable.pack.nat = vec![(Nid(99), root), (Nid::ROOT, moved)];
        assert_eq!(durable.nat(Nid::ROOT).unwrap(), (moved, None));
        // Who dumps a checkpoint reads its pack where it says.
        let at = durable.pack_at();
        let pack = read(&mut durable.disk, at).unwrap();
        assert_eq!(Checkpoint::decode(&pack).unwrap(), durable.pack.cp);
    }
}
