//! A log-structured file system on the F2FS on-disk format, with segment cleaning journaling
//! (SCJ, paper 2), over any [`block::BlockDevice`].
//!
//! `tests/scj_rules.rs` is the design of SCJ's crash rules as an executable model.

pub mod scj;
mod units;

pub use units::{BlockAddr, Nid, Now, SegNo, Stamp};
