//! The checked parameters a drive is built from. No text, no units to parse, no contradictions.

use crate::buffer::{BufferShape, PolicySpec};
use crate::ftl::VictimSpec;
use block::{Bytes, Span};
use nand::{Geometry, Timing};

/// Parameters of a drive.
#[derive(Clone, Debug)]
pub struct Params {
    /// Shape of the array; its slot is the mapping unit, or the page where the unit is larger.
    pub geometry: Geometry,
    /// Times of the array.
    pub timing: Timing,
    /// Planes of a die program and read together.
    pub multi_plane: bool,
    /// Keep whole records: needed for cuts and recovery.
    pub oob: OobMode,
    /// 4 KiB pages of the logical space.
    pub logical_pages: u32,
    /// 4 KiB pages in a mapping unit.
    pub unit_pages: u32,
    /// Over-provisioning in parts per million of the logical pages.
    pub op_ppm: u64,
    /// Host link.
    pub link: LinkParams,
    /// Controller firmware.
    pub firmware: FirmwareParams,
    /// DRAM port.
    pub dram: DramParams,
    /// The buffer.
    pub buffer: BufferParams,
    /// Which FTL.
    pub ftl: FtlKind,
    /// Hybrid FTL.
    pub hybrid: HybridParams,
    /// What is collected as a whole. A line is one row of blocks of one group of planes.
    pub groups: Vec<PlaneGroup>,
    /// What such a group is.
    pub line: LineKind,
    /// How the next page of a line is chosen.
    pub placement: Placement,
    /// Which writes share a line.
    pub streams: Streams,
    /// Open host lines.
    pub stream_count: u32,
    /// Cleaning.
    pub gc: GcParams,
    /// Wear levelling.
    pub wear: WearParams,
    /// Bad blocks.
    pub bad: BadParams,
    /// Where the map lies.
    pub map: MapParams,
    /// Checkpoints.
    pub checkpoint: CheckpointParams,
    /// Transactions, if the drive has them.
    pub tx: Option<TxParams>,
    /// Commands in flight.
    pub queue_depth: u32,
    /// Seed of every draw the drive makes.
    pub seed: u64,
}

/// What is collected as a whole, from the smallest to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineKind {
    /// A block of one plane.
    Plane,
    /// A block of each plane of a die.
    Die,
    /// A block of each plane of a channel.
    Channel,
    /// A block of each plane of the drive.
    Superblock,
}

impl LineKind {
    /// As in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            LineKind::Plane => "plane",
            LineKind::Die => "die",
            LineKind::Channel => "channel",
            LineKind::Superblock => "superblock",
        }
    }
    /// The kind of a name; `auto` is none.
    pub fn parse(name: &str) -> Option<LineKind> {
        let all = [LineKind::Plane, LineKind::Die, LineKind::Channel, LineKind::Superblock];
        all.into_iter().find(|kind| kind.name() == name)
    }
    /// Groups of planes of an array.
    pub(crate) fn groups(self, channels: u32, dies: u32, planes: u32) -> u32 {
        match self {
            LineKind::Superblock => 1,
            LineKind::Channel => channels,
            LineKind::Die => channels * dies,
            LineKind::Plane => channels * dies * planes,
        }
    }
}

/// How a drive's lines are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineBudget {
    /// All lines but those of replacement blocks.
    pub lines: u32,
    /// Set apart for checkpoints.
    pub metadata: u32,
    /// That the logical slots take when every line holds what an erase is sure to gain.
    pub logical: u32,
    /// Open at once.
    pub heads: u32,
    /// Free, and used by cleaning alone.
    pub reserve: u32,
}

impl LineBudget {
    /// Lines without which the drive could not go on writing.
    pub fn needed(&self) -> u32 {
        self.logical + self.heads + self.reserve
    }
    /// Lines for data.
    pub fn usable(&self) -> u32 {
        self.lines.saturating_sub(self.metadata)
    }
}

pub use placement::Placement;
mod placement {
    /// How the next page of an open line is chosen.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Placement {
        /// In stripe order.
        Stripe,
        /// The die that is free first.
        Dynamic,
        /// Die = mapping unit mod dies of the line.
        Static,
    }
}

/// The planes a line stripes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneGroup {
    /// In stripe order; the planes of one entry are programmed together.
    pub stripes: Vec<Vec<u32>>,
}

/// What is kept beside each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobMode {
    /// Its logical number.
    Lean,
    /// The whole record; payloads if sent.
    Full,
}

/// Power-loss protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plp {
    /// The buffer is lost.
    None,
    /// So many of the oldest dirty entries are saved.
    Capacitor(u32),
    /// All dirty entries are saved.
    Full,
}

/// Which FTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FtlKind {
    /// Page-mapped.
    Page,
    /// Block map with a pool of log blocks.
    HybridLog,
}

/// Which writes share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Host and cleaning share one head.
    Single,
    /// One head for the host, one for cleaning.
    UserGc,
    /// By two-bit recency of the unit.
    HotCold,
    /// By application.
    App,
    /// By write hint.
    Hint,
    /// By the buffer's batch stream.
    Buffer,
    /// By how long the version lived that is replaced, copies by age.
    Lifetime,
}

/// Host link.
#[derive(Clone, Debug)]
pub struct LinkParams {
    /// Bytes per second in each direction; 0 = free.
    pub rate: u64,
}

/// Controller firmware: time that occupies a core, and time that only passes.
#[derive(Clone, Debug)]
pub struct FirmwareParams {
    /// Cores; 0 = core time is free.
    pub cores: u32,
    /// Time of a core.
    pub core: CommandTimes,
    /// Time added to a command, whatever else is in flight.
    pub latency: CommandTimes,
    /// Added per completion.
    pub complete: Span,
}

/// Firmware time by command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandTimes {
    /// Per read command.
    pub read: Span,
    /// Per read command of at most 4 KiB.
    pub read_4k: Span,
    /// Per write command.
    pub write: Span,
    /// Per 4 KiB written.
    pub per_unit: Span,
}

impl CommandTimes {
    /// Of a read command of `bytes`.
    pub fn of_read(&self, bytes: u64) -> Span {
        if bytes <= 4096 { self.read_4k } else { self.read }
    }
    /// Of a write command of `bytes`.
    pub fn of_write(&self, bytes: u64) -> Span {
        self.write + self.per_unit.times(bytes.div_ceil(4096))
    }
}

/// DRAM port.
#[derive(Clone, Debug)]
pub struct DramParams {
    /// Per access.
    pub latency: Span,
    /// Bytes per second; 0 = free.
    pub rate: u64,
}

/// The buffer.
#[derive(Clone, Debug)]
pub struct BufferParams {
    /// The policy and its options.
    pub policy: PolicySpec,
    /// Data and the policy's tables.
    pub size: Bytes,
    /// A write is done when programmed.
    pub write_through: bool,
    /// Entries are kept by sector.
    pub mask: bool,
    /// Pages of write-back in flight.
    pub staging: u32,
    /// Power-loss protection.
    pub plp: Plp,
}

impl Params {
    /// All lines but those of replacement blocks.
    pub fn lines(&self) -> u32 {
        (self.geometry.blocks_per_plane - self.bad.reserve_per_plane) * self.groups.len() as u32
    }

    /// Bytes of data in a line.
    pub fn line_bytes(&self) -> u64 {
        let g = &self.geometry;
        u64::from(g.slots() / g.blocks_per_plane / self.groups.len() as u32)
            * u64::from(g.slot_bytes)
    }

    /// How the lines are spent; `None` where the FTL is not the page-mapped one.
    pub fn line_budget(&self) -> Option<LineBudget> {
        (self.ftl == FtlKind::Page).then(|| crate::ftl::line_budget(self))
    }

    /// The buffer as its policy sees it.
    pub fn buffer_shape(&self) -> BufferShape {
        let g = &self.geometry;
        // What flash takes best as a whole: an erase block, or what a map of blocks merges at once.
        let block = match self.ftl {
            FtlKind::Page => g.pages_per_block * g.slots_per_page,
            FtlKind::HybridLog => g.slots() / g.blocks_per_plane / self.groups.len() as u32,
        };
        BufferShape {
            entries: (self.buffer.size.0 / 4096) as usize,
            pages: self.logical_pages,
            mask: self.buffer.mask,
            seed: self.seed,
            planes: g.planes(),
            page_entries: g.page_bytes / 4096,
            block_pages: block * (g.slot_bytes / 4096),
        }
    }
}

/// Hybrid FTL.
#[derive(Clone, Debug)]
pub struct HybridParams {
    /// Log lines in parts per million of all lines.
    pub log_ppm: u64,
    /// Log blocks are shared by all data blocks (FAST), else belong to one (BAST).
    pub full_assoc: bool,
}

/// Cleaning. Thresholds in free lines; 0 = the default of the drive's head count.
#[derive(Clone, Debug)]
pub struct GcParams {
    /// Victim policy, with its parameter.
    pub victim: VictimSpec,
    /// Copies owed per host page, else a victim at once.
    pub credit: bool,
    /// Foreground below this.
    pub start: u32,
    /// Foreground until this.
    pub stop: u32,
    /// Only cleaning may use these.
    pub reserve: u32,
    /// Clean when idle.
    pub background: bool,
    /// Free lines (ppm) below which it does.
    pub bg_start_ppm: u64,
    /// Idle time before it does.
    pub idle: Span,
    /// One cleaning head per stream.
    pub per_stream: bool,
    /// Exact minimum within the lowest bucket: `None` = automatic.
    pub exact: Option<bool>,
}

/// Wear levelling.
#[derive(Clone, Debug)]
pub struct WearParams {
    /// Free lines by erase count.
    pub dynamic: bool,
    /// Cold lines are moved.
    pub static_moves: bool,
    /// Difference that starts a move.
    pub delta: u32,
    /// Erases between moves.
    pub period: u64,
}

/// Bad blocks.
#[derive(Clone, Debug)]
pub struct BadParams {
    /// Factory-bad share, ppm.
    pub factory_ppm: u64,
    /// Reserve blocks per plane.
    pub reserve_per_plane: u32,
}

/// Where the map lies.
#[derive(Clone, Debug)]
pub struct MapParams {
    /// Bytes of cache for translation pages; `None` = the whole map is in DRAM.
    pub cache: Option<Bytes>,
    /// LRU instead of CLOCK.
    pub lru: bool,
}

/// Checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointParams {
    /// Slots written between two checkpoints; `None` = no checkpoints.
    pub interval_slots: Option<u64>,
}

/// What garbage collection does about lines that hold old pages of open transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Takes them when nothing else is near.
    Prefer,
    /// Never takes them.
    Hard,
    /// Does not look.
    Ignore,
}

/// Transactions in the FTL (paper 4).
#[derive(Clone, Debug)]
pub struct TxParams {
    /// The paper's literal rules, which lose data, instead of the ones that do not.
    pub paper: bool,
    /// The end page names the others instead of waiting for them.
    pub counted: bool,
    /// Locked lines.
    pub lock: LockMode,
    /// Pages of all open transactions.
    pub pages: u32,
    /// Transactions open at once.
    pub max_open: u32,
    /// Numbers from the oldest open transaction to the next.
    pub span: u64,
    /// Aborted or crashed transactions with pages on flash.
    pub losers: u32,
    /// Pairs in a remap record.
    pub pairs: u32,
}
