//! Numbers of the format as types.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Number of a 4 KiB block of the volume. As a pointer: 0 is a hole, [`BlockAddr::RESERVED`]
    /// space that is counted but has no place yet.
    BlockAddr
}
number! {
    /// Number of a node; an inode's is the file's inode number. 0 is void.
    Nid
}
number! {
    /// Number of a segment of the main area.
    SegNo
}

impl BlockAddr {
    /// No block.
    pub const HOLE: BlockAddr = BlockAddr(0);
    /// Counted, but not written yet.
    pub const RESERVED: BlockAddr = BlockAddr(u32::MAX);

    /// Whether it names a place.
    pub const fn is_place(self) -> bool {
        self.0 != 0 && self.0 != u32::MAX
    }
}

impl Nid {
    /// No node.
    pub const NONE: Nid = Nid(0);
    /// The root directory of every volume.
    pub const ROOT: Nid = Nid(3);
}

/// A file's time: seconds since 1970 and nanoseconds. Given by the caller, never read from a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Stamp {
    /// Seconds since 1970.
    pub seconds: u64,
    /// Nanoseconds, below 10^9.
    pub nanos: u32,
}

/// When an operation begins: on the device's clock, and on the wall.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Now {
    /// Virtual (or real) time of the device; may not fall from one operation to the next.
    pub at: block::Time,
    /// What files' times are set to.
    pub wall: Stamp,
}
