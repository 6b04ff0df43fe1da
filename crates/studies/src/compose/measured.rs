//! What a run gave.

use crate::nolog::Outcome;
use block::Span;
use lab::histogram::Histogram;

/// Erases that a block endures: what a drive of this kind is usually rated for. No preset has a
/// figure; every lifetime is proportional to it.
pub(crate) const ENDURANCE: u64 = 3000;
/// Days of five years.
const DAYS: u64 = 5 * 365;

/// Blocks that a file system wrote and a host log below it wrote besides.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Layers {
    /// Of files.
    pub(crate) data: u64,
    /// Moved by the file system's cleaning.
    pub(crate) moved: u64,
    /// Nodes, tables, checkpoints, journal.
    pub(crate) metadata: u64,
    /// Blocks of the journal, which are metadata, too.
    pub(crate) journal: u64,
    /// Segments cleaned, and checkpoints.
    pub(crate) cleanings: u64,
    pub(crate) checkpoints: u64,
    /// Copies of the log's cleaning.
    pub(crate) log_copies: u64,
    /// Headers, map pages and roots of the log.
    pub(crate) log_records: u64,
}

/// What a tenant other than SQLite did.
#[derive(Default)]
pub(crate) struct Done {
    /// Pages of 4 KiB that its programs wrote.
    pub(crate) user: u64,
    /// How long its operations took: updates of files, reads of the store.
    pub(crate) latency: Histogram,
    /// From its first operation to the end of its last.
    pub(crate) elapsed: Span,
    /// Of a file system.
    pub(crate) layers: Layers,
}

/// What the drive did.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Flash {
    /// Pages of 4 KiB programmed, by cause (`nand::Cause`).
    pub(crate) programs: [u64; 6],
    /// Bytes programmed.
    pub(crate) programmed: u64,
    /// Blocks erased.
    pub(crate) erases: u64,
    /// Of SQLite, files and store: pages read and pages written that were found in the buffer, and all.
    pub(crate) hits: [[(u64, u64); 2]; 3],
    /// Pages that flushes wrote out of the buffer, and that it pushed out.
    pub(crate) flushed: u64,
    pub(crate) evicted: u64,
    /// Pages of a block, of the flash, and of the drive's address space.
    pub(crate) block: u64,
    pub(crate) physical: u64,
    pub(crate) logical: u64,
}

/// A run.
pub(crate) struct Measured {
    pub(crate) flash: Flash,
    pub(crate) sqlite: Option<Outcome>,
    pub(crate) files: Option<Done>,
    pub(crate) store: Option<Done>,
}

impl Measured {
    /// Pages programmed.
    pub(crate) fn programs(&self) -> u64 {
        self.flash.programs.iter().sum()
    }

    /// Pages that programs wrote, if SQLite's transactions changed so many.
    pub(crate) fn asked(&self, changed: u64) -> u64 {
        let others = self.files.iter().chain(&self.store);
        changed + others.map(|done| done.user).sum::<u64>()
    }

    /// Write amplification of everything between programs and flash: bytes programmed, and bytes that
    /// programs wrote. Every layer is in it; nothing is multiplied.
    pub(crate) fn amplification(&self, changed: u64) -> (u64, u64) {
        (self.flash.programmed, self.asked(changed) * block::UNIT_BYTES)
    }

    /// Pages that SQLite's transactions changed, as a write-ahead log holds them; 0 without one.
    pub(crate) fn changed(&self) -> u64 {
        self.sqlite.as_ref().map_or(0, |outcome| outcome.counted.images)
    }

    /// Pages that SQLite sent down.
    pub(crate) fn sqlite_sent(&self) -> u64 {
        self.sqlite.as_ref().map_or(0, |outcome| outcome.tally.pages())
    }

    /// 99th percentiles: SQLite's operations, updates of files, reads of the store.
    pub(crate) fn p99(&self) -> [Option<Span>; 3] {
        let mut operations = Histogram::default();
        self.sqlite.iter().flat_map(|o| &o.tally.operations).for_each(|span| operations.add(*span));
        let of = |done: &Option<Done>| done.as_ref().and_then(|d| d.latency.percentile(9900));
        [operations.percentile(9900), of(&self.files), of(&self.store)]
    }

    /// How long each tenant took: SQLite, files, store.
    pub(crate) fn elapsed(&self) -> [Option<Span>; 3] {
        let of = |done: &Option<Done>| done.as_ref().map(|d| d.elapsed);
        [self.sqlite.as_ref().map(|o| o.tally.total), of(&self.files), of(&self.store)]
    }

    /// How often what programs write fills the drive until its blocks have been erased as often as they
    /// endure, in hundredths: what `asked` pages wore out is taken for the rule.
    pub(crate) fn fills(&self, asked: u64) -> u64 {
        let Flash { erases, block, physical, logical, .. } = self.flash;
        let wear = u128::from(erases.max(1)) * u128::from(block) * u128::from(logical);
        let life = u128::from(ENDURANCE) * u128::from(physical) * u128::from(asked) * 100;
        (life / wear.max(1)) as u64
    }

    /// Drive writes a day that wear it out in five years, in hundredths.
    pub(crate) fn dwpd(&self, asked: u64) -> u64 {
        self.fills(asked) / DAYS
    }
}
