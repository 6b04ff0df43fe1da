//! SQLite's files as the experiments need them: watched call by call, in memory, and as sums of their pages.

mod memory;
mod recorder;
mod stage;
mod sums;
mod tap;

pub use memory::Memory;
pub use recorder::{Heard, Recorder};
pub use stage::{Settings, Stage, StageError, Synchronous, api};
pub use sums::Sums;
pub use tap::{Both, Shared, Tap, Watched};
