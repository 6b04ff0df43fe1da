//! Bugs that a harness plants, to know that its alarm works. No option reaches them.

/// One rule of the host log left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A flush is answered without a flush of the device below.
    AckBeforeFlush,
    /// When the newer root's body is bad the older root is taken.
    OlderRootTaken,
    /// An empty segment is used again before what emptied it is durable.
    ReuseBeforeDurable,
    /// A relocation is applied whatever the map says.
    UnconditionalRelocation,
    /// A block moves to a record older than the one that described it.
    MoveInOlderRecord,
    /// Records are replayed by their position, not by their number.
    ReplayByPosition,
    /// Replay passes over trims.
    TrimLostInReplay,
    /// A root's header is written, and flushed, before its body.
    RootHeaderBeforeBody,
    /// Records of an earlier opening are believed.
    OldEpochAccepted,
    /// Two writes of parts of one block do not exclude each other (live only).
    RmwWithoutLock,
    /// The CRC of a header is not looked at.
    HeaderCrcIgnored,
    /// Blocks that cleaning moves are counted as the user's.
    GcCountedAsUser,
    /// What was flushed last is never said to be durable by a later header.
    NoMark,
    /// Behind a header that is damaged no other is looked for.
    NoLookAhead,
    /// A root of which both headers are damaged is taken for one that was never written.
    LostRootPassedOver,
    /// A block is written to an open record though another that is open, and has a higher number, holds it.
    OpenRecordsCross,
    /// A batch has its mark before the buffer is empty.
    MarkTooEarly,
    /// What a batch supersedes is given up before its mark.
    FreedBeforeMark,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 18] = [
        Planted::AckBeforeFlush,
        Planted::OlderRootTaken,
        Planted::ReuseBeforeDurable,
        Planted::UnconditionalRelocation,
        Planted::MoveInOlderRecord,
        Planted::ReplayByPosition,
        Planted::TrimLostInReplay,
        Planted::RootHeaderBeforeBody,
        Planted::OldEpochAccepted,
        Planted::RmwWithoutLock,
        Planted::HeaderCrcIgnored,
        Planted::GcCountedAsUser,
        Planted::NoMark,
        Planted::NoLookAhead,
        Planted::LostRootPassedOver,
        Planted::OpenRecordsCross,
        Planted::MarkTooEarly,
        Planted::FreedBeforeMark,
    ];
}
