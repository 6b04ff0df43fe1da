//! Why an image, or the store in it, cannot be used: with the exit code that says so.

use lab::LabError;
use live::LiveError;
use varve_sqlite_vfs::{OpenError, StoreError};
use wire::nvme::DriveError;

/// Why an image cannot be used, with the exit code that says so.
pub fn refused(error: OpenError) -> LabError {
    match error {
        OpenError::Image(error) => unusable(error),
        OpenError::Far(error @ DriveError::Unfit { .. }) => LabError::Input(error.to_string()),
        OpenError::Far(error) => LabError::Failed(error.to_string()),
        OpenError::Store { path, error } => not_mounted(&path, error),
    }
}

/// The same for the store in it.
pub(super) fn not_mounted(name: &str, error: StoreError) -> LabError {
    let what = format!("{name}: {error}");
    match error {
        StoreError::Damaged(_) => LabError::Check { contract: "C6".to_string(), what },
        _ => LabError::Input(what),
    }
}

/// The same for its drive.
pub fn unusable(error: LiveError) -> LabError {
    match error {
        LiveError::Io { path, error } => LabError::Io { path, source: error },
        LiveError::Config(error) => LabError::Config(error),
        error @ (LiveError::NotAnImage { .. } | LiveError::Capacity { .. }) => {
            LabError::Input(error.to_string())
        }
        error @ LiveError::Damaged { .. } => {
            LabError::Check { contract: "C6".to_string(), what: error.to_string() }
        }
        error => LabError::Failed(error.to_string()),
    }
}
