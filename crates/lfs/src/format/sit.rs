//! Entries of the segment information table: which blocks of a segment are valid.

use super::{array, put, put_u16, put_u64, u16_at, u64_at};

/// Bytes of a valid map: one bit for each of up to 512 blocks.
pub const VALID_BYTES: usize = 64;
const BYTES: usize = 2 + VALID_BYTES + 8;
/// Entries of a block.
pub const SIT_PER_BLOCK: usize = super::BLOCK_BYTES / BYTES;

/// One segment's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SitEntry {
    /// Valid blocks (10 bits).
    pub valid: u16,
    /// What kind of log wrote it: hot, warm, cold data, hot, warm, cold node (6 bits).
    pub kind: u8,
    /// Most significant bit first.
    pub map: [u8; VALID_BYTES],
    /// When it last changed, in the volume's own seconds.
    pub mtime: u64,
}

impl SitEntry {
    /// Bytes of an entry in a journal, behind its number.
    pub(super) const BYTES: usize = BYTES;

    pub(super) fn read(bytes: &[u8]) -> SitEntry {
        let word = u16_at(bytes, 0);
        SitEntry {
            valid: word & 0x3FF,
            kind: (word >> 10) as u8,
            map: array(bytes, 2),
            mtime: u64_at(bytes, 66),
        }
    }

    pub(super) fn write(&self, bytes: &mut [u8]) {
        put_u16(bytes, 0, self.valid | u16::from(self.kind) << 10);
        put(bytes, 2, &self.map);
        put_u64(bytes, 66, self.mtime);
    }

    /// Entry `i` of a block.
    pub fn get(block: &[u8], i: usize) -> SitEntry {
        SitEntry::read(&block[i * BYTES..])
    }

    /// Puts entry `i` into a block.
    pub fn put(&self, block: &mut [u8], i: usize) {
        self.write(&mut block[i * BYTES..]);
    }
}
