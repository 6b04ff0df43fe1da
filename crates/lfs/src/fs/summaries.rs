//! Summaries of closed segments, as they lie on media, in memory: cleaning asks for one per victim, and
//! need not wait for it behind what is being written (paper 2, section II-B, has them cached).
//!
//! Invariants: what is kept of a segment is what its summary's block was written with last; there are
//! never more than a number that the mount says, those go first that were not asked for.

use std::collections::BTreeMap;

use block::{BlockDevice, Time};

use super::Fs;
use super::cache::Slab;
use crate::format::{Block, zeroed};
use crate::{FsError, SegNo};

/// One summary is kept for so many nodes that may be.
pub(super) const PER_SUMMARY: usize = 8;

pub(super) struct Summaries {
    blocks: Slab<SegNo, Box<Block>>,
    places: BTreeMap<SegNo, u32>,
    most: usize,
}

impl Summaries {
    pub(super) fn new(most: usize) -> Summaries {
        Summaries { blocks: Slab::default(), places: BTreeMap::new(), most }
    }

    /// A segment's summary was written, or read.
    pub(super) fn keep(&mut self, seg: SegNo, block: Box<Block>) {
        if let Some(place) = self.places.remove(&seg) {
            self.blocks.remove(place);
        }
        self.places.insert(seg, self.blocks.add(seg, block));
        while let Some((place, seg)) = self.blocks.next_victim(self.most) {
            self.blocks.remove(place);
            self.places.remove(&seg);
        }
    }

    fn get(&mut self, seg: SegNo) -> Option<Box<Block>> {
        let place = self.places.get(&seg)?;
        self.blocks.get(*place).cloned()
    }
}

impl<D: BlockDevice> Fs<D> {
    /// A closed segment's summary.
    pub(super) fn read_summary(&mut self, seg: SegNo) -> Result<Box<Block>, FsError> {
        let (block, there) = self.fetch_summary(seg)?;
        self.disk.pass(there);
        Ok(block)
    }

    /// The same, but nobody waits: when it is there.
    pub(super) fn fetch_summary(&mut self, seg: SegNo) -> Result<(Box<Block>, Time), FsError> {
        if let Some(block) = self.summaries.get(seg) {
            return Ok((block, self.disk.clock()));
        }
        let mut block = zeroed();
        let there = self.disk.fetch_all(&[self.layout.summary(seg)], &mut block[..])?;
        self.summaries.keep(seg, block.clone());
        Ok((block, there))
    }

    /// What the media say, whatever is in memory.
    pub(super) fn summary_on_media(&mut self, seg: SegNo) -> Result<Box<Block>, FsError> {
        let mut block = zeroed();
        self.disk.read(self.layout.summary(seg), &mut block)?;
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_written_is_kept_and_no_more_than_allowed() {
        let mut all = Summaries::new(4);
        for n in 0..20 {
            all.keep(SegNo(n % 10), Box::new([n as u8; 4096]));
            assert!(all.places.len() <= 4);
        }
        assert_eq!(all.get(SegNo(9)).map(|block| block[0]), Some(19));
        all.keep(SegNo(9), Box::new([77; 4096]));
        assert_eq!(all.get(SegNo(9)).map(|block| block[9]), Some(77));
        let mut none = Summaries::new(0);
        none.keep(SegNo(1), zeroed());
        assert!(none.get(SegNo(1)).is_none());
    }
}
