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
    /// Word lines of a checkpoint are not completed before it is relied upon (C1).
    CheckpointLeftOpen,
    /// A checkpoint names the open lines of the first two heads only (C1).
    CheckpointTwoHeads,
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
    /// Cleaning gives a copy a new sequence number (C4).
    TxFreshSeq,
    /// The end flag goes with the last write, not with the commit (C4).
    TxEndEarly,
    /// The end page does not wait for the others (C4).
    TxNoBarrier,
    /// Power-on counts the pages of a transaction and does not compare their digest (C4).
    TxCountOnly,
    /// End pages are erased without a state record (C4).
    TxNoRecord,
    /// The state record is programmed after the erase (C4).
    TxRecordLate,
    /// The state record does not name the losers (C4).
    TxRecordNoLosers,
    /// The state record's floor passes over open transactions (C4).
    TxRecordFloorNext,
    /// With counted end pages, only these lead to a state record (C4).
    TxRecordForEndOnly,
    /// Transaction numbers begin at 1 after every power-on (C4).
    TxTidsRestart,
    /// Old pages are reclaimed before the end page is on flash (C4).
    TxEarlyReuse,
    /// An abort leaves the transaction's copies in the map (C4).
    TxAbortMapsCopy,
    /// A conflict loses the page that the transaction holds (C4).
    TxHeldLost,
    /// A lock does not go along with the old page that cleaning moves (C4).
    TxLockStays,
    /// Cleaning drops trim records (C5).
    TxTrimDropped,
    /// Several transactions are committed by a record each (C4).
    TxManyApart,
    /// A line is appended to after a power cut (C1).
    TxAppendAfterCut,
    /// Cleaning drops what a remap record says of pages not yet copied (C4).
    RemapDropped,
}

impl Bug {
    /// All of a drive without transactions.
    pub const ALL: [Bug; 15] = [
        Bug::EraseBeforeCopies,
        Bug::AckBeforeDrain,
        Bug::NewestByAddress,
        Bug::IgnoreOobCrc,
        Bug::TrimLost,
        Bug::ReuseBadBlock,
        Bug::IgnoreTornPair,
        Bug::CheckpointBeforeBody,
        Bug::CheckpointLeftOpen,
        Bug::CheckpointTwoHeads,
        Bug::DropMapEviction,
        Bug::GcCountedAsHost,
        Bug::DiscardIgnoresBuffer,
        Bug::FlushSkipsNewest,
        Bug::LeakValid,
    ];

    /// Those of transactions, and some of the others that transactions must notice too.
    pub const TX: [Bug; 20] = [
        Bug::NewestByAddress,
        Bug::EraseBeforeCopies,
        Bug::TxFreshSeq,
        Bug::TxEndEarly,
        Bug::TxNoBarrier,
        Bug::TxCountOnly,
        Bug::TxNoRecord,
        Bug::TxRecordLate,
        Bug::TxRecordNoLosers,
        Bug::TxRecordFloorNext,
        Bug::TxRecordForEndOnly,
        Bug::TxTidsRestart,
        Bug::TxEarlyReuse,
        Bug::TxAbortMapsCopy,
        Bug::TxHeldLost,
        Bug::TxLockStays,
        Bug::TxTrimDropped,
        Bug::TxManyApart,
        Bug::TxAppendAfterCut,
        Bug::RemapDropped,
    ];
}
