//! The hybrid flash translation layer: a block map, and a pool of log blocks for what is written
//! before a block is rewritten as a whole.
//!
//! *Blocks* are lines here (super-blocks), so that the pages of a data block stripe over dies. The
//! logical space is cut into logical blocks of a line's size. Every host write goes to a log
//! block; data blocks come of merges:
//! * *switch*: a log block that holds a whole logical block in order becomes its data block;
//! * *partial*: a log block that holds the beginning of one in order is completed;
//! * *full*: the newest versions of a logical block are gathered in a fresh line.
//!
//! Associativity `block` (BAST; Kim et al. 2002): a log block belongs to one logical block; the
//! one written least recently is merged when another is needed. `full` (FAST; Lee et al. 2007):
//! one log block takes writes that begin a logical block and go on in order, all others share the
//! remaining log blocks, which are merged in the order in which they were opened.
//!
//! `map` names the newest place of each slot. A drive has this knowledge in two smaller tables
//! (data line of each logical block; what each log page holds); [`HybridFtl::check`] proves that
//! it could: a mapped slot lies at its own offset in its data line, or in a log line.

mod append;
mod check;
mod erase;
mod host;
mod lines;
mod merge;
mod recovery;
mod trim;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use block::{DeviceError, Plant, Ppn, Span, Time};
use nand::{Geometry, Nand, NandError, Ticket};

use crate::Bug;
use crate::config::{OobMode, Params};
use crate::ftl::FreeLines;
use crate::stats::{GcStats, MergeStats, RecoveryStats};
use lines::{Layout, Line, NONE, Role};

/// Lines beyond data and log blocks: those merges write to while the ones they empty wait until
/// their erase is safe.
const SPARE: u32 = 4;
/// Lines for records of discards: one in use, one being replaced.
const RECORDS: u32 = 2;

/// Slots of a line.
fn line_slots(p: &Params) -> u32 {
    p.geometry.slots() / p.geometry.blocks_per_plane / p.groups.len() as u32
}

/// Logical slots.
fn logical_slots(p: &Params) -> u32 {
    p.logical_pages / (p.geometry.slot_bytes / 4096)
}

fn line_count(p: &Params) -> u32 {
    (p.geometry.blocks_per_plane - p.bad.reserve_per_plane) * p.groups.len() as u32
}

/// Log blocks a configuration asks for: full associativity needs two.
fn log_lines(p: &Params) -> u32 {
    let share = (u64::from(line_count(p)) * p.hybrid.log_ppm).div_ceil(1_000_000) as u32;
    share.max(if p.hybrid.full_assoc { 2 } else { 1 })
}

/// Lines a drive needs: its logical blocks, log blocks, records and room to merge.
pub(crate) fn lines_needed(p: &Params) -> (u32, u32, u32) {
    (logical_slots(p).div_ceil(line_slots(p)), log_lines(p), SPARE + RECORDS)
}

/// Bytes of the tables a drive with this FTL keeps: a data line for each logical block, and the
/// logical number of each slot of the log blocks, 4 bytes each. `blocks` = (logical, log) lines.
pub(crate) fn map_bytes(logical_slots: u64, line_slots: u64, log_lines: u64) -> u64 {
    4 * (logical_slots.div_ceil(line_slots.max(1)) + log_lines * line_slots)
}

/// The FTL.
#[derive(Clone, Debug)]
pub(crate) struct HybridFtl {
    p: Arc<Params>,
    g: Geometry,
    pub(crate) nand: Nand,
    layout: Layout,
    lines: Vec<Line>,
    map: Vec<u32>,
    mapped_total: u64,
    /// Whole records only: the number of the newest version of each slot. A place that holds
    /// another version (a misdirected program) holds none.
    newest: Vec<u64>,
    /// The data line of each logical block.
    data_of: Vec<u32>,
    /// Block associativity: the log line of each logical block that can still be appended to.
    log_of: Vec<u32>,
    /// All log lines, in the order in which they were opened.
    logs: Vec<u32>,
    log_limit: u32,
    /// Full associativity: the log line for writes in order, and the shared one being filled.
    sw: u32,
    rw: u32,
    trims: trim::Trims,
    free: FreeLines,
    waiting: VecDeque<erase::Waiting>,
    /// Lines that lost their last current slot.
    empties: Vec<u32>,
    hurt: Vec<u32>,
    /// Assemblies not yet programmed, by number.
    open_assemblies: BTreeMap<u64, u32>,
    assemblies: u64,
    spares: Vec<Vec<u32>>,
    seq: u64,
    epoch: u64,
    clock: u64,
    reading: host::Gather,
    now: Time,
    /// Lines the request being served has appended to, and the programs it has booked.
    touched: Vec<u32>,
    booked: Vec<Ticket>,
    /// Programs of host data in flight, oldest first.
    staged: VecDeque<Ticket>,
    full: bool,
    pub(crate) read_only: Option<&'static str>,
    bad_blocks: u64,
    pub(crate) gc_stats: GcStats,
    pub(crate) merge_stats: MergeStats,
    pub(crate) recovery: Option<RecoveryStats>,
    free_sum: u128,
    free_samples: u64,
    pub(crate) bug: Plant<Bug>,
}

impl HybridFtl {
    /// A factory-fresh drive over `nand`.
    pub fn new(p: &Arc<Params>, nand: Nand) -> HybridFtl {
        let mut ftl = HybridFtl::bare(p, nand);
        ftl.adopt_blocks();
        for line in 0..ftl.layout.len() {
            if ftl.lines[line as usize].role == Role::Erasing {
                ftl.release(line);
            }
        }
        ftl.check_space();
        ftl
    }

    /// All tables empty, every line waiting to be told what it is.
    fn bare(p: &Arc<Params>, nand: Nand) -> HybridFtl {
        let g = p.geometry.clone();
        let rows = g.blocks_per_plane - p.bad.reserve_per_plane;
        let word = if p.timing.one_shot { p.timing.cell_bits } else { 1 };
        let layout = Layout::new(&g, &p.groups, rows, word);
        let (blocks, log_limit, _) = lines_needed(p);
        HybridFtl {
            lines: vec![Line::fresh(Role::Erasing); layout.len() as usize],
            map: vec![0; logical_slots(p) as usize],
            mapped_total: 0,
            newest: vec![0; if p.oob == OobMode::Full { logical_slots(p) as usize } else { 0 }],
            data_of: vec![NONE; blocks as usize],
            log_of: vec![NONE; if p.hybrid.full_assoc { 0 } else { blocks as usize }],
            logs: Vec::new(),
            log_limit,
            sw: NONE,
            rw: NONE,
            trims: trim::Trims::default(),
            free: FreeLines::new(layout.len()),
            waiting: VecDeque::new(),
            empties: Vec::new(),
            hurt: Vec::new(),
            open_assemblies: BTreeMap::new(),
            assemblies: 0,
            spares: vec![Vec::new(); g.planes() as usize],
            seq: 0,
            epoch: 0,
            clock: 0,
            reading: host::Gather::default(),
            now: Time::ZERO,
            touched: Vec::new(),
            booked: Vec::new(),
            staged: VecDeque::new(),
            full: p.oob == OobMode::Full,
            read_only: None,
            bad_blocks: 0,
            gc_stats: GcStats::default(),
            merge_stats: MergeStats::default(),
            recovery: None,
            free_sum: 0,
            free_samples: 0,
            bug: Plant::default(),
            p: Arc::clone(p),
            layout,
            nand,
            g,
        }
    }

    /// The time of the request being served.
    pub fn set_now(&mut self, now: Time) -> Result<(), DeviceError> {
        self.now = now;
        self.booked.clear();
        self.touched.clear();
        self.nand.set_now(now);
        if self.waiting.is_empty() { Ok(()) } else { self.settle_erases(now) }
    }

    /// Logical slots.
    pub fn slots(&self) -> u32 {
        self.map.len() as u32
    }
    /// Slots holding current data.
    pub fn valid_slots(&self) -> u64 {
        self.mapped_total
    }
    /// Blocks of free lines.
    pub fn free_blocks(&self) -> u64 {
        u64::from(self.free.count()) * self.layout.members(0).len() as u64
    }
    /// Blocks marked bad.
    pub fn bad_blocks(&self) -> u64 {
        self.bad_blocks
    }
    /// Slots of all usable lines.
    pub fn data_slots(&self) -> u64 {
        u64::from(self.usable_lines()) * u64::from(self.layout.slots)
    }
    fn usable_lines(&self) -> u32 {
        self.lines.iter().filter(|l| l.role != Role::Retired).count() as u32
    }
    /// Data slots less the mean of free lines.
    pub fn effective_slots(&self) -> u64 {
        let line = u128::from(self.layout.slots);
        let free = if self.free_samples == 0 {
            u128::from(self.free.count()) * line
        } else {
            self.free_sum * line / u128::from(self.free_samples)
        };
        self.data_slots().saturating_sub(free as u64)
    }
    /// Copies merges have ordered since the counters were reset.
    pub fn copies_ordered(&self) -> u64 {
        self.gc_stats.pages
    }
    /// Copies that have a place but are not yet programmed: none, a merge programs all of its own.
    pub fn copies_assembled(&self) -> u64 {
        0
    }
    /// Restarts the counters; the state stays.
    pub fn reset_stats(&mut self) {
        self.gc_stats = GcStats::default();
        self.merge_stats = MergeStats::default();
        self.free_sum = 0;
        self.free_samples = 0;
        self.nand.reset_stats();
    }

    /// The logical block of a slot and the offset in it.
    fn split(&self, slot: u32) -> (u32, u32) {
        (slot / self.layout.slots, slot % self.layout.slots)
    }
    /// Slots of a logical block: the last may be shorter.
    fn block_len(&self, owner: u32) -> u32 {
        (self.slots() - owner * self.layout.slots).min(self.layout.slots)
    }

    /// A place stops being current.
    fn clear_valid(&mut self, at: Ppn) {
        let line = self.layout.line_of(self.g.block_of(at));
        let entry = &mut self.lines[line as usize];
        debug_assert!(entry.valid > 0, "line {line} has no current slot to lose");
        entry.valid -= 1;
        self.mapped_total -= 1;
        if entry.valid == 0 && !entry.open {
            self.empties.push(line);
        }
    }

    /// Counters of merges, as cleaning.
    pub fn gc_stats(&self) -> crate::stats::GcStats {
        self.gc_stats
    }

    fn has_bug(&self, bug: Bug) -> bool {
        self.bug.has(bug)
    }

    fn stall(&mut self, span: Span) {
        self.gc_stats.stall += span;
    }
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
