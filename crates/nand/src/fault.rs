//! Faults as data. Execution reads a plan and draws nothing; whoever makes a plan draws.

use block::{BlockId, Span, Time};

use crate::Cut;

/// What must come of a fault (docs/faults.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Masked: nobody above notices, but for time.
    Masked,
    /// A typed error on the request concerned; never wrong data.
    Detected,
    /// The drive becomes read-only.
    ReadOnly,
}

/// One fault. `at` counts durable operations (programs and erases), `read` counts page reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The power goes.
    Cut(Cut),
    /// The program at this operation number (or the next one after it) reports failure.
    ProgramFail {
        /// Operation number.
        at: u64,
        /// Every later program of the same block fails too.
        always: bool,
    },
    /// The erase at this operation number (or the next one after it) reports failure.
    EraseFail {
        /// Operation number.
        at: u64,
    },
    /// The program reports success and leaves the page blank.
    ProgramNoop {
        /// Operation number.
        at: u64,
    },
    /// The program lands on another block's next page instead.
    MisdirectWrite {
        /// Operation number.
        at: u64,
    },
    /// A page read needs more sense times.
    ReadRetry {
        /// Read number.
        read: u64,
        /// Extra sense times.
        steps: u32,
    },
    /// The page met by this read number cannot be corrected, from then on.
    ReadUncorrectable {
        /// Read number.
        read: u64,
    },
    /// The page programmed at this operation rots: its check fails from then on.
    BitRot {
        /// Operation number.
        at: u64,
        /// The record (OOB) is hit too, not only the data.
        oob: bool,
    },
    /// This read returns what the page at the block's previous position holds.
    MisdirectRead {
        /// Read number.
        read: u64,
    },
    /// A die works this many times slower within a window.
    SlowDie {
        /// Die.
        die: u32,
        /// Factor.
        factor: u32,
        /// From.
        from: Time,
        /// To.
        to: Time,
    },
    /// One operation on a die takes this much longer.
    StuckOp {
        /// Operation number.
        at: u64,
        /// How much longer.
        span: Span,
    },
    /// The block is bad from the factory.
    BadBlock {
        /// Block.
        block: BlockId,
    },
}

/// The faults of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultPlan {
    /// In any order.
    pub faults: Vec<Fault>,
}

impl FaultPlan {
    /// No faults.
    pub fn none() -> FaultPlan {
        FaultPlan::default()
    }
}
