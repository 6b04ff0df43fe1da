//! What paper mode counts.

use block::Bytes;

/// Counts since power-on; writes in 4 KiB blocks. `backing` is the sum of the five kinds, exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PaperStats {
    /// Blocks written to the device below.
    pub backing: u64,
    /// Blocks of the host's writes.
    pub user: u64,
    /// Log blocks, those that remove a log too.
    pub log: u64,
    /// Blocks of stored tables.
    pub tables: u64,
    /// Blocks moved into holes.
    pub moved: u64,
    /// The super block.
    pub supers: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Turns of cleaning.
    pub turns: u64,
    /// Of them turns that found nothing to move.
    pub idle_turns: u64,
    /// Trees asked by lookups.
    pub probes: u64,
    /// Partitions stored because of the memory cap.
    pub evictions: u64,
    /// Partitions brought back.
    pub loads: u64,
    /// Blocks read for that.
    pub load_blocks: u64,
    /// Discarded blocks that nothing was done for.
    pub dropped_trims: u64,
    /// Pairs of the log or of stored tables that name a place or address that does not exist.
    pub wild_pairs: u64,
}

impl PaperStats {
    /// What one of the paper's nodes takes in memory: two addresses and a flag are 12 B, which is
    /// what "3 MB per GB" means; a node of a red-black tree with them has at least 41 B, and an
    /// allocator gives it 64 (measured 2026-11).
    pub const NODE: Bytes = Bytes(64);

    /// Whether every block written is accounted for.
    pub fn adds_up(&self) -> bool {
        self.backing == self.user + self.log + self.tables + self.moved + self.supers
    }
}
