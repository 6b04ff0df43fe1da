//! What the paper leaves open, each a named option; the defaults are its literal reading, or the
//! least that makes it run.

use block::{Bytes, Span};

/// What decides to which partition a table entry belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionKey {
    /// The original address: a lookup asks one partition.
    Orig,
    /// The place, so that partitions fill one after another: a lookup asks all of them, newest
    /// first.
    Trans,
}

/// When the table learns of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// Before the write is submitted (paper 1, section III-B).
    Before,
    /// When its transaction is committed (section III-E): until then a process reads what was there
    /// before its own write.
    After,
}

/// What a flush does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushRule {
    /// It is passed down; the log is not touched.
    Pass,
    /// The open transaction is committed first.
    Commit,
}

/// What a discard does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimRule {
    /// Nothing: passed down with the original address it would take somebody else's data.
    Drop,
    /// Entries become invalid. No transaction says so.
    Invalidate,
}

/// What a read of an address without an entry gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmapped {
    /// Zeroes.
    Zeroes,
    /// What the device holds at that very address.
    Pass,
}

/// Pairs of one 4 KiB log block between its two marks, 8 B each.
pub const PAIRS: u32 = 510;

/// Options of paper mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaperOptions {
    /// 4 KiB blocks offered; 0: as many as the data area has.
    pub blocks: u32,
    /// 4 KiB blocks of the log; 0: one for each 510 blocks of the device, and two more.
    pub log_blocks: u32,
    /// Partitions of the table.
    pub partition: PartitionKey,
    /// 4 KiB blocks of one partition: 4 GiB in the paper. Tests want to meet several.
    pub partition_blocks: u32,
    /// When the table learns of a write.
    pub insert: Insert,
    /// Pairs that end a transaction: 1 to [`PAIRS`].
    pub commit_pairs: u32,
    /// Age that ends a transaction, seen by the next request.
    pub commit_after: Span,
    /// Cleaning begins below this free run, in percent of the data area.
    pub clean_below: u32,
    /// Blocks moved in one turn of cleaning.
    pub clean_moves: u32,
    /// What a flush does.
    pub flush: FlushRule,
    /// What a discard does.
    pub trim: TrimRule,
    /// What a read of nothing gives.
    pub unmapped: Unmapped,
    /// Above this much memory for nodes, whole partitions are stored and dropped; none: never.
    pub memory: Option<Bytes>,
    /// The device below keeps bytes; else requests and log have no payload, and nothing can be
    /// recovered.
    pub payload: bool,
}

impl Default for PaperOptions {
    fn default() -> PaperOptions {
        PaperOptions {
            blocks: 0,
            log_blocks: 0,
            partition: PartitionKey::Orig,
            partition_blocks: 1 << 20,
            insert: Insert::Before,
            commit_pairs: PAIRS,
            commit_after: Span::from_us(5_000_000),
            clean_below: 5,
            clean_moves: 256,
            flush: FlushRule::Pass,
            trim: TrimRule::Drop,
            unmapped: Unmapped::Zeroes,
            memory: None,
            payload: true,
        }
    }
}
