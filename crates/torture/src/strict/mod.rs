//! A file system that gives what POSIX promises and nothing else: `--fs strict`.
//!
//! Each name, each size and each page of 4 KiB is lost by itself until its own `fsync`: that of the file for pages and
//! size, that of the folder for names. A rename is one change of its names. Mode and owner of a file go with its
//! size; those of a folder are its own, and those of a link, which nobody can `fsync`, go with the names of its folder.
//! Real file systems order some of it, and programs come to rely on that.
//!
//! It is told as blocks of a drive, one for each page, each size, each folder's rights and each change of names; `fsync` is a
//! forced write of those that are its own. So its states are those of a drive, and everything that
//! chooses, builds, shrinks and replays them is the same. What a block is stands in the log, as a mark of ours:
//! a block is one thing for ever. [`Volume`] is what a program sees while it is recorded, [`lay`] puts
//! the files of a state into a folder.

mod fuse;
mod lay;
mod names;
mod rights;
mod volume;

pub use fuse::{Session, mount};
pub use lay::{Blocks, lay, told};
pub use names::What;
pub use rights::{Change, Rights};
pub use volume::{File, Kind, Planted, Volume};

/// Bytes of a page, and of a block.
pub const PAGE: u64 = 4096;
/// The root.
pub const ROOT: u64 = 1;
