//! Why a run does not come to a verdict.

use std::path::PathBuf;

use stack::datalog::LogError;
use stack::disk::DiskError;

/// Why a run does not come to a verdict.
#[derive(Debug, thiserror::Error)]
pub enum TortureError {
    /// What the user gave does not fit: what was found and what was expected.
    #[error("{0}")]
    Input(String),
    /// This machine does not allow it, or has no such program.
    #[error("{0}")]
    Machine(String),
    /// A file of ours cannot be used.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The data log.
    #[error("{}: {error}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        error: LogError,
    },
    /// The drive below.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The stage, the program or the checker did what it may not.
    #[error("{0}")]
    Broken(String),
    /// A file system was let go, and said that not all of it is on the drive.
    #[error("unmount: {0}")]
    NotDurable(String),
    /// Somebody asked for the end.
    #[error("interrupted")]
    Interrupted,
}

impl TortureError {
    /// About a file.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> TortureError {
        let path = path.into();
        move |error| TortureError::Io { path, error }
    }
}
