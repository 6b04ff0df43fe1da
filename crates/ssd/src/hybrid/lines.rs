//! Lines of the hybrid FTL and where a position of a line lies.
//!
//! Positions count the slots of a line in the order in which they can be programmed: one page of
//! every block after another, so that neighbouring positions stripe over the dies. A data line
//! holds the slots of its logical block at the positions of their offsets.

use block::{BlockId, Ppn, Time};
use nand::{Geometry, SlotWrite};

use crate::config::PlaneGroup;

/// No line, no block, no logical block.
pub(super) const NONE: u32 = u32::MAX;

/// What a line is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Erased, waiting to be used.
    Free,
    /// The data block of its owner.
    Data,
    /// A log block.
    Log,
    /// Becoming the data block of its owner.
    Building,
    /// Holds records of discards.
    Record,
    /// Empty; waits for its erase to be safe.
    Erasing,
    /// A block of it has failed and no spare takes its place; its good blocks are spares.
    Retired,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub role: Role,
    /// The logical block it belongs to ([`NONE`]: shared).
    pub owner: u32,
    /// More may be appended to it.
    pub open: bool,
    /// A program of it failed: what it holds must be moved.
    pub hurt: bool,
    /// Every position so far holds the owner's slot of that offset.
    pub sequential: bool,
    /// Slots that hold current data.
    pub valid: u32,
    /// Positions given away.
    pub reached: u32,
    /// Positions programmed; the others are in `slots`.
    pub flushed: u32,
    /// Position after the last that is no padding.
    pub data_end: u32,
    /// Sequence number when it was opened.
    pub opened: u64,
    /// Which opening of a line this was.
    pub epoch: u64,
    /// When the host last wrote to it: the age for the choice of a log block to merge.
    pub used: u64,
    /// Number of the assembly begun last.
    pub assembly: u64,
    /// When the last slot of the assembly is in the controller's memory.
    pub ready: Time,
    /// No program of it may begin before.
    pub floor: Time,
    /// Slots assembled and not yet programmed.
    pub slots: Vec<SlotWrite>,
}

impl Line {
    pub fn fresh(role: Role) -> Line {
        Line {
            role,
            owner: NONE,
            open: false,
            hurt: false,
            sequential: false,
            valid: 0,
            reached: 0,
            flushed: 0,
            data_end: 0,
            opened: 0,
            epoch: 0,
            used: 0,
            assembly: 0,
            ready: Time::ZERO,
            floor: Time::ZERO,
            slots: Vec::new(),
        }
    }
}

/// The shape all lines share, and the blocks each is made of.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Blocks of a line.
    width: u32,
    /// Blocks programmed together.
    together: u32,
    /// Pages of a block programmed together.
    word: u32,
    spp: u32,
    /// Slots of a line.
    pub slots: u32,
    /// Slots programmed together.
    pub group: u32,
    members: Vec<u32>,
    /// Line and member index of a block.
    home: Vec<(u32, u32)>,
    count: u32,
}

impl Layout {
    /// Lines of `rows` rows of blocks over `groups`; `word` pages of a block are programmed at
    /// once.
    pub fn new(g: &Geometry, groups: &[PlaneGroup], rows: u32, word: u32) -> Layout {
        let width: u32 = groups[0].stripes.iter().map(|s| s.len() as u32).sum();
        let together = groups[0].stripes[0].len() as u32;
        debug_assert!(groups.iter().flat_map(|p| &p.stripes).all(|s| s.len() as u32 == together));
        let mut layout = Layout {
            width,
            together,
            word,
            spp: g.slots_per_page,
            slots: width * g.slots_per_block(),
            group: word * together * g.slots_per_page,
            members: Vec::with_capacity((rows * g.planes()) as usize),
            home: vec![(NONE, 0); g.blocks() as usize],
            count: rows * groups.len() as u32,
        };
        for row in 0..rows {
            for (i, group) in groups.iter().enumerate() {
                let line = row * groups.len() as u32 + i as u32;
                for (member, plane) in group.stripes.iter().flatten().enumerate() {
                    let block = g.block_at(*plane, row);
                    layout.home[block.index()] = (line, member as u32);
                    layout.members.push(block.0);
                }
            }
        }
        layout
    }

    pub fn len(&self) -> u32 {
        self.count
    }
    /// Slots of one page of every block.
    pub fn row(&self) -> u32 {
        self.width * self.spp
    }
    pub fn members(&self, line: u32) -> &[u32] {
        let at = (line * self.width) as usize;
        &self.members[at..at + self.width as usize]
    }
    /// The line of a block, [`NONE`] for spares.
    pub fn line_of(&self, block: BlockId) -> u32 {
        self.home[block.index()].0
    }
    /// Puts a block in the place of a member, which becomes nobody's.
    pub fn replace(&mut self, line: u32, member: u32, new: BlockId) {
        let at = (line * self.width + member) as usize;
        let old = std::mem::replace(&mut self.members[at], new.0);
        self.home[old as usize] = (NONE, 0);
        self.home[new.index()] = (line, member);
    }
    /// A block of a retired line belongs to nobody.
    pub fn orphan(&mut self, block: BlockId) {
        self.home[block.index()] = (NONE, 0);
    }

    /// The block, page and slot of a position.
    pub fn place(&self, line: u32, position: u32) -> (BlockId, u32, u32) {
        let (group, rest) = (position / self.group, position % self.group);
        let stripes = self.width / self.together;
        let (word, stripe) = (group / stripes, group % stripes);
        let (page, slot) = (rest / self.spp, rest % self.spp);
        let member = stripe * self.together + page % self.together;
        let block = self.members[(line * self.width + member) as usize];
        (BlockId(block), word * self.word + page / self.together, slot)
    }
    /// The physical number of a position.
    pub fn ppn(&self, g: &Geometry, line: u32, position: u32) -> Ppn {
        let (block, page, slot) = self.place(line, position);
        Ppn(g.ppn(block, page).0 + slot)
    }
    /// The line and position of a place.
    pub fn position(&self, g: &Geometry, at: Ppn) -> (u32, u32) {
        let (block, page, slot) = g.place(at);
        let (line, member) = self.home[block.index()];
        let stripes = self.width / self.together;
        let (stripe, plane) = (member / self.together, member % self.together);
        let group = page / self.word * stripes + stripe;
        let within = (page % self.word * self.together + plane) * self.spp + slot;
        (line, group * self.group + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_places_are_inverse_and_pages_come_in_order() {
        let g = Geometry::new(2, 2, 2, 3, 6, 8192, 0, 4096).unwrap();
        let groups = [PlaneGroup { stripes: vec![vec![0, 1], vec![4, 5], vec![2, 3], vec![6, 7]] }];
        for word in [1, 3] {
            let layout = Layout::new(&g, &groups, 3, word);
            let mut next = vec![0; g.blocks() as usize];
            for line in 0..layout.len() {
                for position in 0..layout.slots {
                    let (block, page, slot) = layout.place(line, position);
                    let at = layout.ppn(&g, line, position);
                    assert_eq!(layout.position(&g, at), (line, position));
                    if slot == 0 {
                        assert_eq!(next[block.index()], page);
                        next[block.index()] += 1;
                    }
                }
            }
            assert!(next.iter().all(|pages| *pages == 6));
        }
    }
}
