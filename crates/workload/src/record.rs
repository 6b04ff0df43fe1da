//! The one record every reader and generator yields, and the trait they share.

use std::path::PathBuf;

use block::{AppId, Bytes, Span, Time};

/// What a record asks for. `Zero` is a write of zeroes without data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TraceOp {
    /// Read bytes.
    Read = 0,
    /// Write bytes.
    Write = 1,
    /// Make earlier writes durable.
    Flush = 2,
    /// Forget bytes.
    Discard = 3,
    /// Write zeroes.
    Zero = 4,
}

/// Request flags, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u8);

impl Flags {
    /// Synchronous.
    pub const SYNC: Flags = Flags(1);
    /// Force unit access.
    pub const FUA: Flags = Flags(2);
    /// A flush goes before it.
    pub const PREFLUSH: Flags = Flags(4);
    /// File-system metadata.
    pub const META: Flags = Flags(8);
    /// Read-ahead.
    pub const AHEAD: Flags = Flags(16);

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets of bits.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One request of a trace. Offsets are those of the application's own address space until tenants
/// are merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was issued, counted from the first record of the trace.
    pub at: Time,
    /// First byte.
    pub offset: Bytes,
    /// Number of bytes.
    pub len: Bytes,
    /// How long the traced device took, if the trace says.
    pub response: Option<Span>,
    /// Application (tenant, volume, device) of the record.
    pub app: AppId,
    /// What it asks for.
    pub op: TraceOp,
    /// Flags.
    pub flags: Flags,
    /// Write hint; 0 = none.
    pub hint: u8,
}

/// Records handed out at a time.
pub const BLOCK_RECORDS: usize = 4096;

/// A stream of records with bounded memory.
pub trait Source {
    /// Clears `block` and fills it with the next records, at most [`BLOCK_RECORDS`]; an empty
    /// block is the end of the stream.
    ///
    /// # Errors
    /// Where the input is wrong and what was expected. After an error the source is at its end.
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError>;
}

/// Why a stream ends early.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A place in the file is not what its format demands.
    #[error("{}:{line}:{column}: found `{found}`, expected {expected}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1 (binary formats: record number, from 1).
        line: u64,
        /// Column in bytes, from 1 (binary formats: byte offset in the file).
        column: u64,
        /// The text found, shortened.
        found: String,
        /// What the format demands there.
        expected: String,
    },
    /// The file as a whole is not usable.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        reason: String,
    },
    /// A recipe's parameters do not fit together.
    #[error("{0}")]
    Recipe(String),
}
