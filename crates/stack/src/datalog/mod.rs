//! Data logs, `.vlog`: everything that changed a disk, with its data, in the order in which it was answered
//! (`docs/formats.md`, section 10).
//!
//! * [`Writer`] writes one record after the other, and an index of the flushes at the end.
//! * [`Log`] is one that was read and believed: every length lies inside its limit, every range inside the
//!   disk, every checksum agrees, every end of a flush has its beginning. Whatever does not is refused with
//!   the place, what was found there and what was expected.

mod read;
mod write;

use std::io;
use std::ops::Range;

pub use read::Log;
pub use write::{Entry, Writer, pack};

/// First bytes of a log.
const MAGIC: [u8; 8] = *b"varvelog";
/// Last bytes of one that was ended.
const END: [u8; 8] = *b"varvelgE";
/// The only version.
const VERSION: u32 = 1;
/// Bytes that a disk keeps whole: every range is a multiple.
pub const SECTOR: u64 = 512;
/// Bytes of a record before its data.
const HEAD: usize = 40;
/// Bytes of the header before the text of its source, without the checksum.
const HEADER: usize = 24;
/// Bytes of data of a record at most.
pub const LONGEST: u64 = 16 << 20;
/// Bytes of a log at most.
pub const MOST: u64 = 4 << 30;
/// Bytes of a recorded disk at most.
pub const LARGEST: u64 = 1 << 40;
/// Bytes of a mark, or of the text that says what was recorded.
pub const TEXT: usize = 4096;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Bytes were written.
    Write,
    /// A flush began.
    FlushBegin,
    /// A flush was answered; its record says which one began.
    FlushEnd,
    /// A range was forgotten: it reads as zeroes.
    Trim,
    /// A range was made zeroes.
    Zero,
    /// Somebody said something: a promise, or where he is.
    Mark,
}

impl Op {
    const ALL: [Op; 6] = [Op::Write, Op::FlushBegin, Op::FlushEnd, Op::Trim, Op::Zero, Op::Mark];

    fn code(self) -> u8 {
        // From 1: a hole is no record.
        Op::ALL.iter().position(|op| *op == self).map_or(0, |at| at as u8 + 1)
    }
}

/// The code of the index at the end.
const INDEX: u8 = 0xFF;
/// Durable when it was answered.
const FUA: u8 = 1;
/// A mark of whoever recorded, not of the program.
const OURS: u8 = 2;

/// One record of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What happened.
    pub op: Op,
    /// It was durable when it was answered.
    pub fua: bool,
    /// A mark of whoever recorded.
    pub ours: bool,
    /// Nanoseconds since the log began.
    pub ns: u64,
    /// First byte on the disk; of the end of a flush: the number of the record of its beginning.
    pub at: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Where its data is in [`Log::data`].
    pub data: Range<usize>,
}

/// Why a log is not believed, or cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It is not what it should be.
    #[error("{place}: found {found}; expected {expected}")]
    Bad {
        /// Where.
        place: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// What the system said.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn bad(
    place: impl Into<String>,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> LogError {
    LogError::Bad { place: place.into(), found: found.into(), expected: expected.into() }
}
