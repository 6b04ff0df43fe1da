//! The kernel, which is told of what it cannot know.
//!
//! Invariant: nobody who holds the file system tells it anything.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use fuser::{INodeNo, Notifier};

/// The kernel that asks, while it is mounted.
#[derive(Default)]
pub(super) struct Told(Mutex<Option<Notifier>>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

impl Told {
    /// Who is told of what changes by itself; nobody, when the mount ends.
    pub(super) fn serves(&self, kernel: Option<Notifier>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kernel;
    }

    fn kernel(&self) -> Option<Notifier> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A write took set-user and set-group bits away. The kernel keeps attributes for good, and would go on to
    /// run the file as its owner; it asks anew.
    pub(super) fn lost_its_bits(&self, ino: INodeNo) {
        if let Some(kernel) = self.kernel() {
            // One that does not know the file any more keeps nothing of it.
            let _ = kernel.inval_inode(ino, -1, 0);
        }
    }

    /// The kernel writes what it has of a range of a file, and gives up its pages there. Who takes requests does not ask
    /// for this: it waits until these writes are answered.
    pub(super) fn writes(&self, ino: INodeNo, range: &Range<u64>) {
        let at = i64::try_from(range.start);
        let len = i64::try_from(range.end.saturating_sub(range.start));
        if let (Some(kernel), Ok(at), Ok(len)) = (self.kernel(), at, len) {
            // What it could not write it says to who syncs.
            let _ = kernel.inval_inode(ino, at, len);
        }
    }
}
