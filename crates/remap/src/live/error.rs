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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_for_want_of_space_is_told_as_one() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = io::Error::from(kind);
            assert!(is_full(&error) && Halt::from(&error).full);
            assert!(Halt::from(LiveError::Io(kind.into())).full, "{kind}");
        }
        let broken = io::Error::other("it broke");
        assert!(!is_full(&broken));
        assert_eq!(Halt::from(&broken), Halt { why: "it broke".to_string(), full: false });
        assert_eq!(Halt::from("why".to_string()), Halt { why: "why".to_string(), full: false });
        let halt = Halt { why: "before".to_string(), full: true };
        assert_eq!(Halt::from(LiveError::Stopped(halt.clone())), halt, "the first cause stays");
        assert!(Halt::from(LiveError::NoSpace("nothing".to_string())).full);
        let damaged = Halt::from(LiveError::Damaged("block 3".to_string()));
        assert_eq!((damaged.full, damaged.why.as_str()), (false, "damaged: block 3"));
        assert_eq!(halt.to_string(), "before");
    }
}
