//! Segment cleaning journaling (SCJ, paper 2, section IV): what cleaning moved is written to a
//! journal, so that the victim may be used again without a checkpoint.

mod merge;

pub use merge::{Move, merge};
