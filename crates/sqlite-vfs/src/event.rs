//! What a pass-through VFS sees, call by call.

use crate::vfs::Kind;

/// One call to a file of an application, after the host has answered it without error.
#[derive(Debug)]
pub struct Event<'a> {
    /// What the file is for.
    pub kind: Kind,
    /// Its absolute name; empty for a temporary file.
    pub name: &'a str,
    /// What was done.
    pub call: Call<'a>,
}

/// What was done to a file.
#[derive(Debug)]
pub enum Call<'a> {
    /// Opened.
    Open,
    /// Closed.
    Close,
    /// Read.
    Read {
        /// Offset.
        at: u64,
        /// Bytes asked for.
        bytes: u64,
    },
    /// Written.
    Write {
        /// Offset.
        at: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Cut to a length.
    Truncate(u64),
    /// Synced.
    Sync,
    /// Deleted, and whether the folder was to be synced.
    Delete(bool),
    /// `SQLITE_FCNTL_SYNC`, sent also where `synchronous=OFF` leaves the sync out.
    SyncWish,
    /// `SQLITE_FCNTL_COMMIT_PHASETWO`.
    Commit,
    /// The lock went below EXCLUSIVE.
    Unlock,
    /// BATCH_ATOMIC begins.
    BatchBegin,
    /// BATCH_ATOMIC commits.
    BatchCommit,
    /// BATCH_ATOMIC is rolled back.
    BatchRollback,
    /// A checkpoint begins.
    CheckpointStart,
    /// A checkpoint ends.
    CheckpointDone,
}

/// Somebody who watches. Called under no lock of this crate, from any thread.
pub trait Observer: Send + Sync {
    /// One call.
    fn event(&self, event: &Event<'_>);
}
