//! Bugs that the crash test plants, to know that its alarm works. Nothing else reaches them.

/// One rule of the image left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A commit is answered before it is on the file.
    CommitNotSynced,
    /// A block is erased before what replaces its pages is durable.
    EraseBeforeCopies,
    /// A record that speaks for others is written while they float.
    RecordBeforeOthers,
    /// The last page of a block is written while the others float.
    LastPageEarly,
    /// Power-on believes records without looking at their payloads.
    PayloadNotChecked,
    /// Records of an earlier opening of a block are believed.
    SameSalt,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 6] = [
        Planted::CommitNotSynced,
        Planted::EraseBeforeCopies,
        Planted::RecordBeforeOthers,
        Planted::LastPageEarly,
        Planted::PayloadNotChecked,
        Planted::SameSalt,
    ];
}
