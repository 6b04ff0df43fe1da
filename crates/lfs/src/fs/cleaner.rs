//! The cleaner: the segment that is being cleaned, and what was counted.
//!
//! | what | promise |
//! | --- | --- |
//! | victim | no log is threaded through it meanwhile |
//! | buffers | for a victim's blocks, kept between cleanings so that nothing is allocated for the next one |
//! | counts | since the mount; they decide nothing |

use super::clean::CleaningCounts;
use crate::SegNo;

/// See above.
#[derive(Default)]
pub(super) struct Cleaner {
    victim: Option<SegNo>,
    buffers: Vec<Vec<u8>>,
    counts: CleaningCounts,
    /// Segments that logs were threaded through.
    threaded: u64,
}

impl Cleaner {
    /// Room for so many bytes of a victim's blocks, at least: what is not read over is of earlier victims.
    /// (Made smaller and larger again it would be zeroed each time.)
    pub fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        buffer
    }
    /// Room that is not needed any more.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffers.push(buffer);
    }
    /// Begins with a victim.
    pub fn begin(&mut self, victim: SegNo) {
        self.victim = Some(victim);
    }
    /// A victim is cleaned: so many of its blocks were copied, of them so many pre-invalid ones.
    pub fn end(&mut self, buffer: Vec<u8>, copied: u32, pre_invalid: u32) {
        self.give_back(buffer);
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
    /// A victim that was read ahead of need is copied, or was for nothing.
    pub fn ahead(&mut self, copied: bool) {
        self.counts.ahead += u64::from(copied);
        self.counts.stale += u64::from(!copied);
    }
    /// An operation waits for cleaning ahead of need.
    pub fn waited(&mut self) {
        self.counts.waits += 1;
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
