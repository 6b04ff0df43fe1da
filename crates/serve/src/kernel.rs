//! What every file system served here tells the kernel, and hears from it, by FUSE.
//!
//! Invariant: no answer to a read is longer than [`LARGEST`], nor the buffer that it is made in.

use std::cell::RefCell;
use std::io;

use fuser::{Errno, KernelConfig, OpenFlags, ReplyEmpty, ReplyLseek};
use rustix::fs::OFlags;

/// Bytes of one request at most; larger ones the kernel splits.
pub(crate) const LARGEST: u32 = 1 << 20;
/// Requests that the kernel may have with us at once beyond those that somebody waits in.
const BACKGROUND: u16 = 256;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

thread_local! {
    /// One for each thread of a session.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the kernel refuses, as an error of the session.
pub(crate) fn refused(what: &str) -> io::Error {
    io::Error::other(format!("the kernel refuses {what}"))
}

/// Sets the limits of requests.
pub(crate) fn limit(config: &mut KernelConfig) -> io::Result<()> {
    config.set_max_write(LARGEST).map_err(|_| refused("requests of 1 MiB"))?;
    config.set_max_background(BACKGROUND).map_err(|_| refused("256 requests at once"))?;
    Ok(())
}

/// Calls `read` with the thread's buffer, as long as was asked for but for [`LARGEST`].
pub(crate) fn with_buffer<R>(bytes: u32, read: impl FnOnce(&mut [u8]) -> R) -> R {
    let bytes = bytes.min(LARGEST) as usize;
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        read(&mut buffer[..bytes])
    })
}

/// Whether what is written through an open file of these flags must be durable when it is answered.
pub(crate) fn durable(flags: OpenFlags) -> bool {
    // O_SYNC holds the bit of O_DSYNC; RWF_DSYNC sets it for one write.
    flags.0 as u32 & OFlags::DSYNC.bits() != 0
}

/// From where data is looked for, or a hole (`true`).
pub(crate) fn sought(offset: i64, whence: i32) -> Result<(u64, bool), Errno> {
    if ![SEEK_DATA, SEEK_HOLE].contains(&whence) {
        return Err(Errno::EINVAL);
    }
    let at = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    Ok((at, whence == SEEK_HOLE))
}

/// Answers with the offset found or the error.
pub(crate) fn answer_offset(found: Result<u64, Errno>, reply: ReplyLseek) {
    match found.and_then(|at| i64::try_from(at).map_err(|_| Errno::EOVERFLOW)) {
        Ok(at) => reply.offset(at),
        Err(error) => reply.error(error),
    }
}

/// Answers with nothing but success or the error.
pub(crate) fn finish(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
