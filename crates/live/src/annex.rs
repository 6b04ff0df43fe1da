//! The part of an image file behind the drive: bytes that no flash operation stands for.
//!
//! Invariants:
//! * what is read there was written and synced there; the drive neither knows nor moves it;
//! * it is one file with the drive, and fails with it: after a sync that failed, here or there,
//!   nothing is written and nothing is called durable any more.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::file::ImageFile;

/// Room behind the drive of an image. It grows with what is written, as far as the file system lets it. When the drive
/// grows it begins behind that, and has nothing.
#[derive(Clone, Debug)]
pub struct Annex {
    /// The image that is the drive's now.
    file: Arc<Mutex<Arc<ImageFile>>>,
}

impl Annex {
    pub(crate) fn new(file: &Arc<ImageFile>) -> Annex {
        Annex { file: Arc::new(Mutex::new(Arc::clone(file))) }
    }

    /// The drive goes on with another image.
    pub(crate) fn go_on(&self, file: &Arc<ImageFile>) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(file);
    }

    fn file(&self) -> Arc<ImageFile> {
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The byte of the file it begins at.
    pub fn start(&self) -> u64 {
        let file = self.file();
        file.base() + file.end()
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// What the system said.
    pub fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.file();
        file.read_behind(file.end() + at, out)
    }

    /// Writes; durable after the next [`Annex::sync`].
    ///
    /// # Errors
    /// What the system said. Unless there was no room, it is the last write to the image.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file();
        file.write_behind(file.end() + at, bytes)
    }

    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// What the system said; it is the last sync of the image.
    pub fn sync(&self) -> io::Result<()> {
        self.file().sync_behind()
    }
}
