//! What a drive did: the numbers every result document is made of.

use block::{Op, Span, Time};
use nand::NandStats;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpStats {
    /// Requests.
    pub ops: u64,
    /// 4 KiB pages touched (whole pages only for discards).
    pub units: u64,
    /// Bytes asked for.
    pub bytes: u64,
}

/// Buffer accesses of one application, in 4 KiB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppStats {
    /// Pages read.
    pub read_units: u64,
    /// Of them found in the buffer.
    pub read_hits: u64,
    /// Pages written.
    pub write_units: u64,
    /// Of them found in the buffer.
    pub write_hits: u64,
    /// Read and write requests.
    pub requests: u64,
    /// Of them with every page found in the buffer.
    pub request_hits: u64,
}

/// Cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcStats {
    /// Lines collected.
    pub victims: u64,
    /// Of them for host writes: paced by these, or while one waited for space.
    pub foreground: u64,
    /// Of them when idle.
    pub background: u64,
    /// Slots copied.
    pub pages: u64,
    /// Of them for wear levelling.
    pub wl_pages: u64,
    /// Slots copied more than an unlocked victim would have needed (paper 4, Fig. 9).
    pub lock_pages: u64,
    /// Valid slots of all victims when chosen.
    pub valid_at_choice: u64,
    /// By how much cleaning put off the last program booked while host writes found no free line but
    /// the reserve: what they wait for by then, not how long each waited.
    pub stall: Span,
}

/// The demand-paged map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapStats {
    /// Look-ups answered by the cache.
    pub hits: u64,
    /// Look-ups of translation pages that are not in the cache; of them, those written before are read.
    pub misses: u64,
    /// Dirty translation pages evicted.
    pub dirty_evictions: u64,
    /// Translation pages programmed because evicted.
    pub evict_programs: u64,
    /// Translation pages programmed because cleaning moved data.
    pub gc_programs: u64,
    /// Translation pages programmed for a checkpoint.
    pub checkpoint_programs: u64,
}

/// The buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Entries the pool has.
    pub slots: u64,
    /// Dirty entries evicted (programmed).
    pub dirty_evictions: u64,
    /// Entries written with them only to complete a block.
    pub padded: u64,
    /// Clean entries evicted.
    pub clean_evictions: u64,
    /// Dirty entries programmed by a flush, which stay.
    pub flushed: u64,
    /// Most entries ever resident.
    pub peak: u64,
    /// Dirty entries now.
    pub dirty: u64,
    /// Partial 4 KiB pages at the head or tail of requests.
    pub partial_units: u64,
}

/// Hybrid FTL merges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    /// A log block became the data block.
    pub switch: u64,
    /// A log block was completed from the data block.
    pub partial: u64,
    /// A new data block was gathered from many.
    pub full: u64,
}

/// Power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryStats {
    /// Pages read.
    pub pages_read: u64,
    /// Virtual time from power-on to ready.
    pub time: Span,
    /// Lines scanned.
    pub lines: u64,
    /// A checkpoint was used.
    pub from_checkpoint: bool,
}

/// Everything a drive counts.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// By operation: read, write, flush, discard (index = `Op as usize`).
    pub host: [OpStats; 4],
    /// Pages read that were never written.
    pub read_unwritten: u64,
    /// Slots that the host's writes touched, parts counted as whole ones.
    pub write_slots: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Per application, by [`block::AppId`].
    pub apps: Vec<AppStats>,
    /// Buffer.
    pub buffer: BufferStats,
    /// Cleaning.
    pub gc: GcStats,
    /// Paged map.
    pub map: MapStats,
    /// Hybrid merges.
    pub merges: MergeStats,
    /// The last power-on.
    pub recovery: Option<RecoveryStats>,
    /// The array.
    pub nand: NandStats,
    /// Busy time of the link (down, up), firmware and DRAM.
    pub busy_link: [Span; 2],
    /// Busy time of all firmware cores.
    pub busy_fw: Span,
    /// Busy time of the DRAM port.
    pub busy_dram: Span,
    /// When nothing that is booked goes on any more: from the reset of the counters to here no
    /// busy time is longer.
    pub booked_until: Time,
    /// Erase counts of all good blocks: least, sum, most, number of blocks.
    pub wear: Wear,
    /// Blocks marked bad.
    pub bad_blocks: u64,
    /// Blocks in free lines now.
    pub free_blocks: u64,
    /// Slots holding current data now.
    pub valid_units: u64,
    /// Logical slots.
    pub logical_units: u64,
    /// Data slots: all but bad, metadata and reserve blocks.
    pub data_units: u64,
    /// Data slots less open heads and the mean free reserve: what closed forms take.
    pub effective_units: u64,
    /// Operations of the array so far, hashed.
    pub event_hash: u64,
}

/// Erase counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Least erased good block.
    pub min: u32,
    /// Most erased good block.
    pub max: u32,
    /// Sum over good blocks.
    pub sum: u64,
    /// Good blocks.
    pub blocks: u64,
    /// `histogram[i]` = good blocks with erase count in the i-th of at most 16 equal steps from
    /// min to max.
    pub histogram: Vec<u64>,
}

impl Stats {
    /// The counters of one operation.
    pub fn of(&self, op: Op) -> &OpStats {
        &self.host[op as usize]
    }
    /// Write amplification: bytes programmed, and bytes the host wrote. The buffer's effect, and
    /// what a mapping unit larger than a write costs, are in it.
    pub fn waf(&self) -> (u64, u64) {
        (self.programmed_bytes(), self.of(Op::Write).bytes)
    }
    /// Bytes of all slots programmed, for whatever cause.
    pub fn programmed_bytes(&self) -> u64 {
        self.nand.programs_total() * self.slot_bytes
    }
    /// Slots programmed for each slot that the host's writes touched: what the FTL alone adds,
    /// without what its unit costs smaller writes.
    pub fn programs_per_slot(&self) -> (u64, u64) {
        (self.nand.programs_total(), self.write_slots)
    }
    /// Slots programmed for each slot programmed for the host.
    pub fn waf_flash(&self) -> (u64, u64) {
        (self.nand.programs_total(), self.nand.programs[nand::Cause::Host as usize])
    }
}

/// Transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStats {
    /// Transactions begun, committed and aborted.
    pub begun: u64,
    /// Committed ones.
    pub committed: u64,
    /// Aborted ones.
    pub aborted: u64,
    /// Commits of several at once.
    pub together: u64,
    /// State records programmed.
    pub records: u64,
    /// Of them because a line to be erased proved a commit.
    pub records_gc: u64,
    /// Of them to commit several transactions.
    pub records_commit: u64,
    /// Pages written again while they were held: a program saved each.
    pub held_replaced: u64,
    /// Candidates for cleaning passed over because they were locked.
    pub skipped: u64,
    /// Locked lines collected all the same.
    pub locked_victims: u64,
    /// Times that every candidate was locked.
    pub blocked: u64,
    /// Pages that changed their names.
    pub remapped: u64,
    /// Remap records programmed.
    pub remap_records: u64,
    /// Aborted or crashed transactions with pages on flash now.
    pub losers: u64,
}
