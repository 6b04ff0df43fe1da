//! Why a live log refuses.

use std::fmt;
use std::io;

/// Why a live log refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// There is no room left; what was there before still is.
    #[error("no space: {0}")]
    NoSpace(String),
    /// The data there is known to be damaged.
    #[error("damaged: {0}")]
    Damaged(String),
    /// After a failed write or flush nothing is written any more.
    #[error("stopped after an error: {0}")]
    Stopped(Halt),
    /// What the medium said.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The error after which nothing is written any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Halt {
    /// What it was.
    pub why: String,
    /// The space below ran out: that is what whoever writes is told from then on.
    pub full: bool,
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<&io::Error> for Halt {
    fn from(error: &io::Error) -> Halt {
        Halt { why: error.to_string(), full: is_full(error) }
    }
}

impl From<String> for Halt {
    fn from(why: String) -> Halt {
        Halt { why, full: false }
    }
}

impl From<LiveError> for Halt {
    fn from(error: LiveError) -> Halt {
        match error {
            LiveError::Stopped(halt) => halt,
            LiveError::Io(error) => Halt::from(&error),
            other => Halt { full: matches!(other, LiveError::NoSpace(_)), why: other.to_string() },
        }
    }
}

/// Whether the system below has no space left, or allows no more of it.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
