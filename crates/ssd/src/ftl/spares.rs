//! Spare blocks of each plane, and how many blocks are bad.
//!
//! | | |
//! | --- | --- |
//! | owns | the spare blocks that no line uses, by plane; the count of bad blocks |
//! | invariants | a spare is in no line and not bad; the count is that of blocks marked bad, found at power-on or since |
//! | offers | a spare to take or to give back, the count |
//! | does not | mark blocks, or know lines |
//! | callers | `bad.rs`; `erase.rs` and `checkpoint.rs` where an operation fails |

#[derive(Clone, Debug)]
pub(super) struct Spares {
    by_plane: Vec<Vec<u32>>,
    bad: u64,
}

impl Spares {
    /// No spare, no bad block.
    pub fn new(planes: u32) -> Spares {
        Spares { by_plane: vec![Vec::new(); planes as usize], bad: 0 }
    }
    /// A block of a plane is a spare; the one given last is taken first.
    pub fn give(&mut self, plane: u32, block: u32) {
        self.by_plane[plane as usize].push(block);
    }
    /// Those given first are taken first.
    pub fn reverse(&mut self) {
        for spares in &mut self.by_plane {
            spares.reverse();
        }
    }
    /// A spare of a plane, if there is one.
    pub fn take(&mut self, plane: u32) -> Option<u32> {
        self.by_plane[plane as usize].pop()
    }
    /// A block was marked or found bad.
    pub fn count_bad(&mut self) {
        self.bad += 1;
    }
    /// Blocks that are bad.
    pub fn bad(&self) -> u64 {
        self.bad
    }
}
