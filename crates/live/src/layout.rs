//! Where everything lies in an image (docs/formats.md).
//!
//! ```text
//! version 3: superblock, 4096 B, twice | log of commits | block 0 | block 1 | ..
//!
//! version 2: superblock, 4096 B, twice | block 0 | block 1 | ..   (3 without a log)
//! block: header, 4096 B (512 used) | pages, 4096 B each
//!        | two areas of 64 B for each page, each rounded up to 4096 | header again, 4096 B
//!
//! version 1: superblock, 4096 B | block 0 | block 1 | ..
//! block: header, 4096 B (512 used) | pages, 4096 B each | 32 B for each page, rounded up to 4096
//! ```
//!
//! Invariant: of what version 2 keeps twice no two lie in the same 4096 bytes, and what says that a
//! record is missing does not lie where the record does.

use block::{BlockId, Ppn, crc32c};
use nand::{Geometry, OOB_BYTES};

use crate::record::RECORD_BYTES;

/// Bytes of a page, and of the grain of everything else.
pub const PAGE: u64 = 4096;
/// Bytes of a block's header that are written together: a sector is old or new.
pub const SECTOR: usize = 512;

/// How an image is laid out. Old ones are opened and stay what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    One = 1,
    Two = 2,
    Three = 3,
}

impl Version {
    /// Whether superblock and headers are there twice, and records say how far others go.
    pub fn is_guarded(self) -> bool {
        self >= Version::Two
    }
}

/// Places in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub version: Version,
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Bytes of the log of commits; 0 before version 3.
    pub log: u64,
}

impl Layout {
    /// An image with a log of so many bytes; one without is of version 2.
    pub fn with_log(geometry: &Geometry, log: u64) -> Layout {
        let version = if log == 0 { Version::Two } else { Version::Three };
        Layout::of(version, geometry, log)
    }
    pub fn of(version: Version, geometry: &Geometry, log: u64) -> Layout {
        Layout { version, blocks: geometry.blocks(), pages: geometry.pages_per_block, log }
    }
    /// See [`Version::is_guarded`].
    pub fn is_guarded(&self) -> bool {
        self.version.is_guarded()
    }
    /// How often superblock and headers are there.
    pub fn copies(&self) -> usize {
        if self.is_guarded() { 2 } else { 1 }
    }
    /// Areas in which a page's record may lie.
    pub fn areas(&self) -> usize {
        if self.is_guarded() { 2 } else { 1 }
    }
    /// Bytes beside a page.
    pub fn record_bytes(&self) -> usize {
        if self.is_guarded() { RECORD_BYTES } else { OOB_BYTES }
    }
    fn area_bytes(&self) -> u64 {
        (u64::from(self.pages) * self.record_bytes() as u64).div_ceil(PAGE) * PAGE
    }
    fn stride(&self) -> u64 {
        let records = self.areas() as u64 * self.area_bytes();
        self.copies() as u64 * PAGE + u64::from(self.pages) * PAGE + records
    }
    /// Bytes of the whole image.
    pub fn bytes(&self) -> u64 {
        self.start(self.blocks)
    }
    fn start(&self, block: u32) -> u64 {
        self.log_start() + self.log + u64::from(block) * self.stride()
    }
    /// Where the log of commits begins.
    pub fn log_start(&self) -> u64 {
        self.copies() as u64 * PAGE
    }
    pub fn superblock(&self, copy: usize) -> u64 {
        copy as u64 * PAGE
    }
    pub fn header(&self, block: BlockId, copy: usize) -> u64 {
        if copy == 0 { self.start(block.0) } else { self.start(block.0 + 1) - PAGE }
    }
    pub fn page(&self, block: BlockId, page: u32) -> u64 {
        self.start(block.0) + PAGE + u64::from(page) * PAGE
    }
    pub fn record(&self, block: BlockId, area: usize, page: u32) -> u64 {
        let first = self.page(block, self.pages) + area as u64 * self.area_bytes();
        first + u64::from(page) * self.record_bytes() as u64
    }
    pub fn split(&self, at: Ppn) -> (BlockId, u32) {
        (BlockId(at.0 / self.pages), at.0 % self.pages)
    }
}

/// Puts the CRC32C of all before into the last four bytes.
pub fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let crc = crc32c(0, &bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
}

pub fn is_sealed(bytes: &[u8]) -> bool {
    let end = bytes.len() - 4;
    bytes[end..] == crc32c(0, &bytes[..end]).to_le_bytes()
}

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_over_anything_else_and_no_two_copies_share_4_kib() {
        for (version, pages, log) in [
            (Version::One, 16, 0),
            (Version::Two, 16, 0),
            (Version::Two, 512, 0),
            (Version::Three, 64, 5 * PAGE),
        ] {
            let layout = Layout { version, blocks: 3, pages, log };
            let mut parts: Vec<(u64, u64)> =
                (0..layout.copies()).map(|copy| (layout.superblock(copy), PAGE)).collect();
            if log > 0 {
                parts.push((layout.log_start(), log));
            }
            for block in (0..3).map(BlockId) {
                parts.extend((0..layout.copies()).map(|copy| (layout.header(block, copy), PAGE)));
                parts.extend((0..pages).map(|page| (layout.page(block, page), PAGE)));
                let area = layout.area_bytes();
                parts.extend((0..layout.areas()).map(|a| (layout.record(block, a, 0), area)));
            }
            parts.sort_unstable();
            let mut end = 0;
            for (at, bytes) in parts {
                assert_eq!((at, at % PAGE), (end, 0), "{layout:?}");
                end = at + bytes;
            }
            assert_eq!(end, layout.bytes());
        }
    }
}
