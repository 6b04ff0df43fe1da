//! The log of commits of an image: a part of the file that no flash operation stands for.
//!
//! Invariants:
//! * what was appended is durable on return; nothing else waits for it, and it waits for nothing else;
//! * it is one file with the drive, and fails with it.

use std::sync::Arc;

use block::{CommitLog, DeviceError, LogSink, Time};

use crate::drive::ImageDrive;
use crate::file::ImageFile;

impl ImageFile {
    /// Whether so many bytes lie in the log of commits.
    fn inside(&self, offset: u64, bytes: usize) -> Result<(), DeviceError> {
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.log().0);
        let beyond = DeviceError::Unsupported("a place behind the end of the log of commits");
        end.map(|_| ()).ok_or(beyond)
    }
}

impl LogSink for ImageFile {
    fn append(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inside(offset, bytes.len())?;
        self.append_log(offset, bytes).map_err(DeviceError::Io)
    }
}

impl CommitLog for ImageDrive {
    fn log_bytes(&self) -> u64 {
        self.file.log().0
    }
    fn log_grain(&self) -> u32 {
        self.file.log_grain()
    }
    fn log_start(&self) -> u64 {
        self.file.base() + self.file.log().1
    }
    fn log_append(&mut self, at: Time, offset: u64, bytes: &[u8]) -> Result<Time, DeviceError> {
        self.usable()?;
        self.file.append(offset, bytes)?;
        Ok(at)
    }
    fn log_read(&mut self, at: Time, offset: u64, out: &mut [u8]) -> Result<Time, DeviceError> {
        self.usable()?;
        self.file.inside(offset, out.len())?;
        let read = self.file.read_log(offset, out);
        read.map(|()| at).map_err(|error| DeviceError::Io(error.to_string()))
    }
    fn log_sink(&self) -> Option<Arc<dyn LogSink>> {
        Some(Arc::clone(&self.file) as _)
    }
}
