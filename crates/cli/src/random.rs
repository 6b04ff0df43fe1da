//! Random bytes: for names that are to be nobody else's. No result depends on them.

use std::fs::File;
use std::io::Read;

use lab::LabError;

const SOURCE: &str = "/dev/urandom";

/// `N` bytes.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> Result<[u8; N], LabError> {
    let mut bytes = [0; N];
    let read = File::open(SOURCE).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| LabError::io(SOURCE, error))
}
