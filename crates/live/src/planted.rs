//! Bugs that the crash test plants, to know that its alarm works. Nothing else reaches them.

/// One rule of the image left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A commit is answered before it is on the file.
    CommitNotSynced,
    /// An append to the log of commits is answered before it is on the file.
    LogNotSynced,
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
    /// Records say that more is durable than is.
    ClaimsEarly,
    /// The superblock goes on calling the image let go while it is written.
    HeldNotWithdrawn,
    /// What a power cut tore is not said when the block's pages are called durable.
    TornNotSaid,
    /// Only the first superblock is written when it changes.
    OneSuperblock,
    /// Only the first header of a block is written.
    OneHeader,
    /// Power-on does not ask what records say of others.
    ChainNotChecked,
    /// Records say nothing of other blocks.
    OthersNotClaimed,
    /// Power-on does not compare what there is with what there was when the image was let go.
    HeldNotChecked,
    /// Power-on takes damage for a program that was cut short.
    DamageIsTorn,
    /// An image that grows is named before it is there.
    PointerEarly,
    /// The place of the smaller image is given back before the larger one is named.
    OldGivenEarly,
    /// The place of the larger image is given back after an error of what names it.
    NamedGivenBack,
}

impl Planted {
    /// Those that lose what was acknowledged, or call it damaged, after a power cut.
    pub const OF_CUTS: [Planted; 9] = [
        Planted::CommitNotSynced,
        Planted::EraseBeforeCopies,
        Planted::RecordBeforeOthers,
        Planted::LastPageEarly,
        Planted::PayloadNotChecked,
        Planted::SameSalt,
        Planted::ClaimsEarly,
        Planted::HeldNotWithdrawn,
        Planted::TornNotSaid,
    ];
    /// Those that a cut finds while an image grows.
    pub const OF_GROWTH: [Planted; 2] = [Planted::PointerEarly, Planted::OldGivenEarly];
    /// Those that pass over damage of an image, or cannot bear it.
    pub const OF_DAMAGE: [Planted; 6] = [
        Planted::OneSuperblock,
        Planted::OneHeader,
        Planted::ChainNotChecked,
        Planted::OthersNotClaimed,
        Planted::HeldNotChecked,
        Planted::DamageIsTorn,
    ];
}
