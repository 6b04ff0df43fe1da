//! Bugs that tests plant, to know that their alarm works. Nothing else reaches them.

/// One rule of the controller left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// Transactions that are to be committed together are committed one by one.
    CommitOneByOne,
    /// Pages of a transaction are written at once.
    WriteOutside,
    /// A transaction of somebody else is as good as one's own.
    Foreign,
    /// The transactions of a host that is gone stay open.
    KeepOpen,
    /// A forced write is answered before it is durable.
    NotForced,
    /// Flush of several commands is answered before the flush.
    FlushEarly,
    /// A claim keeps nobody away.
    ClaimIgnored,
    /// A claim stands though the power was gone.
    ClaimOverCut,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 8] = [
        Bug::CommitOneByOne,
        Bug::WriteOutside,
        Bug::Foreign,
        Bug::KeepOpen,
        Bug::NotForced,
        Bug::FlushEarly,
        Bug::ClaimIgnored,
        Bug::ClaimOverCut,
    ];
}
