//! The log-structured file system as a mounted directory, by FUSE, over any stack.
//!
//! ```text
//!   files, names, data, xattrs   what the kernel asks for, one answer each
//!   holes                        where a file has none, with what the kernel has not written yet
//!   volume                       the file system behind its lock, the clock, who is looked up
//!   syncs                        fsyncs that share flushes, without the lock
//!   beside, cleaner              reads and jobs without the lock; a thread that does those nobody waits for
//!   takers                       which threads take requests
//!   told                         the kernel, which is told of what it cannot know
//!   behind, held                 writes without the lock; who holds it, and waits for the device all the same
//!   session                      mount, periodic checkpoints, power cuts, unmount
//!   end                          what is said when it fails, and to the one who unmounts
//!   device                       a stack's disk as the block device below the file system
//!   options, table               `-o ..`; what is mounted where
//! ```
//!
//! * **One lock.** As many threads as are needed take requests and copy data (`takers`); the file system itself works for
//!   one of them at a time. What it needs of the device is read, and what it writes written, without the
//!   lock (`beside`); so are flushes, records of cleaning and the ends of checkpoints. Others go on meanwhile.
//! * **What the kernel keeps.** Names, those that name nothing too, and attributes for good, because nobody else changes them, and
//!   pages that were read. A write is in the file system before it is answered, unless the option
//!   `writeback` is given: then pages are gathered in the kernel, small writes cost no request each,
//!   "no space" may come as late as `fsync` or `close`, and `SEEK_DATA` takes all for data, because
//!   the kernel asks for it without writing its pages first.
//! * **Durable** is what `fsync` returned for, as in any file system. Beside it a checkpoint is made
//!   every so often (`commit=SECONDS`). `sync` and `syncfs` do not reach a FUSE file system.
//! * **Access times** follow `relatime`, or stay (`noatime`). Reads that the kernel answers from its
//!   pages are not seen.
//! * **Power cuts.** After one every request fails. Power comes back as it does for a machine: what
//!   was mounted is gone (open files fail for good), the stack starts, the volume is recovered and
//!   mounted anew in the same place.

mod attributes;
mod behind;
mod beside;
mod cleaner;
mod data;
mod device;
mod end;
mod errors;
mod files;
mod held;
mod holes;
mod names;
mod options;
mod session;
mod stats;
mod syncs;
mod table;
mod takers;
mod told;
mod volume;
mod xattrs;

pub use device::DiskDevice;
pub use end::{END, take_report};
pub use options::{Atime, MountOptions};
pub use session::{FsMount, MountError};
pub use stats::STATS;
pub use table::{Mounted, mounted};
pub use volume::wall;
