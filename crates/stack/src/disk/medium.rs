//! Pass-through: the bytes of a medium (a file, a raw block device, memory) as they are.

use std::sync::{Arc, OnceLock};

use block::{Medium, write_zeroes};

use super::{Capabilities, Disk, DiskError, Done, Extent, Group, Halt, inside};

/// What a discard takes whole, and a fast zero must keep to.
const BLOCK: u64 = 4096;

/// A disk whose bytes are those of a medium.
///
/// After a sync that failed nothing is written any more: what was written before it may or may not
/// be there, and a second sync that succeeds would say nothing of it.
#[derive(Debug)]
pub struct MediumDisk {
    medium: Arc<dyn Medium>,
    size: u64,
    fast: bool,
    group: Group,
    failed: OnceLock<Halt>,
}

impl MediumDisk {
    /// All of `medium`, in whole sectors of 512 bytes.
    ///
    /// # Errors
    /// The medium cannot say how long it is.
    pub fn new(medium: Arc<dyn Medium>) -> Result<MediumDisk, DiskError> {
        let size = medium.size()? / 512 * 512;
        let fast = medium.discard_is_fast();
        Ok(MediumDisk { medium, size, fast, group: Group::default(), failed: OnceLock::new() })
    }

    fn admit(&self, at: u64, bytes: u64) -> Result<(), DiskError> {
        inside(at, bytes, self.size)?;
        self.failed.get().map_or(Ok(()), |why| Err(DiskError::Stopped(why.clone())))
    }

    fn done(&self, fua: bool) -> Result<Done, DiskError> {
        if fua { self.flush() } else { Ok(Done::NOW) }
    }
}

impl Disk for MediumDisk {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: self.size,
            block: 512,
            atomic: 512,
            volatile: true,
            trim: true,
            read_only: false,
        }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        inside(at, into.len() as u64, self.size)?;
        self.medium.read(at, into)?;
        Ok(Done::NOW)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.admit(at, from.len() as u64)?;
        if from.is_empty() {
            return Ok(Done::NOW);
        }
        self.medium.write(at, from)?;
        self.done(fua)
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.admit(0, 0)?;
        let result = self.group.flush(|| {
            // Another one may have been told of the error since this was admitted: nobody is told twice.
            if let Some(why) = self.failed.get() {
                return Err(why.clone());
            }
            let failed = |error| self.failed.get_or_init(|| Halt::from(&error)).clone();
            self.medium.sync().map_err(failed)
        });
        result.map(|()| Done::NOW).map_err(DiskError::Stopped)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.admit(at, bytes)?;
        let (start, end) = (at.next_multiple_of(BLOCK), (at + bytes) / BLOCK * BLOCK);
        if start < end {
            self.medium.discard(start, end - start)?;
        }
        self.done(fua && bytes > 0)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.admit(at, bytes)?;
        let end = at + bytes;
        let (first, last) = (at.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
        if keep || first >= last {
            write_zeroes(&*self.medium, at, bytes)?;
        } else {
            write_zeroes(&*self.medium, at, first - at)?;
            self.medium.discard(first, last - first)?;
            write_zeroes(&*self.medium, last, end - last)?;
        }
        self.done(fua && bytes > 0)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.fast && !keep && at.is_multiple_of(BLOCK) && bytes.is_multiple_of(BLOCK)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        inside(at, bytes, self.size)?;
        let (mut found, mut next, end) = (Vec::new(), at, at + bytes);
        while next < end && found.len() < most {
            let data = self.medium.data_from(next)?.unwrap_or(end..end);
            let start = data.start.clamp(next, end);
            if start > next {
                found.push(Extent { bytes: start - next, hole: true });
                next = start;
            }
            let stop = data.end.clamp(next, end);
            if stop > next && found.len() < most {
                found.push(Extent { bytes: stop - next, hole: false });
                next = stop;
            }
        }
        Ok(found)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (asked, ran) = self.group.counts();
        vec![("flushes_asked", asked), ("syncs", ran)]
    }
}
