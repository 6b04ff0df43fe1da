//! Random bytes: for names that are to be nobody else's. No result depends on them.

use lab::LabError;
use serve::random::{SOURCE, fill};

/// `N` bytes.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> Result<[u8; N], LabError> {
    let mut bytes = [0; N];
    fill(&mut bytes).map(|()| bytes).map_err(|error| LabError::io(SOURCE, error))
}
