//! The record of a page as it lies in the image: the array's record, its CRC salted; in version 2
//! with what it knows to be durable.
//!
//! Invariant: what a record claims is durable when the record is written, so a claim that does not
//! hold is damage, whatever a power cut left.

use block::{BlockId, crc32c};
use nand::{Kind, OOB_BYTES, Oob};

use crate::layout::{Layout, u16_at, u32_at};

/// Bytes of a record in version 2.
pub const RECORD_BYTES: usize = 64;
/// Flag of a record: `data_crc` is present.
pub const HAS_CRC: u8 = 2;
/// Flag of a record: the payload was lost before it was copied here.
pub const LOST: u8 = 4;
const NO_BLOCK: u32 = u32::MAX;

/// How much of a block was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub block: BlockId,
    /// Which opening of it.
    pub erases: u32,
    pub pages: u32,
}

/// What a record says of other pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Pages of its own block.
    pub own: u32,
    pub other: Option<Claim>,
}

/// A record of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Never written.
    Blank,
    /// Left from an earlier opening of the block, or damaged.
    Other,
    Good {
        oob: Oob,
        claims: Claims,
        crc: u32,
    },
}

/// The bytes of a record, and its CRC.
pub fn encode(layout: Layout, oob: &Oob, claims: Claims, salt: u32, page: u32) -> (Vec<u8>, u32) {
    let mut bytes = oob.encode().to_vec();
    bytes.resize(layout.record_bytes(), 0);
    let mut salt = salt;
    if layout.is_guarded() {
        bytes[28..32].fill(0);
        bytes[28..30].copy_from_slice(&(claims.own as u16).to_le_bytes());
        let block = claims.other.map_or(NO_BLOCK, |claim| claim.block.0);
        bytes[32..36].copy_from_slice(&block.to_le_bytes());
        if let Some(claim) = claims.other {
            bytes[36..40].copy_from_slice(&claim.erases.to_le_bytes());
            bytes[40..42].copy_from_slice(&(claim.pages as u16).to_le_bytes());
        }
        salt = crc32c(salt, &page.to_le_bytes());
    }
    let end = bytes.len() - 4;
    let crc = crc32c(salt, &bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    (bytes, crc)
}

pub fn decode(layout: Layout, bytes: &[u8], salt: u32, page: u32) -> Record {
    if bytes.iter().all(|b| *b == 0) {
        return Record::Blank;
    }
    let mut salt = salt;
    let mut claims = Claims::default();
    if layout.is_guarded() {
        salt = crc32c(salt, &page.to_le_bytes());
        claims.own = u32::from(u16_at(bytes, 28));
        claims.other = Some(u32_at(bytes, 32)).filter(|block| *block != NO_BLOCK).map(|block| {
            let pages = u32::from(u16_at(bytes, 40));
            Claim { block: BlockId(block), erases: u32_at(bytes, 36), pages }
        });
    }
    let end = bytes.len() - 4;
    let crc = u32_at(bytes, end);
    if crc != crc32c(salt, &bytes[..end]) {
        return Record::Other;
    }
    let mut plain = [0; OOB_BYTES];
    plain[..28].copy_from_slice(&bytes[..28]);
    let plain_crc = crc32c(0, &plain[..28]);
    plain[28..].copy_from_slice(&plain_crc.to_le_bytes());
    Oob::decode(&plain).map_or(Record::Other, |oob| Record::Good { oob, claims, crc })
}

/// Whether a record says what others are: it may be programmed only when they are durable.
pub fn closes_others(kind: Kind) -> bool {
    matches!(kind, Kind::State | Kind::Remap | Kind::CheckpointEnd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Version;

    #[test]
    fn a_record_is_believed_at_its_place_in_its_opening_and_whole_only() {
        for version in [Version::One, Version::Two, Version::Three] {
            let layout = Layout { version, blocks: 9, pages: 64, log: 0 };
            let oob = Oob { kind: Kind::Data, lpn: 5, seq: 6, ..Oob::default() };
            let other = Claim { block: BlockId(7), erases: 3, pages: 64 };
            let claims = match version {
                Version::One => Claims::default(),
                _ => Claims { own: 2, other: Some(other) },
            };
            let (bytes, crc) = encode(layout, &oob, claims, 11, 3);
            assert_eq!(decode(layout, &bytes, 11, 3), Record::Good { oob, claims, crc });
            assert_eq!(decode(layout, &bytes, 12, 3), Record::Other);
            if version.is_guarded() {
                assert_eq!(decode(layout, &bytes, 11, 4), Record::Other);
            }
            for bit in 0..8 * bytes.len() {
                let mut torn = bytes.clone();
                torn[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(layout, &torn, 11, 3), Record::Other, "bit {bit}");
            }
            assert_eq!(decode(layout, &vec![0; bytes.len()], 11, 3), Record::Blank);
        }
    }
}
