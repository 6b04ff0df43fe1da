//! What was written, by cause, and what was done.

/// Counters of a log since it was formatted or opened. Blocks are of 4 KiB.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Blocks of user data.
    pub user: u64,
    /// Header blocks, of all heads.
    pub header: u64,
    /// Blocks moved by cleaning.
    pub gc: u64,
    /// Map pages of checkpoints.
    pub meta: u64,
    /// Blocks of roots, and of the super block when the log is made.
    pub root: u64,
    /// Records sealed, user and gc.
    pub records: u64,
    /// Blocks of user data that were buffered and never logged: they were written again, or trimmed.
    pub absorbed: u64,
    /// Batches that have ended.
    pub batches: u64,
    /// Trims admitted.
    pub trims: u64,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Segments that became free.
    pub freed: u64,
    /// Blocks found damaged while cleaning.
    pub poisoned: u64,
    /// Segments set aside because a header in them is damaged.
    pub quarantined: u64,
    /// Map pages read back because they were not in memory.
    pub map_misses: u64,
}

impl Counters {
    /// Blocks of segments that were taken for good: all but copies, which cleaning gets back.
    pub(crate) fn spent(&self) -> u64 {
        self.user + self.header + self.meta
    }

    /// All blocks written to the device below: this is the accounting identity.
    pub fn written(&self) -> u64 {
        self.user + self.header + self.gc + self.meta + self.root
    }
}
