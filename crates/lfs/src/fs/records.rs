//! What a crash left in the journal.
//!
//! | what | promise |
//! | --- | --- |
//! | order | that of the slots, which is that of cleaning; each has the moves of a victim, and its summary as of the checkpoint |
//! | life | from the mount that reads them to its checkpoint |

use crate::format::Summary;
use crate::scj::Move;
use crate::{BlockAddr, SegNo};

/// See above.
#[derive(Default)]
pub(super) struct Records {
    moves: Vec<Vec<Move>>,
    summaries: Vec<Summary>,
}

impl Records {
    /// The next one.
    pub fn push(&mut self, moves: Vec<Move>, summary: Summary) {
        self.moves.push(moves);
        self.summaries.push(summary);
    }
    /// The moves of each, in order.
    pub fn moves(&self) -> impl Iterator<Item = &[Move]> {
        self.moves.iter().map(Vec::as_slice)
    }
    /// The victim's summary in one of them.
    pub fn summary(&self, of: usize) -> &Summary {
        &self.summaries[of]
    }
    /// Victims, by what `place` says of their first block; none of a record without moves.
    pub fn victims(&self, place: impl Fn(BlockAddr) -> Option<SegNo>) -> Vec<Option<SegNo>> {
        let first = |moves: &Vec<Move>| moves.first().and_then(|step| place(step.old));
        self.moves.iter().map(first).collect()
    }
    /// Where a block lies that lay there when so many of them were written.
    pub fn follow(&self, addr: BlockAddr, from: usize) -> BlockAddr {
        self.moves.iter().skip(from).fold(addr, |addr, moves| {
            moves.iter().find(|step| step.old == addr).map_or(addr, |step| step.new)
        })
    }
}
