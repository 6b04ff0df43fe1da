//! Segment cleaning journaling (SCJ, paper 2, section IV): what cleaning moved is written to a
//! journal, so that the victim may be used again without a checkpoint. Here is what needs no
//! volume: the journal's bytes and how its records merge. `fs/journal.rs` does the rest.

mod merge;
mod record;

pub use merge::{Move, merge};
pub use record::{
    BATCH_MAX, FIRST_SLOT, Identity, LIVE_MAGIC, MOVES_MAX, RECORD_BLOCKS, STATE_AT, STATE_COPY_AT,
    State, decode, encode,
};
