//! A log-structured file system on the F2FS on-disk format, with segment cleaning journaling
//! (SCJ, paper 2), over any [`block::BlockDevice`].
//!
//! `tests/scj_rules.rs` is the design of SCJ's crash rules as an executable model.

mod disk;
mod error;
pub mod format;
pub mod fs;
mod layout;
mod mkfs;
pub mod scj;
mod units;

pub use disk::{CAUSES, Cause, Disk};
pub use error::FsError;
pub use fs::{Fs, Options};
pub use layout::Layout;
pub use mkfs::{MkfsOptions, mkfs, provision, superblock};
pub use units::{BlockAddr, Nid, Now, SegNo, Stamp};
