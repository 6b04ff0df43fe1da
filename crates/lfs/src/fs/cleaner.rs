//! The cleaner: the segment that is being cleaned, and what was counted.
//!
//! | what | promise |
//! | --- | --- |
//! | victim | no log is threaded through it meanwhile |
//! | blocks | of a victim, kept between cleanings so that nothing is allocated for the next one |
//! | counts | since the mount; they decide nothing |

use super::clean::CleaningCounts;
use crate::SegNo;

/// See above.
#[derive(Default)]
pub(super) struct Cleaner {
    victim: Option<SegNo>,
    blocks: Vec<u8>,
    counts: CleaningCounts,
    /// Segments that logs were threaded through.
    threaded: u64,
}

impl Cleaner {
    /// Begins with a victim; room for its blocks.
    pub fn begin(&mut self, victim: SegNo) -> Vec<u8> {
        self.victim = Some(victim);
        std::mem::take(&mut self.blocks)
    }
    /// A victim is cleaned: so many of its blocks were copied, of them so many pre-invalid ones.
    pub fn end(&mut self, blocks: Vec<u8>, copied: u32, pre_invalid: u32) {
        self.blocks = blocks;
        self.victim = None;
        self.counts.copied += u64::from(copied);
        self.counts.pre_invalid += u64::from(pre_invalid);
        self.counts.segments += 1;
    }
    /// The segment that is being cleaned.
    pub fn victim(&self) -> Option<SegNo> {
        self.victim
    }
    /// Records were written, with so many entries.
    pub fn recorded(&mut self, records: usize, entries: usize) {
        self.counts.records += records as u64;
        self.counts.entries += entries as u64;
    }
    /// A segment was cleaned in the background.
    pub fn in_background(&mut self) {
        self.counts.background += 1;
    }
    /// A log goes through the holes of a segment.
    pub fn thread(&mut self) {
        self.threaded += 1;
    }
    pub fn counts(&self) -> CleaningCounts {
        self.counts
    }
    pub fn threaded(&self) -> u64 {
        self.threaded
    }
}
