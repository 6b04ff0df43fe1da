//! The power of a stack: it goes on command, and comes back.
//!
//! A power cut drops what the stack holds back. (Ending the process is no power cut: what it gave
//! to the system survives that.)

mod drive;
mod medium;
mod switch;

use std::fmt::Debug;
use std::str::FromStr;

pub use drive::DriveSupply;
pub use medium::MediumSupply;
pub use switch::{Open, Supply, Switch};

use crate::disk::DiskError;

/// When the power is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At once.
    Now,
    /// At the next flush that reaches the lowest layer, which does not happen, or not wholly.
    NextFlush,
    /// At the durable operation of this number, counted from the start of the server.
    Operation(u64),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        match (text, text.strip_prefix("op:").map(str::parse)) {
            ("now", _) => Ok(When::Now),
            ("next-flush", _) => Ok(When::NextFlush),
            (_, Some(Ok(number))) => Ok(When::Operation(number)),
            _ => Err(format!("`{text}`: expected now, next-flush or op:NUMBER")),
        }
    }
}

/// Why the power stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    /// This stack has no switch.
    #[error("the power of this stack cannot be cut: {0}")]
    NotOffered(&'static str),
    /// That operation is over.
    #[error("operation {asked} is over: {now} were done")]
    Passed {
        /// The operation asked for.
        asked: u64,
        /// Operations so far.
        now: u64,
    },
    /// It is off.
    #[error("the power is off")]
    Off,
    /// It is on.
    #[error("the power is on")]
    On,
    /// The stack did not come up again, or what the cut leaves could not be written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The last power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastCut {
    /// The operation it hit.
    pub operation: u64,
    /// Pieces written and not durable then (sectors of a medium; operations of an array).
    pub pending: u64,
    /// Those of them that did not survive, where that is known.
    pub lost: Option<u64>,
}

/// How the power is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerState {
    /// It is on.
    pub on: bool,
    /// Durable operations since the start of the server.
    pub operations: u64,
    /// Cuts so far.
    pub cuts: u64,
    /// The last of them.
    pub last: Option<LastCut>,
}

/// The switch of a stack.
pub trait Power: Debug + Send + Sync {
    /// Lets the power go.
    ///
    /// # Errors
    /// [`PowerError`].
    fn cut(&self, when: When) -> Result<(), PowerError>;
    /// Switches it on again: the stack starts from what survived.
    ///
    /// # Errors
    /// [`PowerError`].
    fn on(&self) -> Result<(), PowerError>;
    /// How it is.
    fn state(&self) -> PowerState;
}

/// A stack without a switch.
#[derive(Clone, Copy, Debug)]
pub struct NoSwitch(pub &'static str);

impl Power for NoSwitch {
    fn cut(&self, _when: When) -> Result<(), PowerError> {
        Err(PowerError::NotOffered(self.0))
    }
    fn on(&self) -> Result<(), PowerError> {
        Err(PowerError::NotOffered(self.0))
    }
    fn state(&self) -> PowerState {
        PowerState { on: true, operations: 0, cuts: 0, last: None }
    }
}
