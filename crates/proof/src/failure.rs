//! A broken promise.

use std::fmt;

/// Which line of the contract was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Contract {
    /// What FLUSH or FUA acknowledged is gone.
    C1,
    /// A 4 KiB block is mixed.
    C2,
    /// The recovered state has a hole.
    C3,
    /// Half a transaction.
    C4,
    /// A discard left something else than the old data or zeroes.
    C5,
    /// Wrong data, or data lost without a fault.
    C6,
    /// Page states, map and reverse map disagree.
    C7,
    /// Programs are not accounted for.
    C8,
    /// Two runs of one plan differ.
    C9,
    /// A request did not end in bounded time, or was refused without a reason.
    C10,
    /// What fsync made durable is gone, or a file system shows a state that never was.
    C12,
    /// An assertion of the code under test failed.
    Panic,
}

impl Contract {
    /// All of them.
    pub const ALL: [Contract; 12] = [
        Contract::C1,
        Contract::C2,
        Contract::C3,
        Contract::C4,
        Contract::C5,
        Contract::C6,
        Contract::C7,
        Contract::C8,
        Contract::C9,
        Contract::C10,
        Contract::C12,
        Contract::Panic,
    ];
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::str::FromStr for Contract {
    type Err = String;
    fn from_str(text: &str) -> Result<Contract, String> {
        Contract::ALL.into_iter().find(|c| c.to_string() == text).ok_or_else(|| {
            format!("`{text}`: expected a line of the contract, C1 to C10, C12 or Panic")
        })
    }
}

/// A broken promise and what was seen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{contract}: {what}")]
pub struct Failure {
    /// The line.
    pub contract: Contract,
    /// What was expected and what was found.
    pub what: String,
}

impl Failure {
    /// A broken promise.
    pub fn new(contract: Contract, what: impl Into<String>) -> Failure {
        Failure { contract, what: what.into() }
    }

    /// What two failures of one cause have in common: the line of the contract and, where an
    /// assertion failed, its place; numbers left out.
    pub fn signature(&self) -> String {
        let text: String = match self.contract {
            Contract::Panic => self.what.split(": ").next().unwrap_or_default().to_string(),
            _ => {
                let seen = self.what.split(", may hold").next().unwrap_or_default();
                let words = seen.split_whitespace();
                let names = words.filter(|word| word.chars().all(char::is_alphabetic));
                names.collect::<Vec<_>>().join(" ")
            }
        };
        format!("{}: {text}", self.contract)
    }
}
