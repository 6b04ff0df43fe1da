//! A host over a device: what SQLite's calls become as requests, in virtual time.

mod device;
mod drive;
mod engine;
mod handle;
mod ideal;
mod log;

pub use device::{Below, Flash};
pub use drive::{AgedError, Ssd, params, params_of};
pub use engine::{Engine, Layout, System, Tally};
pub use handle::Handle;
pub use ideal::{Commit, Ideal};
