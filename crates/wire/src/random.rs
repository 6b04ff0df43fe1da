//! Random bytes that nobody can guess: for challenges and keys, and for names that are to be nobody else's. No result
//! depends on them.

use std::fs::File;
use std::io::{self, Read};

/// Where they come from.
pub const SOURCE: &str = "/dev/urandom";

/// Fills `into`.
///
/// # Errors
/// The system has none.
pub fn fill(into: &mut [u8]) -> io::Result<()> {
    File::open(SOURCE)?.read_exact(into)
}
