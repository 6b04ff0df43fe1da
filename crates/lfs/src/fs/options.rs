//! How a volume is mounted.

/// How segments are cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// The paper's baseline: a checkpoint after every cleaned segment.
    Bl415,
    /// As kernel 6.1 does: checkpoints only when what was cleaned must be used.
    Bl6,
}

/// What may be chosen at a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nothing is written, not even by recovery.
    pub read_only: bool,
    /// How segments are cleaned.
    pub cleaning: Cleaning,
    /// Dirty nodes, and dirty directory blocks, that a checkpoint waits for (each; half as many
    /// again together).
    pub dirty: usize,
    /// Nodes, and directory blocks, kept in memory (each).
    pub cached_nodes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { read_only: false, cleaning: Cleaning::Bl6, dirty: 4096, cached_nodes: 16_384 }
    }
}
