//! The bytes of paper mode: one block that says where things lie, log blocks, stored tables.
//!
//! `[ super | log | a region for the table of each partition | data ]`, in 4 KiB blocks. The paper
//! has no super block and no form of a stored table: these are the least that lets it run. As there,
//! neither log nor tables have a checksum, a sequence number or a second copy.

use block::{DeviceError, UNIT_BYTES, crc32c};

use super::options::{PAIRS, PaperOptions};

pub(super) const BLOCK: usize = UNIT_BYTES as usize;
const MAGIC: [u8; 8] = *b"varvepap";
const TABLE: [u8; 8] = *b"paptable";
/// Pairs of a block of a stored table.
pub(super) const TABLE_PAIRS: u32 = (BLOCK / 8) as u32;
/// No pair has this original address: marks of the log have.
const MARK: u32 = u32::MAX;
const BEGIN: (u32, u32) = (MARK, 1);
const COMMIT: (u32, u32) = (MARK, 2);

/// Where things lie, in 4 KiB blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaperLayout {
    /// First block of the log.
    pub log: u32,
    /// Blocks of the log.
    pub log_blocks: u32,
    /// First block of the stored tables.
    pub tables: u32,
    /// Blocks of one stored table.
    pub region: u32,
    /// First data block.
    pub data: u32,
    /// Data blocks.
    pub data_blocks: u32,
    /// Blocks offered.
    pub blocks: u32,
    /// Blocks of one partition.
    pub partition_blocks: u32,
}

impl PaperLayout {
    /// The layout of a device of so many blocks.
    ///
    /// # Errors
    /// If nothing is left for data, or options do not fit.
    pub(super) fn plan(device: u64, options: &PaperOptions) -> Result<PaperLayout, DeviceError> {
        let bad = DeviceError::Unsupported;
        let total = u32::try_from(device).map_err(|_| bad("at most 16 TiB can be addressed"))?;
        if options.partition_blocks == 0 || !(1..=PAIRS).contains(&options.commit_pairs) {
            return Err(bad("a partition has blocks, and a transaction 1 to 510 pairs"));
        }
        let log_blocks = match options.log_blocks {
            0 => total.div_ceil(PAIRS) + 2,
            blocks => blocks,
        };
        let partitions = total.div_ceil(options.partition_blocks);
        let region = 1 + options.partition_blocks.min(total).div_ceil(TABLE_PAIRS);
        let tables = 1 + log_blocks;
        let data = partitions.checked_mul(region).and_then(|n| n.checked_add(tables));
        let data = data.filter(|data| *data < total);
        let data = data.ok_or(bad("log and tables leave no room for data"))?;
        let data_blocks = total - data;
        let blocks = if options.blocks == 0 { data_blocks } else { options.blocks };
        if blocks > data_blocks {
            return Err(bad("more blocks are offered than the data area has"));
        }
        let partition_blocks = options.partition_blocks;
        let log = 1;
        Ok(PaperLayout {
            log,
            log_blocks,
            tables,
            region,
            data,
            data_blocks,
            blocks,
            partition_blocks,
        })
    }

    /// The block after the last.
    pub fn end(&self) -> u32 {
        self.data + self.data_blocks
    }

    fn words(&self) -> [u32; 8] {
        [
            self.log,
            self.log_blocks,
            self.tables,
            self.region,
            self.data,
            self.data_blocks,
            self.blocks,
            self.partition_blocks,
        ]
    }

    /// The super block.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; BLOCK];
        out[..8].copy_from_slice(&MAGIC);
        for (i, word) in self.words().into_iter().enumerate() {
            put(&mut out, 8 + 4 * i, word);
        }
        let crc = crc32c(0, &out[..40]);
        put(&mut out, 40, crc);
        out
    }

    /// Reads a super block; none if it is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<PaperLayout> {
        if bytes[..8] != MAGIC || get(bytes, 40) != crc32c(0, &bytes[..40]) {
            return None;
        }
        let word = |i: usize| get(bytes, 8 + 4 * i);
        Some(PaperLayout {
            log: word(0),
            log_blocks: word(1),
            tables: word(2),
            region: word(3),
            data: word(4),
            data_blocks: word(5),
            blocks: word(6),
            partition_blocks: word(7),
        })
    }
}

fn put(out: &mut [u8], at: usize, word: u32) {
    out[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn pairs_into(out: &mut [u8], pairs: impl Iterator<Item = (u32, u32)>) {
    for (slot, (orig, trans)) in out.chunks_exact_mut(8).zip(pairs) {
        slot[..4].copy_from_slice(&orig.to_le_bytes());
        slot[4..].copy_from_slice(&trans.to_le_bytes());
    }
}

fn pairs_of(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    bytes.chunks_exact(8).map(|slot| (get(slot, 0), get(slot, 4)))
}

/// A log block: begin mark, at most [`PAIRS`] pairs, commit mark.
pub(super) fn transaction(pairs: &[(u32, u32)]) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    let marked = std::iter::once(BEGIN).chain(pairs.iter().copied()).chain([COMMIT]);
    pairs_into(&mut out, marked);
    out
}

/// What a block of the log says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogBlock {
    /// No transaction begins here: the log ends.
    None,
    /// A begin mark without a commit mark.
    Open,
    /// A whole transaction: its pairs.
    Whole(Vec<(u32, u32)>),
}

/// Reads a log block as the paper does: both marks, and nothing else is asked.
pub(super) fn parse_transaction(bytes: &[u8]) -> LogBlock {
    let mut words = pairs_of(bytes);
    if words.next() != Some(BEGIN) {
        return LogBlock::None;
    }
    let mut pairs = Vec::new();
    for pair in words {
        if pair == COMMIT {
            return LogBlock::Whole(pairs);
        }
        pairs.push(pair);
    }
    LogBlock::Open
}

/// A stored table: a block with the number of pairs, then the pairs.
pub(super) fn table(pairs: impl ExactSizeIterator<Item = (u32, u32)>) -> Vec<u8> {
    let count = pairs.len();
    let blocks = 1 + count.div_ceil(TABLE_PAIRS as usize);
    let mut out = vec![0; blocks * BLOCK];
    out[..8].copy_from_slice(&TABLE);
    put(&mut out, 8, count as u32);
    pairs_into(&mut out[BLOCK..], pairs);
    out
}

/// The number of pairs that the first block of a stored table announces, at most `most`.
pub(super) fn table_len(bytes: &[u8], most: u32) -> u32 {
    if bytes[..8] == TABLE { get(bytes, 8).min(most) } else { 0 }
}

/// The pairs of the other blocks.
pub(super) fn table_pairs(bytes: &[u8], count: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    pairs_of(bytes).take(count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_needs_both_marks() {
        let full: Vec<(u32, u32)> = (0..PAIRS).map(|n| (n, n + 9)).collect();
        for pairs in [&full[..], &full[..1], &[]] {
            assert_eq!(parse_transaction(&transaction(pairs)), LogBlock::Whole(pairs.to_vec()));
        }
        let mut block = transaction(&full);
        block[BLOCK - 8..].fill(0);
        assert_eq!(parse_transaction(&block), LogBlock::Open);
        block[..8].fill(0);
        assert_eq!(parse_transaction(&block), LogBlock::None);
    }

    #[test]
    fn a_layout_survives_its_block() {
        let layout = PaperLayout::plan(5000, &PaperOptions::default()).unwrap();
        assert_eq!(PaperLayout::decode(&layout.encode()), Some(layout));
        assert!(layout.log + layout.log_blocks <= layout.tables && layout.data > layout.tables);
        assert_eq!(layout.end(), 5000);
        assert!(PaperLayout::plan(5, &PaperOptions::default()).is_err());
        let mut torn = layout.encode();
        torn[12] ^= 1;
        assert_eq!(PaperLayout::decode(&torn), None);
    }
}
