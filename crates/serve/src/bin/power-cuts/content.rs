//! Blocks that say themselves what they are: whose, of which file, which block, which version.

use block::{Rng, crc32c};

/// Bytes of a block.
pub const BLOCK: usize = 4096;
const MAGIC: [u8; 8] = *b"varvecut";
const HEAD: usize = 32;
const TAIL: usize = BLOCK - 4;

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Number of the file, never used twice.
    pub file: u64,
    /// Number of the block in it.
    pub block: u64,
    /// Counts the writes of a thread.
    pub version: u64,
}

impl Stamp {
    /// Fills a block: the stamp, bytes drawn from it, and a checksum over all.
    pub fn fill(self, out: &mut [u8]) {
        out[..8].copy_from_slice(&MAGIC);
        for (i, word) in [self.file, self.block, self.version].into_iter().enumerate() {
            out[8 + i * 8..16 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
        let mut rng = Rng::new(self.file ^ self.block << 40 ^ self.version << 20);
        for word in out[HEAD..TAIL].chunks_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
        }
        let crc = crc32c(0, &out[..TAIL]);
        out[TAIL..BLOCK].copy_from_slice(&crc.to_le_bytes());
    }

    /// What a block says, if its checksum is right.
    pub fn of(bytes: &[u8]) -> Option<Stamp> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let crc = u32::from_le_bytes(bytes.get(TAIL..BLOCK)?.try_into().ok()?);
        (bytes[..8] == MAGIC && crc == crc32c(0, &bytes[..TAIL])).then(|| Stamp {
            file: word(8),
            block: word(16),
            version: word(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_says_what_it_is_and_a_changed_one_does_not() {
        let stamp = Stamp { file: 7 << 32 | 3, block: 9, version: 77 };
        let mut bytes = vec![0; BLOCK];
        assert_eq!(Stamp::of(&bytes), None);
        stamp.fill(&mut bytes);
        assert_eq!(Stamp::of(&bytes), Some(stamp));
        for at in [0, 8, 31, 32, 2000, TAIL - 1, TAIL, BLOCK - 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(Stamp::of(&bad), None, "byte {at}");
        }
        assert_eq!(Stamp::of(&bytes[..100]), None);
    }
}
