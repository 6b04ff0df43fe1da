//! Bugs that the proof harness plants, to know that its alarm works. No configuration reaches
//! them.

/// One planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A victim is erased before its copies are on flash (C1).
    EraseBeforeCopies,
    /// FLUSH is answered at admission (C1).
    AckBeforeDrain,
    /// Power-on takes the version at the highest address, not the highest number (C1).
    NewestByAddress,
    /// Power-on believes records whose CRC fails (C6).
    IgnoreOobCrc,
    /// Discards are not recorded (C5).
    TrimLost,
    /// A failed block is used again (C6).
    ReuseBadBlock,
    /// Word lines are not completed before data on them is relied upon (C1).
    IgnoreTornPair,
    /// The closing record is written, and believed, before the checkpoint's body (C1).
    CheckpointBeforeBody,
    /// A dirty translation page is dropped (C1).
    DropMapEviction,
    /// Copies are counted as host programs (C8).
    GcCountedAsHost,
    /// A discard leaves dirty entries in the buffer (C5).
    DiscardIgnoresBuffer,
    /// A flush leaves the newest dirty entry behind (C1).
    FlushSkipsNewest,
    /// Freed slots stay counted as valid (C7).
    LeakValid,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 13] = [
        Bug::EraseBeforeCopies,
        Bug::AckBeforeDrain,
        Bug::NewestByAddress,
        Bug::IgnoreOobCrc,
        Bug::TrimLost,
        Bug::ReuseBadBlock,
        Bug::IgnoreTornPair,
        Bug::CheckpointBeforeBody,
        Bug::DropMapEviction,
        Bug::GcCountedAsHost,
        Bug::DiscardIgnoresBuffer,
        Bug::FlushSkipsNewest,
        Bug::LeakValid,
    ];
}
