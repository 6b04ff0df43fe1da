//! The header of a block: what lies before its pages, and in version 2 behind them again.
//!
//! Invariant: of two headers of a block that are whole the one of the later state counts; the
//! states of a block have an order ([`BlockState::follows`]).

use block::{BlockId, crc32c};
use nand::BlockHeader;

use crate::layout::{SECTOR, Version, is_sealed, seal, u32_at, u64_at};
use crate::record::Claim;

const MAGIC: &[u8; 8] = b"varveblk";
/// Pages that a header can speak of one by one.
pub const MOST_PAGES: u32 = 512;
const TORN_AT: usize = 48;
const CLAIMS_AT: usize = 112;
const CLAIM_BYTES: usize = 12;
/// Other blocks that a header can speak of.
pub const MOST_CLAIMS: usize = 8;

/// Pages of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSet([u64; (MOST_PAGES / 64) as usize]);

impl PageSet {
    pub fn insert(&mut self, page: u32) {
        self.0[(page / 64) as usize] |= 1 << (page % 64);
    }
    pub fn contains(&self, page: u32) -> bool {
        self.0.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }
}

/// What a block's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockState {
    /// The header programmed with page 0; none in an erased block.
    pub header: Option<BlockHeader>,
    pub erases: u32,
    pub bad: bool,
    /// Pages of this opening that are known to be durable: damage of one of them is damage, not a
    /// program cut short. 0 where nobody had time to say.
    pub settled: u32,
    /// Those of them that a power cut had torn before: nothing was acknowledged of them.
    pub torn: PageSet,
}

impl BlockState {
    /// The sector; in version 2 with what it knows to be durable in other blocks.
    pub fn encode(&self, version: Version, block: BlockId, claims: &[Claim]) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.erases.to_le_bytes());
        bytes[12] = u8::from(self.bad) | u8::from(self.header.is_some()) << 1;
        let header = self.header.unwrap_or_default();
        bytes[16..20].copy_from_slice(&header.line.to_le_bytes());
        bytes[24..32].copy_from_slice(&header.opened.to_le_bytes());
        bytes[32..40].copy_from_slice(&header.epoch.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.settled.to_le_bytes());
        if version.is_guarded() {
            bytes[44..48].copy_from_slice(&block.0.to_le_bytes());
            for (place, word) in bytes[TORN_AT..].chunks_exact_mut(8).zip(&self.torn.0) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            let places = bytes[CLAIMS_AT..].chunks_exact_mut(CLAIM_BYTES).take(MOST_CLAIMS);
            for (place, claim) in places.zip(claims) {
                place[..4].copy_from_slice(&claim.block.0.to_le_bytes());
                place[4..8].copy_from_slice(&claim.erases.to_le_bytes());
                place[8..].copy_from_slice(&claim.pages.to_le_bytes());
            }
        }
        seal(&mut bytes);
        bytes
    }

    /// Reads a sector; `None` if it is damaged. In version 1 zeroes are an erased block.
    pub fn decode(bytes: &[u8], version: Version, block: BlockId) -> Option<BlockState> {
        if version == Version::One && bytes.iter().all(|b| *b == 0) {
            return Some(BlockState::default());
        }
        if &bytes[..8] != MAGIC || !is_sealed(bytes) {
            return None;
        }
        let mut torn = PageSet::default();
        if version.is_guarded() {
            if u32_at(bytes, 44) != block.0 {
                return None;
            }
            for (word, place) in torn.0.iter_mut().zip(bytes[TORN_AT..].chunks_exact(8)) {
                *word = u64_at(place, 0);
            }
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
            torn,
        })
    }

    /// What a sector of version 2 that decodes says of other blocks.
    pub fn claims(bytes: &[u8]) -> impl Iterator<Item = Claim> {
        let places = bytes[CLAIMS_AT..].chunks_exact(CLAIM_BYTES).take(MOST_CLAIMS);
        places
            .map(|place| Claim {
                block: BlockId(u32_at(place, 0)),
                erases: u32_at(place, 4),
                pages: u32_at(place, 8),
            })
            .filter(|claim| claim.pages > 0)
    }

    /// Whether this is a later state of the block than `other`.
    pub fn follows(&self, other: &BlockState) -> bool {
        let order = |s: &BlockState| {
            // Two openings that a power cut left without a page can have one epoch.
            let h = s.header.unwrap_or_default();
            (s.erases, s.bad, s.header.is_some(), h.epoch, s.settled, h.opened, h.line)
        };
        order(self) > order(other)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_pages_that_were_inserted() {
        let mut set = PageSet::default();
        let there = [0, 1, 63, 64, 70, MOST_PAGES - 1];
        there.iter().for_each(|page| set.insert(*page));
        let found: Vec<u32> = (0..2 * MOST_PAGES).filter(|page| set.contains(*page)).collect();
        assert_eq!(found, there);
    }

    #[test]
    fn every_flipped_bit_is_seen_and_so_is_a_header_of_another_block() {
        let header = BlockHeader { line: 3, opened: 77, epoch: 9 };
        let mut state =
            BlockState { header: Some(header), erases: 4, settled: 6, ..BlockState::default() };
        state.torn.insert(5);
        state.torn.insert(511);
        let (version, block) = (Version::Two, BlockId(8));
        let claims: Vec<Claim> =
            (1..=8).map(|n| Claim { block: BlockId(n), erases: n, pages: 9 * n }).collect();
        let bytes = state.encode(version, block, &claims);
        assert_eq!(BlockState::claims(&bytes).collect::<Vec<_>>(), claims);
        assert_eq!(BlockState::decode(&bytes, version, block), Some(state));
        assert_eq!(BlockState::decode(&bytes, version, BlockId(9)), None);
        assert_eq!(BlockState::decode(&[0; SECTOR], version, block), None);
        for bit in 0..8 * SECTOR {
            let mut torn = bytes;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockState::decode(&torn, version, block), None, "bit {bit}");
        }
        let old = [0; SECTOR];
        assert_eq!(BlockState::decode(&old, Version::One, block), Some(BlockState::default()));
    }

    #[test]
    fn the_states_of_a_block_have_an_order() {
        let opened = |erases, epoch, settled| BlockState {
            header: Some(BlockHeader { epoch, ..BlockHeader::default() }),
            erases,
            settled,
            ..BlockState::default()
        };
        let erased = |erases| BlockState { erases, ..BlockState::default() };
        let bad = BlockState { bad: true, ..erased(2) };
        let order = [erased(1), opened(1, 8, 0), opened(1, 9, 0), opened(1, 9, 3), erased(2), bad];
        for pair in order.windows(2) {
            assert!(pair[1].follows(&pair[0]) && !pair[0].follows(&pair[1]), "{pair:?}");
        }
        assert!(!bad.follows(&bad));
    }
}
