//! The part of an image file behind the drive: bytes that no flash operation stands for.
//!
//! Invariant: what is read there was written and synced there; the drive neither knows nor moves it.

use std::io;
use std::sync::Arc;

use block::Medium;

/// Room behind the drive of an image. It grows with what is written, as far as the file system lets it.
#[derive(Clone, Debug)]
pub struct Annex {
    medium: Arc<dyn Medium>,
    start: u64,
}

impl Annex {
    pub(crate) fn new(medium: Arc<dyn Medium>, start: u64) -> Annex {
        Annex { medium, start }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// What the system said.
    pub fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read(self.start + at, out)
    }

    /// Writes; durable after the next [`Annex::sync`].
    ///
    /// # Errors
    /// What the system said.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.write(self.start + at, bytes)
    }

    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// What the system said.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync()
    }
}
