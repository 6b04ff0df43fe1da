//! A disk that may only be read, whatever is below.

use std::sync::Arc;

use super::{Capabilities, Disk, DiskError, Done, Extent};

/// Refuses whatever would change the disk below.
#[derive(Debug)]
pub struct ReadOnly(pub Arc<dyn Disk>);

impl Disk for ReadOnly {
    fn capabilities(&self) -> Capabilities {
        Capabilities { read_only: true, trim: false, ..self.0.capabilities() }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.0.read(at, into)
    }
    fn write(&self, _at: u64, _from: &[u8], _fua: bool) -> Result<Done, DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.0.flush()
    }
    fn trim(&self, _at: u64, _bytes: u64, _fua: bool) -> Result<Done, DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn zero(&self, _at: u64, _bytes: u64, _keep: bool, _fua: bool) -> Result<Done, DiskError> {
        Err(DiskError::ReadOnly)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.0.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.0.extents(at, bytes, most)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.0.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters()
    }
}
