//! Which blocks of the main area are valid, which recovery needs, and which segments are free.
//!
//! Invariants:
//! * `cur` is what is valid now; `rec` (R) what recovery from the durable state may read: valid at
//!   the checkpoint, and what fsync made durable since;
//! * a block in either map is not written; a segment is free if neither map has a bit in it, it is
//!   no head, nothing holds it until the next checkpoint, and it does not wait for its record;
//! * while a checkpoint is frozen R is what either of the two says; when it is durable, what it says and
//!   what was made durable since;
//! * a segment that is read ahead of need bears a ticket until it is free or a head: as long as it
//!   does, no block of it was written;
//! * counts equal the maps' bits; a segment stands among the candidates of cleaning with the cost
//!   that the rule of this mount gives it.

mod frozen;

use std::collections::BTreeSet;

use self::frozen::Frozen;
use super::candidates::Candidates;
use super::victim::Question;
use crate::format::{SIT_PER_BLOCK, SitEntry, VALID_BYTES, msb_set, msb_test};
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
    held: bool,
    /// The same before the one after a frozen one.
    held_next: bool,
    /// What recovery needs of it was copied; records that are not durable yet will free it.
    pub(super) copied: bool,
    /// The ticket of cleaning ahead of need that reads it; 0: none does, or it was free or a head since.
    pub(super) ticket: u32,
    /// Nothing in it is valid, and only a checkpoint frees it.
    waits: bool,
    /// It is among the free ones.
    free: bool,
    /// It was written to since it was last discarded.
    written: bool,
    /// Its entry is not on media, or a checkpoint will change its maps.
    touched: bool,
}

impl Seg {
    fn is_free(&self) -> bool {
        self.needed == 0 && !self.head && !self.is_held() && !self.copied
    }
    /// Whether it is not free before a checkpoint.
    pub(super) fn is_held(&self) -> bool {
        self.held || self.held_next
    }
    /// Blocks that recovery needs and that are not valid any more.
    fn only_needed(&self) -> u64 {
        let (rec, _) = self.rec.as_chunks();
        let (cur, _) = self.cur.as_chunks();
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        let both = rec.iter().zip(cur);
        both.map(|(rec, cur)| u64::from((word(rec) & !word(cur)).count_ones())).sum()
    }
}

pub(super) struct Segs {
    segs: Vec<Seg>,
    free: BTreeSet<u32>,
    /// Segments that were touched since the checkpoint, each once.
    touched: Vec<u32>,
    frozen: Option<Frozen>,
    /// SIT blocks that are not on media.
    dirty: Vec<bool>,
    dirty_count: usize,
    candidates: Candidates,
    rule: Question,
    /// Blocks in R that are not valid any more, but for those of segments that wait for their record.
    pre_invalid: u64,
    /// Segments that wait for their record.
    copied: usize,
    /// Segments that wait for a checkpoint.
    prefree: usize,
    /// Where the search for a free segment goes on.
    next: u32,
    layout: Layout,
}

const OUTSIDE: FsError = FsError::Corrupt("an address outside the main area");

impl Segs {
    /// Blocks in R that are not valid any more and that no record is about to free.
    pub(super) fn pre_invalid(&self) -> u64 {
        self.pre_invalid
    }

    /// The table as entries say; all of R is valid.
    pub(super) fn new(
        layout: Layout,
        entries: &[SitEntry],
        rule: Question,
    ) -> Result<Segs, FsError> {
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
                held_next: false,
                copied: false,
                ticket: 0,
                waits: false,
                free: false,
                written: true,
                touched: false,
            });
        }
        let mut oldest: Vec<u32> = (0..segs.len() as u32).collect();
        oldest.sort_by_key(|i| segs[*i as usize].mtime);
        let mut all = Segs {
            candidates: Candidates::new(segs.len()),
            segs,
            free: BTreeSet::new(),
            touched: Vec::new(),
            frozen: None,
            dirty: vec![false; layout.sit_blocks() as usize],
            dirty_count: 0,
            pre_invalid: 0,
            copied: 0,
            prefree: 0,
            next: 0,
            rule,
            layout,
        };
        oldest.into_iter().for_each(|i| all.refresh(i));
        Ok(all)
    }

    pub(super) fn of(&self, seg: SegNo) -> &Seg {
        &self.segs[seg.index()]
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = &Seg> {
        self.segs.iter()
    }
    /// SIT blocks that are not on media.
    pub(super) fn dirty_count(&self) -> usize {
        self.dirty_count
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
        (self.free.len() + self.prefree + self.copied) as u32
    }
    /// The oldest candidate of each cost, cheapest first.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (SegNo, u16)> {
        self.candidates.oldest()
    }
    /// What candidates are judged by.
    pub(super) fn rule(&self) -> &Question {
        &self.rule
    }

    fn refresh(&mut self, i: u32) {
        let seg = &mut self.segs[i as usize];
        // A head takes block after block, and none of them changes what it is.
        let out = !seg.free && !seg.waits && seg.ticket == 0;
        if seg.head && out && self.candidates.cost(i).is_none() {
            return;
        }
        let waits = seg.valid == 0 && !seg.head && !seg.copied && (seg.needed > 0 || seg.is_held());
        self.prefree = self.prefree + usize::from(waits) - usize::from(seg.waits);
        seg.waits = waits;
        let free = seg.is_free();
        if free || seg.head {
            seg.ticket = 0;
        }
        if free != seg.free {
            seg.free = free;
            if free {
                self.free.insert(i);
            } else {
                self.free.remove(&i);
            }
        }
        let cost = self.rule.cost(seg);
        if cost.is_some() || self.candidates.cost(i).is_some() {
            self.candidates.set(i, cost);
        }
    }

    /// The checkpoint will look at this segment; its entry changes with it.
    fn soil(&mut self, i: u32) {
        self.look_at(i);
        let dirty = &mut self.dirty[i as usize / SIT_PER_BLOCK];
        self.dirty_count += usize::from(!*dirty);
        *dirty = true;
    }

    fn look_at(&mut self, i: u32) {
        let seg = &mut self.segs[i as usize];
        if !seg.touched {
            seg.touched = true;
            self.touched.push(i);
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

    /// Blocks of a segment that are valid, or (`recovery`) that recovery needs, in their order; and whether
    /// they are valid.
    pub(super) fn used_of(&self, seg: SegNo, recovery: bool) -> impl Iterator<Item = (u32, bool)> {
        let seg = &self.segs[seg.0 as usize];
        let bytes = seg.cur.iter().zip(&seg.rec).enumerate();
        bytes.flat_map(move |(byte, (cur, rec))| {
            let mut left = if recovery { cur | rec } else { *cur };
            std::iter::from_fn(move || {
                let bit = left.leading_zeros();
                left &= !0x80u8.checked_shr(bit)?;
                Some((8 * byte as u32 + bit, cur & (0x80 >> bit) != 0))
            })
        })
    }

    /// The first block of a segment, from `from` on, that may be written; as many as there are
    /// blocks if there is none.
    pub(super) fn hole(&self, seg: SegNo, from: u32) -> u32 {
        let one = &self.segs[seg.index()];
        let is_hole =
            |at: &u32| !msb_test(&one.cur, *at as usize) && !msb_test(&one.rec, *at as usize);
        (from..self.layout.per_seg).find(is_hole).unwrap_or(self.layout.per_seg)
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
        self.soil(i);
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
        self.soil(i);
        self.refresh(i);
        Ok(())
    }

    /// Recovery needs a block.
    pub(super) fn need(&mut self, addr: BlockAddr) -> Result<(), FsError> {
        let (i, at) = self.at(addr)?;
        if let Some(frozen) = &mut self.frozen {
            frozen.need(i, at);
        }
        let seg = &mut self.segs[i as usize];
        if msb_set(&mut seg.rec, at, true) {
            return Ok(());
        }
        if !msb_test(&seg.cur, at) {
            seg.needed += 1;
            self.pre_invalid += 1;
        }
        self.look_at(i);
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

    /// Nothing in a segment is valid, and what recovery needs of it was copied: it is no victim again.
    pub(super) fn set_copied(&mut self, seg: SegNo) {
        let one = &mut self.segs[seg.index()];
        one.copied = true;
        self.copied += 1;
        self.pre_invalid -= u64::from(one.needed);
        self.refresh(seg.0);
    }

    /// A segment is read ahead of need (0: no longer): it is no candidate.
    pub(super) fn set_ticket(&mut self, seg: SegNo, ticket: u32) {
        self.segs[seg.index()].ticket = ticket;
        self.refresh(seg.0);
    }

    /// What recovery needed of a copied segment lies elsewhere: nothing in it is needed any more.
    pub(super) fn release(&mut self, seg: SegNo) {
        let one = &mut self.segs[seg.index()];
        assert!(one.copied && one.valid == 0, "segment {seg} was not copied");
        self.copied -= 1;
        one.rec = [0; VALID_BYTES];
        (one.needed, one.copied) = (0, false);
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
        (one.head, one.kind, one.written) = (true, kind, true);
        if hold {
            self.hold(seg);
        }
        self.soil(seg.0);
        self.refresh(seg.0);
    }

    /// Free segments that were written to, as runs of neighbours; they count as discarded from now
    /// on. `all`: also those that were not.
    pub(super) fn take_discards(&mut self, all: bool) -> Vec<(SegNo, u32)> {
        let mut runs: Vec<(SegNo, u32)> = Vec::new();
        for i in &self.free {
            let seg = &mut self.segs[*i as usize];
            if !std::mem::take(&mut seg.written) && !all {
                continue;
            }
            match runs.last_mut() {
                Some((first, count)) if first.0 + *count == *i => *count += 1,
                _ => runs.push((SegNo(*i), 1)),
            }
        }
        runs
    }

    /// A segment is a head no more.
    pub(super) fn close(&mut self, seg: SegNo) {
        self.segs[seg.index()].head = false;
        self.refresh(seg.0);
    }

    /// Keeps a segment from being free before the next checkpoint.
    pub(super) fn hold(&mut self, seg: SegNo) {
        let one = &mut self.segs[seg.index()];
        match self.frozen {
            Some(_) => one.held_next = true,
            None => one.held = true,
        }
        self.look_at(seg.0);
        self.refresh(seg.0);
    }

    /// A segment holds nodes, or data.
    pub(super) fn set_kind(&mut self, seg: SegNo, kind: u8) {
        self.segs[seg.index()].kind = kind;
        self.soil(seg.0);
    }

    /// A segment's entry must be written.
    pub(super) fn touch(&mut self, seg: SegNo) {
        self.soil(seg.0);
    }

    /// SIT blocks that are not on media.
    pub(super) fn dirty_tables(&self) -> impl Iterator<Item = u32> {
        self.dirty.iter().enumerate().filter_map(|(i, dirty)| dirty.then_some(i as u32))
    }
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty_count > 0
    }

    pub(super) fn entry(&self, seg: SegNo) -> SitEntry {
        let one = &self.segs[seg.index()];
        SitEntry { valid: one.valid, kind: one.kind, map: one.cur, mtime: one.mtime }
    }

    /// What contradicts itself, in words.
    pub(super) fn check(&self) -> Result<(), FsError> {
        let (mut pre, mut copied) = (0, 0);
        let frozen: BTreeSet<u32> = self.frozen.iter().flat_map(Frozen::segments).collect();
        for (i, seg) in self.segs.iter().enumerate() {
            let bits = |map: &[u8]| map.iter().map(|b| b.count_ones()).sum::<u32>();
            let both: Vec<u8> = seg.cur.iter().zip(&seg.rec).map(|(a, b)| a | b).collect();
            if bits(&seg.cur) != u32::from(seg.valid) || bits(&both) != u32::from(seg.needed) {
                return Err(FsError::Corrupt("counts of a segment differ from its maps"));
            }
            if seg.copied && (seg.valid > 0 || seg.head) {
                return Err(FsError::Corrupt("a segment that waits for its record is in use"));
            }
            copied += usize::from(seg.copied);
            pre += if seg.copied { 0 } else { u64::from(seg.needed - seg.valid) };
            let free = seg.is_free();
            if free != self.free.contains(&(i as u32)) {
                return Err(FsError::Corrupt("the list of free segments"));
            }
            if self.rule.cost(seg) != self.candidates.cost(i as u32) {
                return Err(FsError::Corrupt("the candidates of cleaning"));
            }
            let settled = seg.rec == seg.cur && !seg.is_held();
            let frozen = frozen.contains(&(i as u32));
            if !settled && !seg.touched && !frozen {
                return Err(FsError::Corrupt("a segment that the checkpoint would not look at"));
            }
        }
        if (pre, copied) != (self.pre_invalid, self.copied) {
            return Err(FsError::Corrupt("the counts of pre-invalid blocks and copied segments"));
        }
        Ok(())
    }
}
