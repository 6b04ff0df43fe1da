//! What follows from a log's shape and options alone and is asked for around every request: worked out
//! once, since each is a division or more.

use crate::geometry::{BLOCK, Geometry};
use crate::options::LogOptions;

/// See above. Invariant: a log's shape never changes while it is open, nor does an option that is read here.
#[derive(Debug)]
pub(super) struct Limits {
    /// Free segments that the plainest log keeps ([`Geometry::gc_reserve`]).
    pub reserve: u32,
    /// Free segments above the reserve below which cleaning runs, if nothing is buffered.
    pub start: u32,
    /// Blocks of a segment that hold no header: one at least; a second when entries run out.
    pub each: u32,
    /// Blocks of log after which a checkpoint is due, if nothing is buffered.
    pub checkpoint: u64,
    /// Pages of the map that memory may hold; [`u32::MAX`]: all.
    pub map: u32,
    /// Nanoseconds after which an open record is closed.
    pub old: u64,
}

impl Limits {
    pub fn new(g: &Geometry, options: &LogOptions) -> Limits {
        let spare = g.spare();
        Limits {
            reserve: g.gc_reserve(),
            start: 2 + (spare / 12).min(4) + spare / 128,
            each: g.segment - 1 - g.segment / 505,
            checkpoint: (g.physical() / 64).max(4 * u64::from(g.segment)),
            map: match options.map_memory.0 {
                0 => u32::MAX,
                bytes => (bytes / BLOCK as u64).max(16) as u32,
            },
            old: options.seal_after.as_ps() / 1000,
        }
    }
}
