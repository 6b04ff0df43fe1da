//! Crash testing of any program: what it writes to a drive is recorded once, every state that a power cut
//! could have left is built from the record, and whatever was promised is looked for in each.
//!
//! [`history`], [`states`], [`cuts`] and [`shrink`] are pure: they know no file, no socket and no clock.
//! [`run`](mod@run) is a whole run, [`worker`] the process that checks one state after the other.

pub mod below;
pub mod blame;
mod blocks;
pub mod crew;
mod cut_text;
pub mod cuts;
mod error;
#[cfg(test)]
mod fake;
pub mod history;
mod image;
mod judge;
pub mod junit;
mod keep;
pub mod kind;
pub mod live;
pub mod overlay;
pub mod plan;
pub mod powered;
pub mod recipe;
mod recording;
pub mod recovery;
pub mod replay;
pub mod run;
pub mod sandbox;
pub mod shrink;
pub mod stacked;
pub mod stage;
pub mod states;
pub mod strict;
pub mod subject;
pub mod switch;
mod touched;
pub mod tree;
pub mod verdict;
pub mod worker;

pub use error::TortureError;
pub use run::{Wanted, run};
pub use verdict::{Report, Verdict};
