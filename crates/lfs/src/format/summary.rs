//! Segment summaries: whose each block of a segment is; and the journals they carry in a pack.

use super::{Block, NatEntry, SitEntry, array, put_u16, put_u32, u16_at, u32_at, zeroed};
use crate::{Nid, SegNo};

/// Entries of a summary block.
pub const SUM_ENTRIES: usize = 512;
const ENTRY_BYTES: usize = 7;
const JOURNAL_AT: usize = SUM_ENTRIES * ENTRY_BYTES;
/// Bytes of a journal.
pub const JOURNAL_BYTES: usize = 507;
const KIND_AT: usize = JOURNAL_AT + JOURNAL_BYTES;
const NAT_MOST: usize = 38;
const SIT_MOST: usize = 6;

/// Whose one block is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Origin {
    /// A data block's parent node, or a node's own number.
    pub nid: Nid,
    /// The parent's version in the NAT (0 for a node).
    pub version: u8,
    /// Which pointer of the parent (0 for a node).
    pub slot: u16,
}

impl Origin {
    fn read(bytes: &[u8]) -> Origin {
        Origin { nid: Nid(u32_at(bytes, 0)), version: bytes[4], slot: u16_at(bytes, 5) }
    }

    fn write(self, bytes: &mut [u8]) {
        put_u32(bytes, 0, self.nid.0);
        bytes[4] = self.version;
        put_u16(bytes, 5, self.slot);
    }
}

/// Changes that did not go to their table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Journal {
    /// None.
    #[default]
    Empty,
    /// Node addresses.
    Nat(Vec<(Nid, NatEntry)>),
    /// Segment entries.
    Sit(Vec<(SegNo, SitEntry)>),
}

impl Journal {
    /// Reads node addresses.
    pub fn nat(bytes: &[u8]) -> Vec<(Nid, NatEntry)> {
        let count = usize::from(u16_at(bytes, 0)).min(NAT_MOST);
        let at = |i| 2 + i * (4 + NatEntry::BYTES);
        (0..count)
            .map(|i| (Nid(u32_at(bytes, at(i))), NatEntry::read(&bytes[at(i) + 4..])))
            .collect()
    }

    /// Reads segment entries.
    pub fn sit(bytes: &[u8]) -> Vec<(SegNo, SitEntry)> {
        let count = usize::from(u16_at(bytes, 0)).min(SIT_MOST);
        let at = |i| 2 + i * (4 + SitEntry::BYTES);
        (0..count)
            .map(|i| (SegNo(u32_at(bytes, at(i))), SitEntry::read(&bytes[at(i) + 4..])))
            .collect()
    }

    /// Writes it. Entries beyond what fits (38 of nodes, 6 of segments) are a bug of the caller.
    pub fn write(&self, bytes: &mut [u8]) {
        let count = match self {
            Journal::Empty => 0,
            Journal::Nat(entries) => {
                assert!(entries.len() <= NAT_MOST, "{} entries", entries.len());
                for (i, (nid, entry)) in entries.iter().enumerate() {
                    let at = 2 + i * (4 + NatEntry::BYTES);
                    put_u32(bytes, at, nid.0);
                    entry.write(&mut bytes[at + 4..]);
                }
                entries.len()
            }
            Journal::Sit(entries) => {
                assert!(entries.len() <= SIT_MOST, "{} entries", entries.len());
                for (i, (seg, entry)) in entries.iter().enumerate() {
                    let at = 2 + i * (4 + SitEntry::BYTES);
                    put_u32(bytes, at, seg.0);
                    entry.write(&mut bytes[at + 4..]);
                }
                entries.len()
            }
        };
        put_u16(bytes, 0, count as u16);
    }
}

/// A summary block, journal aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// One entry for each block of the segment.
    pub origins: Box<[Origin; SUM_ENTRIES]>,
    /// Its blocks are nodes.
    pub nodes: bool,
}

impl Summary {
    /// One without entries.
    pub fn new(nodes: bool) -> Summary {
        Summary { origins: Box::new([Origin::default(); SUM_ENTRIES]), nodes }
    }

    /// Reads a summary block.
    pub fn decode(block: &Block) -> Summary {
        let origins = std::array::from_fn(|i| Origin::read(&block[i * ENTRY_BYTES..]));
        Summary { origins: Box::new(origins), nodes: block[KIND_AT] & 1 == 1 }
    }

    /// The journal of a summary block of a pack.
    pub fn journal(block: &Block) -> &[u8] {
        &block[JOURNAL_AT..KIND_AT]
    }

    /// Writes a summary block with a journal.
    pub fn encode(&self, journal: &Journal) -> Box<Block> {
        let mut block = zeroed();
        for (i, origin) in self.origins.iter().enumerate() {
            origin.write(&mut block[i * ENTRY_BYTES..]);
        }
        journal.write(&mut block[JOURNAL_AT..KIND_AT]);
        block[KIND_AT] = u8::from(self.nodes);
        block
    }
}

/// Reads compact summaries: both journals, then the entries of the three data logs, one after the
/// other; each block keeps its last five bytes free.
pub struct CompactReader<'a> {
    blocks: &'a [Box<Block>],
    at: usize,
}

impl<'a> CompactReader<'a> {
    /// A reader of so many blocks of a pack.
    pub fn new(blocks: &'a [Box<Block>]) -> CompactReader<'a> {
        CompactReader { blocks, at: 2 * JOURNAL_BYTES }
    }

    /// The journals: nodes, segments.
    pub fn journals(&self) -> Option<(&'a [u8], &'a [u8])> {
        let first = self.blocks.first()?;
        Some((&first[..JOURNAL_BYTES], &first[JOURNAL_BYTES..2 * JOURNAL_BYTES]))
    }

    /// The next entry; none beyond the last block.
    pub fn entry(&mut self) -> Option<Origin> {
        if self.at + ENTRY_BYTES > super::BLOCK_BYTES - 5 {
            self.blocks = self.blocks.get(1..)?;
            self.at = 0;
        }
        let bytes: [u8; ENTRY_BYTES] = array(&self.blocks.first()?[..], self.at);
        self.at += ENTRY_BYTES;
        Some(Origin::read(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many entries as a block has room for behind the journals, or from its beginning, and the next block after that.
    #[test]
    fn compact_entries_leave_the_last_bytes_of_a_block() {
        let first = (super::super::BLOCK_BYTES - 5 - 2 * JOURNAL_BYTES) / ENTRY_BYTES;
        let others = (super::super::BLOCK_BYTES - 5) / ENTRY_BYTES;
        let origin = |i: usize| Origin { nid: Nid(i as u32), version: i as u8, slot: i as u16 };
        let mut blocks = Vec::new();
        let mut next = 0;
        for (from, count) in [(2 * JOURNAL_BYTES, first), (0, others), (0, others)] {
            // What no entry may be read from.
            let mut block = Box::new([0xEE; super::super::BLOCK_BYTES]);
            for at in (from..).step_by(ENTRY_BYTES).take(count) {
                origin(next).write(&mut block[at..]);
                next += 1;
            }
            blocks.push(block);
        }
        let mut reader = CompactReader::new(&blocks);
        for i in 0..next {
            assert_eq!(reader.entry(), Some(origin(i)), "{i} of {next}");
        }
        assert_eq!(reader.entry(), None);
    }
}
