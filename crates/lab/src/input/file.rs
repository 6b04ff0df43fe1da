//! The name of a trace file: where it is, or what it is.

use std::fmt;
use std::path::{Path, PathBuf};

use workload::SourceError;

use super::pinned::Pinned;

/// One trace file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceFile {
    /// A path.
    Path(PathBuf),
    /// A digest, wherever it lies.
    Pinned(Pinned),
}

impl TraceFile {
    /// `sha256:..`, or a path as seen from a folder.
    ///
    /// # Errors
    /// A digest that is none.
    pub fn parse(text: &str, folder: &Path) -> Result<TraceFile, String> {
        match Pinned::parse(text) {
            Some(pinned) => pinned.map(TraceFile::Pinned),
            None => Ok(TraceFile::Path(folder.join(text))),
        }
    }

    /// The file on this host.
    ///
    /// # Errors
    /// One named by its digest cannot be had.
    pub fn located(&self) -> Result<PathBuf, SourceError> {
        match self {
            TraceFile::Path(path) => Ok(path.clone()),
            TraceFile::Pinned(pinned) => pinned.located(),
        }
    }
}

/// What results call it.
impl fmt::Display for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceFile::Path(path) => write!(f, "{}", path.display()),
            TraceFile::Pinned(pinned) => f.write_str(&pinned.name()),
        }
    }
}

impl From<PathBuf> for TraceFile {
    fn from(path: PathBuf) -> TraceFile {
        TraceFile::Path(path)
    }
}
