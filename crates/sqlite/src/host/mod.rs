//! A host over a device: what SQLite's calls become as requests, in virtual time.

mod device;
mod drive;
mod engine;
mod ideal;
mod log;
mod renamed;

pub use device::{Below, Flash};
pub use drive::{AgedError, Ssd, params};
pub use engine::{Engine, Layout, System, Tally};
pub use ideal::{Commit, Ideal};
pub use renamed::Renamed;
