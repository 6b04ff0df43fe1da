//! What else can go wrong with a disk.

/// A fault of a disk. Operations (writes, discards, flushes) and reads count from power-on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    /// That read ends in an error.
    Read {
        /// Which read.
        read: u64,
    },
    /// That operation ends in an error; a write leaves nothing.
    Op {
        /// Which operation.
        op: u64,
        /// Every one after it too.
        always: bool,
    },
    /// That write is answered and never happens.
    Phantom {
        /// Which operation.
        op: u64,
    },
    /// That write goes to a place `by` blocks further on, round the end.
    Misdirected {
        /// Which operation.
        op: u64,
        /// 4 KiB blocks.
        by: u64,
    },
    /// One bit of what that write left flips, once it is there.
    Rot {
        /// Which operation.
        op: u64,
        /// In its first block; else in its last.
        head: bool,
    },
}
