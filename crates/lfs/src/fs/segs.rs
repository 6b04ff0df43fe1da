//! Which blocks of the main area are valid, which recovery needs, and which segments are free.
//!
//! Invariants:
//! * `cur` is what is valid now; `rec` (R) what recovery from the durable state may read: valid at
//!   the checkpoint, and what fsync made durable since;
//! * a block in either map is not written; a segment is free if neither map has a bit in it, it is
//!   no head, and nothing holds it until the next checkpoint;
//! * counts equal the maps' bits.

use std::collections::BTreeSet;

use crate::format::{SitEntry, VALID_BYTES, msb_set, msb_test};
use crate::layout::Layout;
use crate::{BlockAddr, FsError, SegNo};

#[derive(Clone, Debug)]
pub(super) struct Seg {
    cur: [u8; VALID_BYTES],
    rec: [u8; VALID_BYTES],
    pub(super) valid: u16,
    /// Blocks in either map.
    pub(super) needed: u16,
    pub(super) kind: u8,
    pub(super) mtime: u64,
    pub(super) head: bool,
    /// Not free before the next checkpoint, whatever the maps say.
    pub(super) held: bool,
    /// Nothing in it is valid, and only a checkpoint frees it.
    waits: bool,
}

pub(super) struct Segs {
    segs: Vec<Seg>,
    free: BTreeSet<u32>,
    /// Segments whose entry is not on media.
    dirty: BTreeSet<u32>,
    /// Blocks in R that are not valid any more.
    pub(super) pre_invalid: u64,
    /// Segments that wait for a checkpoint.
    prefree: usize,
    /// Where the search for a free segment goes on.
    next: u32,
    layout: Layout,
}

const OUTSIDE: FsError = FsError::Corrupt("an address outside the main area");

impl Segs {
    /// The table as entries say; all of R is valid.
    pub(super) fn new(layout: Layout, entries: &[SitEntry]) -> Result<Segs, FsError> {
        let mut segs = Vec::with_capacity(entries.len());
        for entry in entries {
            let bits: u32 = entry.map.iter().map(|byte| byte.count_ones()).sum();
            let beyond = (layout.per_seg as usize..512).any(|i| msb_test(&entry.map, i));
            if bits != u32::from(entry.valid) || beyond || entry.kind > 5 {
                return Err(FsError::Corrupt("a segment's count is not that of its map"));
            }
            segs.push(Seg {
                cur: entry.map,
                rec: entry.map,
                valid: entry.valid,
                needed: entry.valid,
                kind: entry.kind,
                mtime: entry.mtime,
                head: false,
                held: false,
                waits: false,
            });
        }
        let empty = |(i, seg): (usize, &Seg)| (seg.needed == 0).then_some(i as u32);
        let free = segs.iter().enumerate().filter_map(empty).collect();
        Ok(Segs { segs, free, dirty: BTreeSet::new(), pre_invalid: 0, prefree: 0, next: 0, layout })
    }

    pub(super) fn of(&self, seg: SegNo) -> &Seg {
        &self.segs[seg.index()]
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (SegNo, &Seg)> {
        self.segs.iter().enumerate().map(|(i, seg)| (SegNo(i as u32), seg))
    }
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }
    /// Segments without a valid block that only a checkpoint frees.
    pub(super) fn prefree(&self) -> usize {
        self.prefree
    }
    pub(super) fn valid_total(&self) -> u64 {
        self.segs.iter().map(|seg| u64::from(seg.valid)).sum()
    }
    /// Segments that will be free once the checkpoint to come is durable.
    pub(super) fn free_after(&self) -> u32 {
        self.segs.iter().filter(|seg| seg.valid == 0 && !seg.head).count() as u32
    }

    fn refresh(&mut self, i: u32) {
        let seg = &mut self.segs[i as usize];
        let waits = seg.valid == 0 && !seg.head && (seg.needed > 0 || seg.held);
        self.prefree = self.prefree + usize::from(waits) - usize::from(seg.waits);
        seg.waits = waits;
        if seg.needed == 0 && !seg.head && !seg.held {
            self.free.insert(i);
        } else {
            self.free.remove(&i);
        }
    }

    fn at(&self, addr: BlockAddr) -> Result<(u32, usize), FsError> {
        let (seg, at) = self.layout.place(addr).ok_or(OUTSIDE)?;
        Ok((seg.0, at as usize))
    }

    pub(super) fn is_valid(&self, addr: BlockAddr) -> bool {
        self.at(addr).is_ok_and(|(i, at)| msb_test(&self.segs[i as usize].cur, at))
    }
    pub(super) fn is_needed(&self, addr: BlockAddr) -> bool {
        self.at(addr).is_ok_and(|(i, at)| {
            let seg = &self.segs[i as usize];
            msb_test(&seg.cur, at) || msb_test(&seg.rec, at)
        })
    }
    pub(super) fn in_rec(&self, addr: BlockAddr) -> bool {
        self.at(addr).is_ok_and(|(i, at)| msb_test(&self.segs[i as usize].rec, at))
    }

    /// A block becomes valid.
    pub(super) fn mark(&mut self, addr: BlockAddr, mtime: u64) -> Result<(), FsError> {
        let (i, at) = self.at(addr)?;
        let seg = &mut self.segs[i as usize];
        if msb_set(&mut seg.cur, at, true) {
            return Err(FsError::Corrupt("a block has two owners"));
        }
        seg.valid += 1;
        seg.mtime = mtime;
        if msb_test(&seg.rec, at) {
            self.pre_invalid -= 1;
        } else {
            seg.needed += 1;
        }
        self.dirty.insert(i);
        self.refresh(i);
        Ok(())
    }

    /// A block is valid no more.
    pub(super) fn clear(&mut self, addr: BlockAddr, mtime: u64) -> Result<(), FsError> {
        let (i, at) = self.at(addr)?;
        let seg = &mut self.segs[i as usize];
        if !msb_set(&mut seg.cur, at, false) {
            return Err(FsError::Corrupt("a block that has an owner is not valid"));
        }
        seg.valid -= 1;
        seg.mtime = mtime;
        if msb_test(&seg.rec, at) {
            self.pre_invalid += 1;
        } else {
            seg.needed -= 1;
        }
        self.dirty.insert(i);
        self.refresh(i);
        Ok(())
    }

    /// Recovery needs a block.
    pub(super) fn need(&mut self, addr: BlockAddr) -> Result<(), FsError> {
        let (i, at) = self.at(addr)?;
        let seg = &mut self.segs[i as usize];
        if !msb_set(&mut seg.rec, at, true) && !msb_test(&seg.cur, at) {
            seg.needed += 1;
            self.pre_invalid += 1;
        }
        self.refresh(i);
        Ok(())
    }

    /// What recovery needed of a valid block lies elsewhere.
    pub(super) fn forget(&mut self, addr: BlockAddr) -> Result<(), FsError> {
        self.clear(addr, 0)?;
        let (i, at) = self.at(addr)?;
        let seg = &mut self.segs[i as usize];
        if msb_set(&mut seg.rec, at, false) {
            seg.needed -= 1;
            self.pre_invalid -= 1;
        }
        self.refresh(i);
        Ok(())
    }

    /// What recovery needed of a segment lies elsewhere: nothing in it is needed any more.
    pub(super) fn release(&mut self, seg: SegNo) {
        let one = &mut self.segs[seg.index()];
        assert_eq!(one.valid, 0, "segment {seg} still has valid blocks");
        self.pre_invalid -= u64::from(one.needed);
        one.rec = [0; VALID_BYTES];
        one.needed = 0;
        self.refresh(seg.0);
    }

    /// A free segment becomes a log's head.
    pub(super) fn open(&mut self, kind: u8, hold: bool) -> Result<SegNo, FsError> {
        let after = self.free.range(self.next..).next().or_else(|| self.free.first());
        let i = *after.ok_or(FsError::NoSpace)?;
        self.next = i + 1;
        self.take(SegNo(i), kind, hold);
        Ok(SegNo(i))
    }

    /// This segment becomes a log's head.
    pub(super) fn take(&mut self, seg: SegNo, kind: u8, hold: bool) {
        let one = &mut self.segs[seg.index()];
        (one.head, one.kind, one.held) = (true, kind, one.held || hold);
        self.dirty.insert(seg.0);
        self.refresh(seg.0);
    }

    /// A segment is a head no more.
    pub(super) fn close(&mut self, seg: SegNo) {
        self.segs[seg.index()].head = false;
        self.refresh(seg.0);
    }

    /// Keeps a segment from being free before the next checkpoint.
    pub(super) fn hold(&mut self, seg: SegNo) {
        self.segs[seg.index()].held = true;
        self.refresh(seg.0);
    }

    /// A segment holds nodes, or data.
    pub(super) fn set_kind(&mut self, seg: SegNo, kind: u8) {
        self.segs[seg.index()].kind = kind;
        self.dirty.insert(seg.0);
    }

    /// A segment's entry must be written.
    pub(super) fn touch(&mut self, seg: SegNo) {
        self.dirty.insert(seg.0);
    }

    /// Entries of the SIT blocks that are not on media.
    pub(super) fn dirty_tables(&self) -> BTreeSet<u32> {
        self.dirty.iter().map(|i| i / crate::format::SIT_PER_BLOCK as u32).collect()
    }

    pub(super) fn entry(&self, seg: SegNo) -> SitEntry {
        let one = &self.segs[seg.index()];
        SitEntry { valid: one.valid, kind: one.kind, map: one.cur, mtime: one.mtime }
    }

    /// A checkpoint is durable: what is valid is what recovery needs.
    pub(super) fn settle(&mut self) {
        self.dirty.clear();
        self.pre_invalid = 0;
        for i in 0..self.segs.len() {
            let seg = &mut self.segs[i];
            if seg.held || seg.needed != seg.valid || seg.rec != seg.cur {
                (seg.rec, seg.needed, seg.held) = (seg.cur, seg.valid, false);
                self.refresh(i as u32);
            }
        }
    }

    /// What contradicts itself, in words.
    pub(super) fn check(&self) -> Result<(), FsError> {
        let mut pre = 0;
        for (i, seg) in self.segs.iter().enumerate() {
            let bits = |map: &[u8]| map.iter().map(|b| b.count_ones()).sum::<u32>();
            let both: Vec<u8> = seg.cur.iter().zip(&seg.rec).map(|(a, b)| a | b).collect();
            if bits(&seg.cur) != u32::from(seg.valid) || bits(&both) != u32::from(seg.needed) {
                return Err(FsError::Corrupt("counts of a segment differ from its maps"));
            }
            pre += u64::from(seg.needed - seg.valid);
            let free = seg.needed == 0 && !seg.head && !seg.held;
            if free != self.free.contains(&(i as u32)) {
                return Err(FsError::Corrupt("the list of free segments"));
            }
        }
        if pre != self.pre_invalid {
            return Err(FsError::Corrupt("the count of pre-invalid blocks"));
        }
        Ok(())
    }
}
