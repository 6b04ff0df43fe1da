//! A log-structured file system in user space, over any [`block::BlockDevice`], on the F2FS on-disk
//! format: images are made for and checked by `mkfs.f2fs`, `fsck.f2fs` and the Linux kernel.
//!
//! # Shape
//! ```text
//!   Fs            names, files, directories, xattrs, fsync, checkpoint, recovery (`fs`)
//!   ground of it  logs, segments, node table, nodes, pages (`fs`), each one noun, one file
//!   format        bytes <-> structures; no I/O, no volume
//!   layout, disk  where everything is; blocks of a device, counted by cause
//!   scj           journalled cleaning (paper 2): pure logic
//! ```
//! Data is written through to a log at once; nodes, directory blocks and tables stay dirty in
//! memory until a checkpoint, and a file's own nodes until its fsync. A data block that moves
//! dirties one node, a node that moves one table entry; nothing propagates further.
//!
//! # Invariants
//! * Nothing that recovery from the durable state may read is written over: a block is written only
//!   if it is valid neither now nor at the last checkpoint, and in-place structures are those that
//!   recovery does not read, or have two copies.
//! * Time is an argument ([`Now`]); there is no clock, thread or random number in this crate.
//! * Every block written to the device is counted once, under one [`Cause`].
//! * What a foreign image holds is checked before it is believed: damage is [`FsError::Corrupt`],
//!   never a panic, and after it nothing is written.
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

pub use disk::{CAUSES, Cause, Disk, Fetch, Mark};
pub use error::FsError;
pub use fs::{Fs, FsOptions};
pub use layout::Layout;
pub use mkfs::{MkfsOptions, least_blocks, mkfs, provision, superblock};
pub use units::{BlockAddr, Nid, Now, SegNo, Stamp};
