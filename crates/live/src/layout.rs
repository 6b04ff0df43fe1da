//! Where everything lies in an image, and the bytes of what is no page (docs/formats.md).
//!
//! ```text
//! superblock, 4096 B | block 0 | block 1 | ..
//! block: header, 4096 B (512 used) | pages, 4096 B each | 32 B for each page, rounded up to 4096
//! ```

use block::{BlockId, Ppn, crc32c};
use nand::{BlockHeader, Geometry, Kind, OOB_BYTES, Oob};

/// Bytes of a page, and of the grain of everything else.
pub const PAGE: u64 = 4096;
/// Bytes of a block's header that are written together: a sector is old or new.
pub const SECTOR: usize = 512;
const MAGIC: &[u8; 8] = b"varveimg";
const BLOCK_MAGIC: &[u8; 8] = b"varveblk";
const VERSION: u32 = 1;
/// Flag of an OOB record: `data_crc` is present.
pub const HAS_CRC: u8 = 2;
/// Flag of an OOB record: the payload was lost before it was copied here.
pub const LOST: u8 = 4;

/// Places in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
}

impl Layout {
    pub fn of(geometry: &Geometry) -> Layout {
        Layout { blocks: geometry.blocks(), pages: geometry.pages_per_block }
    }
    fn oob_bytes(&self) -> u64 {
        (u64::from(self.pages) * OOB_BYTES as u64).div_ceil(PAGE) * PAGE
    }
    fn stride(&self) -> u64 {
        PAGE + u64::from(self.pages) * PAGE + self.oob_bytes()
    }
    /// Bytes of the whole image.
    pub fn bytes(&self) -> u64 {
        PAGE + u64::from(self.blocks) * self.stride()
    }
    pub fn header(&self, block: BlockId) -> u64 {
        PAGE + u64::from(block.0) * self.stride()
    }
    pub fn page(&self, block: BlockId, page: u32) -> u64 {
        self.header(block) + PAGE + u64::from(page) * PAGE
    }
    pub fn oob(&self, block: BlockId, page: u32) -> u64 {
        self.page(block, self.pages) + u64::from(page) * OOB_BYTES as u64
    }
    pub fn split(&self, at: Ppn) -> (BlockId, u32) {
        (BlockId(at.0 / self.pages), at.0 % self.pages)
    }
}

fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let crc = crc32c(0, &bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let end = bytes.len() - 4;
    bytes[end..] == crc32c(0, &bytes[..end]).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// The superblock: what the image is, and the configuration of its drive as `key = value` lines.
/// `None` if the text does not fit.
pub fn superblock(layout: Layout, config: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; PAGE as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&layout.blocks.to_le_bytes());
    bytes[16..20].copy_from_slice(&layout.pages.to_le_bytes());
    bytes[20..24].copy_from_slice(&(config.len() as u32).to_le_bytes());
    bytes
        .get_mut(24..24 + config.len())
        .filter(|_| 24 + config.len() + 4 <= PAGE as usize)?
        .copy_from_slice(config.as_bytes());
    seal(&mut bytes);
    Some(bytes)
}

/// Reads a superblock; the error says what was found.
pub fn read_superblock(bytes: &[u8]) -> Result<(Layout, String), String> {
    if &bytes[..8] != MAGIC {
        return Err("no varve image: it does not begin with `varveimg`".to_string());
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(format!("image version {version}: expected {VERSION}"));
    }
    if !is_sealed(bytes) {
        return Err("the superblock fails its CRC32C: expected an undamaged image".to_string());
    }
    let layout = Layout { blocks: u32_at(bytes, 12), pages: u32_at(bytes, 16) };
    let config = bytes.get(24..24 + u32_at(bytes, 20) as usize).unwrap_or_default();
    let config = String::from_utf8(config.to_vec());
    Ok((layout, config.map_err(|_| "the superblock's configuration is no text".to_string())?))
}

/// What lies before a block's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockState {
    /// The header programmed with page 0; none in an erased block.
    pub header: Option<BlockHeader>,
    pub erases: u32,
    pub bad: bool,
    /// Pages of this opening that were durable when the image was let go: damage of one of them is
    /// damage, not a program cut short. 0 where nobody had time to say.
    pub settled: u32,
}

impl BlockState {
    pub fn encode(&self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes[..8].copy_from_slice(BLOCK_MAGIC);
        bytes[8..12].copy_from_slice(&self.erases.to_le_bytes());
        bytes[12] = u8::from(self.bad) | u8::from(self.header.is_some()) << 1;
        let header = self.header.unwrap_or_default();
        bytes[16..20].copy_from_slice(&header.line.to_le_bytes());
        bytes[24..32].copy_from_slice(&header.opened.to_le_bytes());
        bytes[32..40].copy_from_slice(&header.epoch.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.settled.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads a sector: a fresh image's zeroes are an erased block; `None` if it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<BlockState> {
        if bytes.iter().all(|b| *b == 0) {
            return Some(BlockState::default());
        }
        if &bytes[..8] != BLOCK_MAGIC || !is_sealed(bytes) {
            return None;
        }
        let header = BlockHeader {
            line: u32_at(bytes, 16),
            opened: u64_at(bytes, 24),
            epoch: u64_at(bytes, 32),
        };
        Some(BlockState {
            header: (bytes[12] & 2 != 0).then_some(header),
            erases: u32_at(bytes, 8),
            bad: bytes[12] & 1 != 0,
            settled: u32_at(bytes, 40),
        })
    }

    /// What the CRCs of this opening's records start from: records left from an earlier opening
    /// of the block fail their check, so an erase need not touch them.
    pub fn salt(&self, block: BlockId) -> u32 {
        let header = self.header.unwrap_or_default();
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&block.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.erases.to_le_bytes());
        bytes[8..16].copy_from_slice(&header.opened.to_le_bytes());
        bytes[16..].copy_from_slice(&header.epoch.to_le_bytes());
        crc32c(0, &bytes)
    }
}

/// The record of a page as it lies in the image: the array's record, its CRC salted.
pub fn encode_oob(oob: &Oob, salt: u32) -> [u8; OOB_BYTES] {
    let mut bytes = oob.encode();
    let crc = crc32c(salt, &bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A record of the image.
pub enum Record {
    /// Never written.
    Blank,
    /// Left from an earlier opening of the block, or damaged.
    Other,
    Good(Oob),
}

pub fn decode_oob(bytes: &[u8], salt: u32) -> Record {
    if bytes.iter().all(|b| *b == 0) {
        return Record::Blank;
    }
    let mut plain = [0; OOB_BYTES];
    plain.copy_from_slice(bytes);
    if u32_at(&plain, 28) != crc32c(salt, &plain[..28]) {
        return Record::Other;
    }
    let crc = crc32c(0, &plain[..28]);
    plain[28..].copy_from_slice(&crc.to_le_bytes());
    Oob::decode(&plain).map_or(Record::Other, Record::Good)
}

/// Whether a record says what others are: it may be programmed only when they are durable.
pub fn closes_others(kind: Kind) -> bool {
    matches!(kind, Kind::State | Kind::Remap | Kind::CheckpointEnd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_another_opening_is_not_believed() {
        let header = BlockHeader { line: 3, opened: 77, epoch: 9 };
        let state = BlockState { header: Some(header), erases: 4, bad: false, settled: 6 };
        assert_eq!(BlockState::decode(&state.encode()), Some(state));
        assert_eq!(BlockState::decode(&[0; SECTOR]), Some(BlockState::default()));
        let mut torn = state.encode();
        torn[33] ^= 1;
        assert_eq!(BlockState::decode(&torn), None);
        let oob = Oob { kind: Kind::Data, lpn: 5, seq: 6, ..Oob::default() };
        let bytes = encode_oob(&oob, state.salt(BlockId(1)));
        let good = |salt| matches!(decode_oob(&bytes, salt), Record::Good(found) if found == oob);
        assert!(good(state.salt(BlockId(1))));
        let next = BlockState { erases: 5, ..state };
        assert!(!good(next.salt(BlockId(1))) && !good(state.salt(BlockId(2))));
    }

    #[test]
    fn a_superblock_says_what_is_wrong_with_it() {
        let layout = Layout { blocks: 7, pages: 64 };
        let bytes = superblock(layout, "op = 28 %\n").expect("it fits");
        assert_eq!(read_superblock(&bytes), Ok((layout, "op = 28 %\n".to_string())));
        let mut torn = bytes.clone();
        torn[100] ^= 1;
        assert!(read_superblock(&torn).unwrap_err().contains("CRC32C"));
        assert!(read_superblock(&[0; 4096]).unwrap_err().contains("varveimg"));
        assert_eq!(superblock(layout, &"x".repeat(4090)), None);
    }
}
