//! What an image needs of the file below it; a test puts one there that loses what is not synced.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that outlive the process.
pub trait Medium: Debug + Send + Sync {
    /// Reads exactly `out.len()` bytes.
    ///
    /// # Errors
    /// What the system said.
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes`; durable after the next [`Medium::sync`].
    ///
    /// # Errors
    /// What the system said.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// What the system said. What was written since the last success may or may not be there.
    fn sync(&self) -> io::Result<()>;
}

/// A file, or a block device.
#[derive(Debug)]
pub struct FileMedium(pub File);

impl Medium for FileMedium {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
