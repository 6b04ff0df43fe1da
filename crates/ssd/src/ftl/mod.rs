//! The page-mapped flash translation layer.
//!
//! State: `map` (slot -> place, always the newest version), one valid bit per physical slot, the
//! line table, the heads with the pages they are assembling, and the lines that wait for their
//! erase. Invariants, checked by [`PageFtl::check`]:
//! * `map[s] = p` exactly if the valid bit of p is set and the record beside p names s;
//! * a line's `valid` is the number of its valid bits;
//! * a line is erased only when every program that superseded or copied a slot of it, and every
//!   trim that did, is on flash.

mod bad;
mod check;
mod checkpoint;
mod clock;
mod discard;
mod doubles;
mod erase;
mod erases;
mod free;
mod gc;
mod head;
mod heads;
mod heat;
mod host;
mod known;
mod lifetime;
mod lines;
mod map;
mod paged;
mod recovery;
mod spares;
mod staging;
pub(crate) mod trim;
pub(crate) mod tx;
pub(crate) mod victim;

pub(crate) use checkpoint::area_lines as checkpoint_area_lines;
pub(crate) use free::FreeLines;
pub(crate) use head::erase_padding;
pub(crate) use host::{POISON, SlotData, Writer, merge_pieces};
pub use known::Known;
pub(crate) use staging::first_to_end;
pub use victim::{
    Choice, ClosedLine, Victim, VictimInfo, VictimSpec, add_victim, replace_victim, victims,
};

use std::sync::Arc;

use block::{BlockId, DeviceError, Plant, Ppn, Time};
use nand::{Geometry, Nand, NandError};

use crate::config::{FtlKind, LineBudget, OobMode, Params, Streams};
use crate::stats::{GcStats, MapStats, RecoveryStats};
use crate::{Bug, Violation};
use clock::Clock;
use erases::Erases;
use gc::Cleaner;
use heads::Heads;
use heat::Heat;
use lifetime::Lifetime;
use lines::{LineTable, NONE};
use map::SlotMap;
use paged::PagedMap;
use spares::Spares;
use staging::Staging;
use trim::Trims;

/// Open lines a configuration needs at once.
pub(crate) fn head_count(p: &Params) -> u32 {
    if p.ftl == FtlKind::HybridLog {
        return 2;
    }
    host_streams(p) + cleaning_heads(p) + u32::from(p.map.cache.is_some())
}

/// Heads that only cleaning writes through.
fn cleaning_heads(p: &Params) -> u32 {
    match p.streams {
        Streams::Single => 0,
        Streams::Lifetime => lifetime::CLEANING,
        _ if p.gc.per_stream => host_streams(p),
        _ => 1,
    }
}

fn host_streams(p: &Params) -> u32 {
    match p.streams {
        Streams::Single | Streams::UserGc => 1,
        Streams::Lifetime => lifetime::HOST,
        _ => p.stream_count,
    }
}

/// Free lines only cleaning may use.
pub(crate) fn gc_reserve(p: &Params) -> u32 {
    let least = least_reserve(p).iter().map(|part| part.0).sum();
    if p.gc.reserve > 0 {
        return p.gc.reserve.max(least);
    }
    // A line for each head, in the least there can be or beside it.
    head_count(p) + least - (collected_into(p) - 1)
}

/// Lines that the copies of one victim may open: its slots go to any head of cleaning, and each of
/// these may have come to the end of its line.
fn collected_into(p: &Params) -> u32 {
    cleaning_heads(p).max(1)
}

/// The least reserve there can be, part by part.
fn least_reserve(p: &Params) -> [(u32, &'static str); 4] {
    [
        (collected_into(p), "to collect into"),
        (1, "for discards that must be on flash before an erase"),
        // Moving one victim of a paged map can rewrite a translation page for each of its slots.
        (
            if p.map.cache.is_some() { p.geometry.slots_per_page + 1 } else { 0 },
            "for translation pages that a victim rewrites",
        ),
        // What a commit programs while nothing may be cleaned, and state records before erases.
        (u32::from(p.tx.is_some()), "for commits while nothing may be cleaned"),
    ]
}

/// What the reserve consists of, for people.
pub(crate) fn reserve_parts(p: &Params) -> Vec<String> {
    let least = least_reserve(p);
    let sum: u32 = least.iter().map(|part| part.0).sum();
    let mut parts: Vec<String> =
        least.iter().filter(|part| part.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
    match gc_reserve(p) - sum {
        0 => {}
        n if p.gc.reserve > 0 => parts.push(format!("{n} more by gc.reserve")),
        n => parts.push(format!("{n} for heads that fill up meanwhile")),
    }
    parts
}

/// Slots that an erase may cost: completing what it relies on, and a state record.
pub(crate) fn erase_cost(p: &Params) -> u32 {
    head_count(p) * erase_padding(p) + u32::from(p.tx.is_some())
}

/// How the lines of a drive are spent: on its logical slots when every line holds as much as an
/// erase is sure to gain, on its heads, and on the reserve.
pub(crate) fn line_budget(p: &Params) -> LineBudget {
    let g = &p.geometry;
    let rows = g.blocks_per_plane * p.groups.len() as u32;
    let line = g.slots() / rows;
    let padded = erase_cost(p);
    let logical = p.logical_pages / (g.slot_bytes / 4096);
    let tx = p.tx.as_ref().map_or(0, |tx| tx::slots_needed(tx, logical));
    let kept = logical + trim::record_slots(logical) + tx;
    LineBudget {
        lines: p.lines(),
        metadata: metadata_line_count(p),
        logical: kept.div_ceil(line.saturating_sub(padded).max(1)),
        heads: head_count(p),
        reserve: gc_reserve(p),
    }
}

/// Whether the lines there are suffice.
pub(crate) fn lines_fit(p: &Params) -> bool {
    let budget = line_budget(p);
    budget.needed() <= budget.usable()
}

/// Lines set apart for checkpoints.
pub(crate) fn metadata_line_count(p: &Params) -> u32 {
    if p.checkpoint.interval_slots.is_none() {
        return 0;
    }
    let g = &p.geometry;
    let rows = u64::from(g.blocks_per_plane - p.bad.reserve_per_plane);
    let lines = rows * p.groups.len() as u64;
    let logical = u64::from(p.logical_pages) * 4096 / u64::from(g.slot_bytes);
    let area = checkpoint_area_lines(
        p.map.cache.is_some(),
        logical,
        lines,
        rows * u64::from(g.planes()),
        u64::from(g.page_bytes),
        u64::from(g.slot_bytes),
        u64::from(g.slots()) / u64::from(g.blocks_per_plane) / p.groups.len() as u64,
    );
    2 * area as u32
}

/// The FTL.
#[derive(Clone, Debug)]
pub(crate) struct PageFtl {
    pub(crate) p: Arc<Params>,
    pub(crate) g: Geometry,
    pub(crate) nand: Nand,
    map: SlotMap,
    lines: LineTable,
    free: FreeLines,
    heads: Heads,
    clock: Clock,
    cleaner: Cleaner,
    thresholds: gc::Thresholds,
    erases: Erases,
    trims: Trims,
    paged: Option<PagedMap>,
    checkpoint: Option<checkpoint::State>,
    /// Transactions, if the drive has them.
    tx: Option<Box<tx::Tx>>,
    spares: Spares,
    heat: Heat,
    lifetime: Lifetime,
    known: known::Oracle,
    reading: host::ReadBatch,
    now: Time,
    staging: Staging,
    full: bool,
    pub(crate) read_only: Option<&'static str>,
    pub(crate) map_stats: MapStats,
    pub(crate) recovery: Option<RecoveryStats>,
    pub(crate) bug: Plant<Bug>,
}

impl PageFtl {
    /// A factory-fresh drive over `nand`.
    pub fn new(p: &Arc<Params>, nand: Nand) -> PageFtl {
        let mut ftl = PageFtl::bare(p, nand);
        ftl.adopt_blocks();
        let meta = metadata_line_count(p);
        for line in 0..ftl.lines.len() {
            if line < meta {
                ftl.lines.set_apart(line);
            } else if ftl.lines.capacity(line) == 0 {
                ftl.lines.retire(line);
            } else {
                ftl.release(line);
            }
        }
        if p.checkpoint.interval_slots.is_some() {
            ftl.checkpoint = Some(checkpoint::State::fresh(meta));
        }
        ftl.check_space();
        ftl
    }

    /// All tables empty, no line in any list.
    fn bare(p: &Arc<Params>, nand: Nand) -> PageFtl {
        let g = p.geometry.clone();
        let rows = g.blocks_per_plane - p.bad.reserve_per_plane;
        let lines = LineTable::new(&g, &p.groups, rows);
        let slots = (p.logical_pages / (g.slot_bytes / 4096)) as usize;
        PageFtl {
            map: SlotMap::new(slots, g.slots() as usize),
            free: FreeLines::new(lines.len()),
            heads: Heads::new(p),
            clock: Clock::default(),
            cleaner: Cleaner::new(p, lines.len()),
            thresholds: gc::Thresholds::of(p),
            erases: Erases::default(),
            trims: Trims::default(),
            paged: p.map.cache.map(|cache| PagedMap::new(&g, slots as u32, cache, p.map.lru)),
            checkpoint: None,
            tx: p.tx.as_ref().map(|tx| Box::new(tx::Tx::new(tx, lines.len()))),
            spares: Spares::new(g.planes()),
            heat: Heat::new(p.streams, slots),
            lifetime: Lifetime::new(p, slots, lines.full_slots()),
            known: known::Oracle::default(),
            reading: host::ReadBatch::default(),
            now: Time::ZERO,
            staging: Staging::new(p.buffer.staging),
            full: p.oob == OobMode::Full,
            read_only: None,
            map_stats: MapStats::default(),
            recovery: None,
            bug: Plant::default(),
            p: Arc::clone(p),
            lines,
            nand,
            g,
        }
    }

    /// The time of the request being served.
    pub fn set_now(&mut self, now: Time) -> Result<(), DeviceError> {
        self.now = now;
        self.staging.begin();
        self.nand.set_now(now);
        if !self.erases.is_empty() { self.settle_erases(now) } else { Ok(()) }
    }

    /// Logical slots.
    pub fn slots(&self) -> u32 {
        self.map.len() as u32
    }
    /// Slots holding current data.
    pub fn valid_slots(&self) -> u64 {
        self.map.valid_total()
    }
    /// Slots of a block holding current data.
    pub fn valid_in(&self, block: BlockId) -> u32 {
        let first = self.g.ppn(block, 0).0;
        let slots = first..first + self.g.slots_per_block();
        slots.filter(|slot| self.is_valid(Ppn(*slot))).count() as u32
    }
    /// Free lines' blocks.
    pub fn free_blocks(&self) -> u64 {
        u64::from(self.free.count()) * self.lines.members(0).len() as u64
    }
    /// Blocks marked bad.
    pub fn bad_blocks(&self) -> u64 {
        self.spares.bad()
    }
    /// Slots of all data lines on good blocks.
    pub fn data_slots(&self) -> u64 {
        self.lines.data_slots()
    }
    /// Data slots less what open heads have not yet filled and the mean of free lines: what the
    /// closed forms of write amplification take as physical space.
    pub fn effective_slots(&self) -> u64 {
        let line = u128::from(self.lines.full_slots());
        let free = self.cleaner.mean_free_slots(line);
        let free = free.unwrap_or_else(|| u128::from(self.unused_lines()) * line);
        // A head's line is half filled on average.
        let heads = line * self.heads.lines().count() as u128 / 2;
        let free = free + heads;
        self.data_slots().saturating_sub(free as u64)
    }
    /// Lines that hold nothing: free ones, and those that power-on found so.
    fn unused_lines(&self) -> u32 {
        self.free.count() + self.erases.left_from_power_on()
    }
    /// Restarts the counters; the state stays.
    pub fn reset_stats(&mut self) {
        self.cleaner.reset_stats();
        self.map_stats = MapStats::default();
        if let Some(tx) = &mut self.tx {
            tx.clear_stats();
        }
        self.nand.reset_stats();
    }

    #[inline(always)]
    fn is_valid(&self, ppn: Ppn) -> bool {
        self.map.is_valid(ppn)
    }
    #[inline(always)]
    fn set_valid(&mut self, ppn: Ppn, line: u32) {
        self.map.mark(ppn);
        self.lines.add_valid(line);
    }
    #[inline(always)]
    fn clear_valid(&mut self, ppn: Ppn) {
        self.map.unmark(ppn);
        self.lines.drop_valid(self.lines.line_of(self.g.block_of(ppn)));
    }

    /// Puts a line whose blocks are all erased on the free list.
    fn release(&mut self, line: u32) {
        let erases = if self.p.wear.dynamic { self.line_erases(line) } else { 0 };
        self.lines.empty(line);
        self.free.add(line, erases);
    }

    fn line_erases(&self, line: u32) -> u32 {
        let members = self.lines.members(line).iter().filter(|m| **m != NONE);
        members.map(|m| self.nand.erases(block::BlockId(*m))).max().unwrap_or(0)
    }

    /// The error a failed array operation means to the host.
    fn power(error: NandError) -> DeviceError {
        match error {
            NandError::PowerOff => DeviceError::PowerOff,
            NandError::ProgramFailed(..) | NandError::EraseFailed(..) => {
                DeviceError::ReadOnly("an operation failed where no spare block is left")
            }
        }
    }

    fn has_bug(&self, bug: Bug) -> bool {
        self.bug.has(bug)
    }

    /// Counters of cleaning.
    pub fn gc_stats(&self) -> GcStats {
        self.cleaner.stats()
    }

    fn violation(contract: &'static str, what: String) -> Violation {
        Violation { contract, what }
    }
}
