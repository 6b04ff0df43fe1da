//! Counters: every operation carries its cause and only the array counts.

use block::Span;

/// Why a slot was programmed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Cause {
    /// Host data.
    Host = 0,
    /// A copy made by garbage collection or wear levelling.
    Gc = 1,
    /// Records of transactions and trims' durability.
    Tx = 2,
    /// Translation pages of a demand-paged map.
    Map = 3,
    /// Checkpoints, trim records and other records of the drive itself.
    Metadata = 4,
    /// Slots filled with nothing so that a page, a super-page or a word line is complete.
    #[default]
    Padding = 5,
}

/// Why a slot was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ReadCause {
    /// Host reads.
    Host = 0,
    /// Reads for a copy made by garbage collection or wear levelling.
    Gc = 1,
    /// Reads of transaction records.
    Tx = 2,
    /// Translation pages of a demand-paged map.
    Map = 3,
    /// Checkpoints and records.
    Metadata = 4,
    /// Reads of the rest of a mapping unit that a small write changes (read-modify-write).
    Rmw = 5,
    /// Reads at power-on.
    Recovery = 6,
}

impl Cause {
    /// Names in result documents, in order of the discriminants.
    pub const NAMES: [&str; 6] = ["host", "gc", "tx", "map", "metadata", "padding"];
}
impl ReadCause {
    /// Names in result documents, in order of the discriminants.
    pub const NAMES: [&str; 7] = ["host", "gc", "tx", "map", "metadata", "rmw", "recovery"];
}

/// What the array did. Programs and reads are in slots; `page_*` count operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NandStats {
    /// Slots programmed, by [`Cause`].
    pub programs: [u64; 6],
    /// Slots read, by [`ReadCause`].
    pub reads: [u64; 7],
    /// Page program operations.
    pub page_programs: u64,
    /// Page read operations.
    pub page_reads: u64,
    /// Block erases.
    pub erases: u64,
    /// Programs and erases interrupted by a read.
    pub suspends: u64,
    /// Read retries (each costs one more sense time).
    pub retries: u64,
    /// Idle gaps of a bus forgotten because its ring was full; 0 means exact bookings.
    pub gaps_dropped: u64,
    /// Busy time of each channel bus.
    pub channel_busy: Vec<Span>,
    /// Busy time of each die.
    pub die_busy: Vec<Span>,
}

impl NandStats {
    /// Slots programmed, all causes.
    pub fn programs_total(&self) -> u64 {
        self.programs.iter().sum()
    }
    /// Slots read, all causes.
    pub fn reads_total(&self) -> u64 {
        self.reads.iter().sum()
    }
}
