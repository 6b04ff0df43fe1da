//! Traces, generators and tenants: files and recipes become one stream of requests.
//!
//! This crate knows no layer; `lab` replays what it yields. Everything here streams: a source
//! hands out blocks of records and holds a bounded amount of memory, whatever the trace's length.

pub mod generate;
pub mod info;
pub mod read;
mod record;
pub mod split;
pub mod tenant;

pub use read::{OpenTrace, ReadOptions, ReadSummary, TraceSource, formats, open};
pub use record::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};
