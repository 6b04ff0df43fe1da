//! A disk as the medium of a layer above it.

use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use block::Medium;

use super::{Disk, DiskError};

/// The bytes of a disk, for a layer above it. Once let go it answers nobody: what is left of a layer
/// that was (a thread of it) can change nothing any more.
#[derive(Debug)]
pub struct DiskMedium {
    size: u64,
    /// Held while the disk is asked.
    disk: RwLock<Option<Arc<dyn Disk>>>,
}

impl DiskMedium {
    /// All of a disk.
    pub fn new(disk: Arc<dyn Disk>) -> DiskMedium {
        DiskMedium { size: disk.capabilities().size, disk: RwLock::new(Some(disk)) }
    }

    /// Lets the disk go; returns when nobody asks it through this any more.
    pub fn let_go(&self) {
        *self.disk.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn ask<R>(&self, ask: impl FnOnce(&dyn Disk) -> Result<R, DiskError>) -> io::Result<R> {
        let disk = self.disk.read().unwrap_or_else(PoisonError::into_inner);
        disk.as_ref().map_or(Err(DiskError::PowerOff), |disk| ask(&**disk)).map_err(told)
    }
}

/// An error of a disk as one of the system: what ran out of space still has.
fn told(error: DiskError) -> io::Error {
    match error {
        DiskError::Io(error) => error,
        full if full.is_full() => io::Error::new(io::ErrorKind::StorageFull, full.to_string()),
        other => io::Error::other(other.to_string()),
    }
}

impl Medium for DiskMedium {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.ask(|disk| disk.read(at, out).and_then(super::Done::wait))
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(|disk| disk.write(at, bytes, false).and_then(super::Done::wait))
    }
    fn sync(&self) -> io::Result<()> {
        self.ask(|disk| disk.flush().and_then(super::Done::wait))
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.ask(|disk| disk.zero(at, bytes, false, false).and_then(super::Done::wait))
    }
    fn discard_is_fast(&self) -> bool {
        self.ask(|disk| Ok(disk.zero_is_fast(0, 4096, false))).unwrap_or(false)
    }
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let mut from = at;
        while from < self.size {
            let found = self.ask(|disk| disk.extents(from, self.size - from, 16))?;
            let all: u64 = found.iter().map(|extent| extent.bytes).sum();
            let mut start = from;
            for extent in found {
                if !extent.hole {
                    return Ok(Some(start..start + extent.bytes));
                }
                start += extent.bytes;
            }
            if all == 0 {
                return Ok(Some(from..self.size));
            }
            from += all;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RamDisk;

    #[test]
    fn a_layer_sees_the_bytes_of_the_disk_until_it_is_let_go() {
        let disk = Arc::new(RamDisk::new(1 << 20).unwrap());
        let medium = DiskMedium::new(Arc::clone(&disk) as _);
        medium.write(8192, &[7; 512]).unwrap();
        let mut out = [0; 1024];
        medium.read(8192, &mut out).unwrap();
        assert_eq!((out[511], out[512]), (7, 0));
        let data = medium.data_from(0).unwrap().unwrap();
        assert!(data.contains(&8192), "{data:?}");
        medium.discard(8192, 4096).unwrap();
        medium.read(8192, &mut out).unwrap();
        assert_eq!(out[0], 0);
        assert_eq!(medium.size().unwrap(), 1 << 20);
        medium.let_go();
        assert_eq!(medium.write(0, &[1]).unwrap_err().to_string(), "the power is off");
        Disk::read(&*disk, 0, &mut out).unwrap().wait().unwrap();
        assert_eq!(out[0], 0);
    }
}
