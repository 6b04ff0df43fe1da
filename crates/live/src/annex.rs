//! The part of an image file behind the drive: bytes that no flash operation stands for.
//!
//! Invariants:
//! * what is read there was written and synced there; the drive neither knows nor moves it;
//! * it is one file with the drive, and fails with it: after a sync that failed, here or there,
//!   nothing is written and nothing is called durable any more.

use std::io;
use std::sync::Arc;

use crate::file::ImageFile;

/// Room behind the drive of an image. It grows with what is written, as far as the file system lets it.
#[derive(Clone, Debug)]
pub struct Annex {
    file: Arc<ImageFile>,
    start: u64,
}

impl Annex {
    pub(crate) fn new(file: Arc<ImageFile>, start: u64) -> Annex {
        Annex { file, start }
    }

    /// The byte of the image it begins at.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// What the system said.
    pub fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_behind(self.start + at, out)
    }

    /// Writes; durable after the next [`Annex::sync`].
    ///
    /// # Errors
    /// What the system said. Unless there was no room, it is the last write to the image.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_behind(self.start + at, bytes)
    }

    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// What the system said; it is the last sync of the image.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_behind()
    }
}
