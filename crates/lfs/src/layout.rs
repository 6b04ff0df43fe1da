//! Where everything of a volume is.
//!
//! Invariant: a layout that exists has been checked against the superblock's rules and the size of
//! the device; its arithmetic cannot leave the volume.

use crate::format::{Checkpoint, NAT_PER_BLOCK, SIT_PER_BLOCK, Superblock};
use crate::{BlockAddr, FsError, Nid, SegNo};

/// The places of a volume, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Blocks of the volume.
    pub blocks: u64,
    /// Blocks of a segment: 512, or a smaller power of two where a test wants small ones.
    pub per_seg: u32,
    /// Segments of the main area.
    pub main_segs: u32,
    segment0: u32,
    cp: u32,
    cp_segs: u32,
    sit: u32,
    sit_segs: u32,
    nat: u32,
    nat_segs: u32,
    ssa: u32,
    main: u32,
}

impl Layout {
    /// Checks a superblock against a device of so many blocks.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if it contradicts itself or the device, [`FsError::Unsupported`] if it
    /// asks for what is not built.
    pub fn of(sb: &Superblock, device: u64) -> Result<Layout, FsError> {
        let [sector, per_block, block, per_seg] = sb.logs;
        if block != 12 || sector + per_block != 12 || !(2..=9).contains(&per_seg) {
            return Err(FsError::Unsupported("block or segment sizes"));
        }
        if sb.sections != [1, 1] {
            return Err(FsError::Unsupported("sections of several segments"));
        }
        if sb.inos != [Nid(3), Nid(1), Nid(2)] {
            return Err(FsError::Unsupported("other numbers of the fixed inodes"));
        }
        if sb.block_count > device || sb.block_count > u64::from(u32::MAX) {
            return Err(FsError::Corrupt("the volume is larger than its device"));
        }
        let per_seg = 1_u32 << per_seg;
        let [cp_segs, sit_segs, nat_segs, ssa_segs, main_segs] = sb.segments;
        let [segment0, cp, sit, nat, ssa, main] = sb.places.map(|a| a.0);
        let mut at = u64::from(segment0);
        let mut adjoin = cp == segment0;
        let areas = [(cp_segs, sit), (sit_segs, nat), (nat_segs, ssa), (ssa_segs, main)];
        for (segs, next) in areas {
            at += u64::from(segs) * u64::from(per_seg);
            adjoin &= at == u64::from(next);
        }
        at += u64::from(main_segs) * u64::from(per_seg);
        if !adjoin || at > sb.block_count || segment0 < 2 {
            return Err(FsError::Corrupt("the areas do not adjoin"));
        }
        let even = [cp_segs, sit_segs, nat_segs].iter().all(|n| *n > 0 && n.is_multiple_of(2));
        let sit_fits = u64::from(sit_segs / 2 * per_seg) * SIT_PER_BLOCK as u64;
        let ssa_fits = u64::from(ssa_segs) * u64::from(per_seg);
        if !even || u64::from(main_segs) > sit_fits.min(ssa_fits) || main_segs < 8 {
            return Err(FsError::Corrupt("an area has not the size that the others need"));
        }
        let blocks = sb.block_count;
        let layout = Layout {
            blocks,
            per_seg,
            main_segs,
            segment0,
            cp,
            cp_segs,
            sit,
            sit_segs,
            nat,
            nat_segs,
            ssa,
            main,
        };
        if layout.sit_bitmap_bytes() + layout.nat_bitmap_bytes() > Checkpoint::BITMAP_ROOM {
            return Err(FsError::Unsupported("version bitmaps beyond the checkpoint block"));
        }
        Ok(layout)
    }

    /// Blocks between the superblocks and segment 0.
    pub fn gap(&self) -> u32 {
        self.segment0
    }
    /// First block of pack 0 or 1.
    pub fn pack(&self, which: usize) -> BlockAddr {
        BlockAddr(self.cp + which as u32 * self.pack_room())
    }
    /// Blocks that a pack may have.
    pub fn pack_room(&self) -> u32 {
        self.cp_segs / 2 * self.per_seg
    }
    /// SIT blocks that are used.
    pub fn sit_blocks(&self) -> u32 {
        self.main_segs.div_ceil(SIT_PER_BLOCK as u32)
    }
    /// Where a SIT block's copy 0 or 1 is.
    pub fn sit_block(&self, i: u32, copy: bool) -> BlockAddr {
        BlockAddr(self.sit + i + u32::from(copy) * (self.sit_segs / 2 * self.per_seg))
    }
    /// NAT blocks.
    pub fn nat_blocks(&self) -> u32 {
        self.nat_segs / 2 * self.per_seg
    }
    /// Where a NAT block's copy 0 or 1 is.
    pub fn nat_block(&self, i: u32, copy: bool) -> BlockAddr {
        let pair = i / self.per_seg * 2 * self.per_seg;
        BlockAddr(self.nat + pair + i % self.per_seg + u32::from(copy) * self.per_seg)
    }
    /// Node numbers that there are.
    pub fn nids(&self) -> u32 {
        self.nat_blocks().saturating_mul(NAT_PER_BLOCK as u32)
    }
    /// Where a segment's summary is.
    pub fn summary(&self, seg: SegNo) -> BlockAddr {
        BlockAddr(self.ssa + seg.0)
    }
    /// Bytes of the SIT version bitmap.
    pub fn sit_bitmap_bytes(&self) -> usize {
        ((self.sit_segs / 2 * self.per_seg) as usize).div_ceil(8)
    }
    /// Bytes of the NAT version bitmap.
    pub fn nat_bitmap_bytes(&self) -> usize {
        ((self.nat_segs / 2 * self.per_seg) as usize).div_ceil(8)
    }
    /// A block of a segment of the main area.
    pub fn block(&self, seg: SegNo, offset: u32) -> BlockAddr {
        BlockAddr(self.main + seg.0 * self.per_seg + offset)
    }
    /// The segment of a block of the main area, and its place in it.
    pub fn place(&self, addr: BlockAddr) -> Option<(SegNo, u32)> {
        let at = addr.0.checked_sub(self.main)?;
        let seg = SegNo(at / self.per_seg);
        (seg.0 < self.main_segs).then_some((seg, at % self.per_seg))
    }
    /// Blocks of the main area.
    pub fn main_blocks(&self) -> u64 {
        u64::from(self.main_segs) * u64::from(self.per_seg)
    }
    /// The block behind the last NAT and SIT block and before the summaries: everything that a
    /// fresh volume needs zeroed, from the packs on.
    pub(crate) fn tables(&self) -> std::ops::Range<u32> {
        self.cp..self.ssa
    }
}
