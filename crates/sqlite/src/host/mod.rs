//! A host over a device: what SQLite's calls become as requests, in virtual time.

mod device;
mod engine;
mod ideal;
mod log;

pub use device::{Below, Flash};
pub use engine::{Engine, Layout, System, Tally};
pub use ideal::{Commit, Ideal};
