//! Loads of files: programs' calls on the file system, in process and in virtual time, over any
//! stack of devices.
//!
//! The model, and what it leaves out:
//! * **Threads** are a closed loop: a thread asks for the next thing when the last is done. The file
//!   system does one thing at a time: what is asked meanwhile waits, also reads. A thread's read of
//!   contents goes on while others are served.
//! * **Time** is the device's: computing takes none.
//! * **Contents** are zeroes and take no memory ([`Sparse`]); what the file system writes for itself
//!   is kept, read back and believed as ever.
//! * **The page cache** ([`Cache`]) writes later and knows what it would hold; a limit of 0 writes
//!   through.

mod cache;
mod clients;
mod database;
mod filebench;
mod fio;
pub mod fsload;
mod json;
mod load;
mod measure;
mod sparse;
mod volume;

pub use cache::Cache;
pub use clients::{Clients, Done, Kind, Load};
pub use database::{Database, Shape};
pub use filebench::{Filebench, Flow};
pub use fio::RandomWrite;
pub use fsload::{Fsload, FsloadMode};
pub use load::{FileLoad, FilesSpec, Room, user_blocks};
pub use measure::{Measured, Plan, Sample, measure, measure_watched};
pub use sparse::Sparse;
pub use volume::{File, Volume};

use crate::LabError;

/// A file system's error as the laboratory's.
fn failed(what: &str, error: &lfs::FsError) -> LabError {
    LabError::Failed(format!("file system, {what}: {error}"))
}
