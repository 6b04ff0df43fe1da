//! FUSE: a directory in which the device is a file.
//!
//! ```text
//! DIR/disk.img     the device: read, write, fsync, punch holes, ask for data and holes
//! DIR/stats.json   what the stack counts, as one JSON document (read-only)
//! DIR/control      write one command, read its reply from the same open file
//! ```
//!
//! * **The kernel keeps no data.** Every open of `disk.img` is direct: a write has reached the
//!   stack before it is answered, and a read asks the stack, so what a power cut took away cannot
//!   be read from a page that the kernel still had. The write-back cache is never asked for, and
//!   shared mappings are refused.
//! * `fsync` and `fdatasync` are a flush; a write through `O_DSYNC`, `O_SYNC` or `RWF_DSYNC` is
//!   durable when it returns.
//! * The size is fixed, byte offsets are exact, and whatever reaches beyond the end changes
//!   nothing.
//! * Requests are served by several threads at once; none waits for another here.

mod command;
mod device;
mod files;
mod holders;
mod left;
mod loop_device;
mod mount;

pub use command::{Command, Handles};
pub use holders::{holders, who_holds};
pub(crate) use left::{PATIENCE, ask, served};
pub use left::{clear, cut_off, is_dead, is_served};
pub use loop_device::LoopDevice;
pub use mount::unmount;
pub use mount::{Mount, Options, Patience, Stopped, advertised, shield_from_own_writeback};

use std::io;
use std::path::PathBuf;

/// Name of the device's file.
pub const DISK: &str = "disk.img";
/// Name of the file of counters.
pub const STATS: &str = "stats.json";
/// Name of the file that takes commands.
pub const CONTROL: &str = "control";
/// What mounts of ours come from, in the system's table of mounts.
pub const SOURCE: &str = "varve";

/// Why the front-end cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The directory cannot be mounted on.
    #[error("cannot mount on {}: {source}{}", dir.display(), hint(source, dir))]
    Mount {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The server of a mount that is there is gone.
    #[error("{0}: a dead mount is there: varve umount {0}", dir.display())]
    Dead {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory stays mounted.
    #[error("cannot unmount {}: {source}", dir.display())]
    Unmount {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program of the system failed.
    #[error("{program}: {what}")]
    Program {
        /// Its name and arguments.
        program: String,
        /// What it said, or why it did not start.
        what: String,
    },
    /// A thread of the session ended with an error.
    #[error("the FUSE session ended: {0}")]
    Session(io::Error),
}

/// What to do about the usual reasons.
fn hint(source: &io::Error, dir: &std::path::Path) -> String {
    let dir = dir.display();
    match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOTCONN) => {
            format!(" (a dead mount is there: varve umount {dir})")
        }
        Some(rustix::io::Errno::NOENT) if !std::path::Path::new("/dev/fuse").exists() => {
            " (there is no /dev/fuse: modprobe fuse)".to_string()
        }
        Some(rustix::io::Errno::PERM) => {
            " (needs root, or fusermount3 of the package fuse3)".to_string()
        }
        _ => String::new(),
    }
}
