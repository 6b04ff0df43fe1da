//! A write-back buffer in the host above whatever is measured: the control of a log that has one. What it holds
//! costs no time, as in the log.

use std::collections::{BTreeMap, VecDeque};

use block::Bytes;
use workload::{BLOCK_RECORDS, Record, Source, SourceError, TraceOp};

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// Blocks that are held back, the least recently written first.
pub(super) struct Held {
    /// How many there may be; 0: there is no buffer.
    pub(super) blocks: u32,
    when: BTreeMap<u64, u64>,
    at: BTreeMap<u64, u64>,
    writes: u64,
    /// Bytes written by the client.
    pub(super) taken: u64,
}

impl Held {
    pub(super) fn new(blocks: u32) -> Held {
        Held { blocks, when: BTreeMap::new(), at: BTreeMap::new(), writes: 0, taken: 0 }
    }

    /// A block is written: the one that leaves for it.
    fn write(&mut self, block: u64) -> Option<u64> {
        self.writes += 1;
        self.taken += BLOCK;
        if let Some(before) = self.at.insert(block, self.writes) {
            self.when.remove(&before);
        }
        self.when.insert(self.writes, block);
        if self.at.len() <= self.blocks as usize {
            return None;
        }
        let (_, oldest) = self.when.pop_first()?;
        self.at.remove(&oldest);
        Some(oldest)
    }
}

/// What of a load such a buffer lets through: writes of one block; reads as they are.
pub(super) struct Through<'a> {
    source: Box<dyn Source>,
    held: &'a mut Held,
    block: Vec<Record>,
    ready: VecDeque<Record>,
}

impl<'a> Through<'a> {
    pub(super) fn new(source: Box<dyn Source>, held: &'a mut Held) -> Through<'a> {
        Through { source, held, block: Vec::new(), ready: VecDeque::new() }
    }
}

impl Source for Through<'_> {
    fn fill(&mut self, out: &mut Vec<Record>) -> Result<(), SourceError> {
        out.clear();
        while self.ready.is_empty() {
            self.source.fill(&mut self.block)?;
            if self.block.is_empty() {
                return Ok(());
            }
            for record in &self.block {
                if record.op != TraceOp::Write {
                    self.ready.push_back(*record);
                    continue;
                }
                let first = record.offset.0 / BLOCK;
                for block in first..(record.offset.0 + record.len.0).div_ceil(BLOCK) {
                    let left = self.held.write(block).map(|old| Bytes(old * BLOCK));
                    let one = |offset| Record { offset, len: Bytes(BLOCK), ..*record };
                    self.ready.extend(left.map(one));
                }
            }
        }
        out.extend(self.ready.drain(..self.ready.len().min(BLOCK_RECORDS)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_again_in_time_is_let_through_once() {
        let mut held = Held::new(2);
        let left: Vec<Option<u64>> = [1, 2, 1, 3, 2, 1].map(|block| held.write(block)).to_vec();
        assert_eq!(left, [None, None, None, Some(2), Some(1), Some(3)]);
        assert_eq!(held.taken, 6 * BLOCK);
    }
}
