//! Why a run fails, and the exit code that says so.

use std::path::PathBuf;

use block::{DeviceError, Time};
use report::ReportError;
use ssd::ConfigError;
use stack::StackError;
use workload::SourceError;

/// An error of the laboratory. [`LabError::exit_code`] is the contract of the command line.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A drive's configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A trace or a recipe is wrong.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A place in a scenario or plan file is wrong.
    #[error("{file}:{line}: {reason}")]
    Scenario {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// Something the user gave does not fit: what was found and what was expected.
    #[error("{0}")]
    Input(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The drive refused or failed a request.
    #[error("request {request} at {} ns: {source}", at.as_ns())]
    Device {
        /// Number of the request in the workload, from 1.
        request: u64,
        /// When it was submitted, in virtual time.
        at: Time,
        /// The drive's reason.
        source: DeviceError,
    },
    /// A run did not get where it had to.
    #[error("{0}")]
    Failed(String),
    /// A promise of the contract does not hold: no result is written.
    #[error("consistency check failed ({contract}): {what}")]
    Check {
        /// The promise, `C1` to `C12`, or `served` for "served = submitted".
        contract: String,
        /// What was found.
        what: String,
    },
    /// A comparison is outside its tolerance.
    #[error("{0}")]
    Tolerance(String),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl From<ReportError> for LabError {
    fn from(error: ReportError) -> LabError {
        match error {
            ReportError::Input(what) => LabError::Input(what),
            ReportError::Failed(what) => LabError::Failed(what),
        }
    }
}

impl From<StackError> for LabError {
    fn from(error: StackError) -> LabError {
        match error {
            StackError::Config(error) => LabError::Config(error),
            StackError::Io { path, error } => LabError::io(path, error),
            StackError::Broken { contract, what } => LabError::Check { contract, what },
            other => LabError::Input(other.to_string()),
        }
    }
}

impl LabError {
    /// The exit code of the command line: 1 failed, 3 bad input, 4 a check, 5 a tolerance, 130
    /// interrupted.
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::Config(_)
            | LabError::Source(_)
            | LabError::Scenario { .. }
            | LabError::Input(_) => 3,
            LabError::Device { source: DeviceError::OutOfRange { .. }, .. } => 3,
            LabError::Io { .. } | LabError::Device { .. } | LabError::Failed(_) => 1,
            LabError::Check { .. } => 4,
            LabError::Tolerance(_) => 5,
            LabError::Interrupted => 130,
        }
    }

    /// Whether a drive has no room for what it is asked to hold: that is a finding, and of this
    /// drive and this load alone.
    pub(crate) fn is_full(&self) -> bool {
        matches!(
            self,
            LabError::Device { source: DeviceError::NoSpace(_) | DeviceError::ReadOnly(_), .. }
        )
    }

    /// An error about a file.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> LabError {
        LabError::Io { path: path.into(), source }
    }
}
