//! The device's file.
//!
//! Invariants: an answer other than an error leaves only after the disk gave it; an error of the
//! disk is never one that the kernel takes for "not implemented", because it would then stop
//! asking (and call every later `fsync` a success).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::{Errno, ReplyData};
use rustix::fs::FallocateFlags;

use crate::kernel;
use stack::disk::{Capabilities, Disk, DiskError, Done};

/// Extents asked for at once while data or a hole is looked for.
const EXTENTS: usize = 1024;

/// A disk as the bytes of a file.
#[derive(Debug)]
pub(super) struct DeviceFile {
    pub(super) disk: Arc<dyn Disk>,
    /// Requests that the disk refused although they were in order.
    pub(super) errors: Arc<AtomicU64>,
}

impl DeviceFile {
    pub(super) fn capabilities(&self) -> Capabilities {
        self.disk.capabilities()
    }

    /// What a refusal of the disk is called here.
    fn refused(&self, error: &DiskError, beyond: Errno) -> Errno {
        match error {
            DiskError::Range { .. } => beyond,
            DiskError::ReadOnly => Errno::EROFS,
            full if full.is_full() => self.counted(Errno::ENOSPC),
            DiskError::NoSpace(_)
            | DiskError::PowerOff
            | DiskError::Damaged(_)
            | DiskError::Stopped(_)
            | DiskError::InTransaction(_)
            | DiskError::Io(_) => self.counted(Errno::EIO),
        }
    }

    fn counted(&self, error: Errno) -> Errno {
        self.errors.fetch_add(1, Ordering::Relaxed);
        error
    }

    /// Waits until the answer of the disk may leave.
    fn answered(&self, answer: Result<Done, DiskError>, beyond: Errno) -> Result<(), Errno> {
        answer.and_then(Done::wait).map_err(|e| self.refused(&e, beyond))
    }

    /// Whether all of a range lies inside.
    fn inside(&self, at: u64, bytes: u64) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.disk.capabilities().size)
    }

    /// Answers with bytes of the disk.
    pub(super) fn read(&self, at: u64, bytes: u32, reply: ReplyData) {
        // A file ends where it ends: what lies beyond is not there, and that is no error.
        let left = self.disk.capabilities().size.saturating_sub(at);
        let bytes = u64::from(bytes).min(left) as u32;
        if bytes == 0 {
            return reply.data(&[]);
        }
        kernel::with_buffer(bytes, |buffer| {
            match self.answered(self.disk.read(at, buffer), Errno::EIO) {
                Ok(()) => reply.data(buffer),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// Bytes written: all of them; they are durable then, if that is asked for.
    pub(super) fn write(&self, at: u64, data: &[u8], durable: bool) -> Result<u32, Errno> {
        let bytes = u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        if !self.inside(at, u64::from(bytes)) {
            return Err(Errno::ENOSPC);
        }
        self.answered(self.disk.write(at, data, durable), Errno::ENOSPC).map(|()| bytes)
    }

    /// Makes everything written durable.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        self.answered(self.disk.flush(), Errno::EIO)
    }

    /// `fallocate`: holes and zeroes.
    pub(super) fn allocate(&self, at: u64, bytes: u64, mode: i32) -> Result<(), Errno> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let keep = match mode - FallocateFlags::KEEP_SIZE {
            FallocateFlags::PUNCH_HOLE => false,
            FallocateFlags::ZERO_RANGE => true,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        if !self.inside(at, bytes) {
            return Err(Errno::ENOSPC);
        }
        self.answered(self.disk.zero(at, bytes, keep, false), Errno::ENOSPC)
    }

    /// The first byte from `at` on that is data, or is not.
    pub(super) fn seek(&self, mut at: u64, want_hole: bool) -> Result<u64, Errno> {
        let size = self.disk.capabilities().size;
        if at >= size {
            return Err(Errno::ENXIO);
        }
        while at < size {
            let found = self.disk.extents(at, size - at, EXTENTS);
            let found = found.map_err(|e| self.refused(&e, Errno::ENXIO))?;
            let before = at;
            for extent in found {
                if extent.hole == want_hole && extent.bytes > 0 {
                    return Ok(at);
                }
                at = at.saturating_add(extent.bytes);
            }
            if at == before {
                // A disk that says nothing about what it was asked would keep us here for ever.
                return Err(Errno::EIO);
            }
        }
        // Behind the last byte every file has a hole.
        if want_hole { Ok(size) } else { Err(Errno::ENXIO) }
    }
}
