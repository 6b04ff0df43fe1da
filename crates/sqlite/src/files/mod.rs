//! SQLite's files as the experiments need them: watched call by call, and in memory.

mod memory;
mod recorder;
mod stage;
mod tap;

pub use memory::Memory;
pub use recorder::{Heard, Recorder};
pub use stage::{Settings, Stage, StageError, Synchronous, api};
pub use tap::{Both, Shared, Tap, Watched};
