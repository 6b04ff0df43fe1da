//! What a front-end serves: a device of bytes that many threads use at once.

mod below;
mod blocks;
mod device;
mod done;
mod drive;
mod drive_tx;
mod log;
mod medium;
mod meter;
mod model;
mod named;
mod paper;
mod ram;
mod read_only;
mod record;
mod record_data;
mod transact;
mod witness;

use std::fmt::Debug;
use std::io;

pub use below::DiskMedium;
pub use blocks::Blocks;
pub use device::DiskDevice;
pub use done::{Done, Lives};
pub use drive::CutDrive;
pub use log::LogDisk;
pub use medium::MediumDisk;
pub use meter::{Asked, Meter, Metered};
pub use model::{ModelDisk, Modelled, Timing};
pub use named::NamedMedium;
pub use paper::{MediumDevice, PaperDisk};
pub use ram::RamDisk;
pub use read_only::ReadOnly;
pub use record::{Recorded, Recorder};
pub use record_data::DataRecorded;
pub use remap::MediumStore;
pub use remap::live::{Extent, Group, Halt};
use remap::live::{LiveError, is_full};
pub use transact::{Ask, Told, TransactError, Transactor};
pub use witness::Witness;

/// What a disk can do. Nothing is advertised that is not here, nothing here is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Size in bytes.
    pub size: u64,
    /// Bytes below which a write costs a read as well; a power of two. Any offset and length is
    /// served.
    pub block: u32,
    /// Bytes of a write that a power cut leaves whole or not at all.
    pub atomic: u32,
    /// There is something to flush: an acknowledged write may be lost until then.
    pub volatile: bool,
    /// [`Disk::trim`] does something.
    pub trim: bool,
    /// Refuses whatever would change it.
    pub read_only: bool,
}

/// Why a disk refuses.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The request reaches beyond the end.
    #[error("{bytes} bytes at {at}: the disk has {size}")]
    Range {
        /// First byte.
        at: u64,
        /// Length of the request.
        bytes: u64,
        /// Size of the disk.
        size: u64,
    },
    /// The disk may only be read.
    #[error("the disk is read-only")]
    ReadOnly,
    /// There is no room left; what was there before still is.
    #[error("no space: {0}")]
    NoSpace(String),
    /// The power is off.
    #[error("the power is off")]
    PowerOff,
    /// The data there is known to be damaged.
    #[error("damaged: {0}")]
    Damaged(String),
    /// After a failed write or flush nothing is written any more.
    #[error("stopped after an error: {0}")]
    Stopped(Halt),
    /// An open transaction has written a page there: nobody else may, until it has ended.
    #[error("sector {0} belongs to a page of an open transaction")]
    InTransaction(block::Lba),
    /// What the system below said.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<DiskError> for Halt {
    fn from(error: DiskError) -> Halt {
        match error {
            DiskError::Stopped(halt) => halt,
            other => Halt { full: other.is_full(), why: other.to_string() },
        }
    }
}

impl From<LiveError> for DiskError {
    fn from(error: LiveError) -> DiskError {
        match error {
            LiveError::NoSpace(why) => DiskError::NoSpace(why),
            LiveError::Damaged(what) => DiskError::Damaged(what),
            LiveError::Stopped(halt) => DiskError::Stopped(halt),
            LiveError::Io(error) => DiskError::Io(error),
        }
    }
}

impl DiskError {
    /// Whether space ran out, here or below.
    pub fn is_full(&self) -> bool {
        match self {
            DiskError::NoSpace(_) => true,
            DiskError::Stopped(halt) => halt.full,
            DiskError::Io(error) => is_full(error),
            _ => false,
        }
    }
}

/// Whether a request lies inside a disk of `size` bytes.
///
/// # Errors
/// [`DiskError::Range`].
pub fn inside(at: u64, bytes: u64, size: u64) -> Result<(), DiskError> {
    match at.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(DiskError::Range { at, bytes, size }),
    }
}

/// What one write of several writes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Piece<'a> {
    /// First byte on the disk.
    pub at: u64,
    /// What belongs there.
    pub bytes: &'a [u8],
}

/// A device of bytes. All methods may be called by many threads at once; a request of zero bytes
/// succeeds and does nothing.
///
/// A write that was answered is seen by every read that begins afterwards. It is durable when a
/// [`Disk::flush`] that began after the answer has returned, or when the write itself was asked
/// to be. Overlapping requests in flight together take effect in some order. What a method did is
/// done when it returns; its answer leaves when [`Done`] says so.
pub trait Disk: Debug + Send + Sync {
    /// What it can do; never changes.
    fn capabilities(&self) -> Capabilities;

    /// Reads exactly `into.len()` bytes.
    ///
    /// # Errors
    /// [`DiskError`]; `into` holds nothing to be believed then.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError>;

    /// Writes all of `from`; with `fua` it is durable when this returns.
    ///
    /// # Errors
    /// [`DiskError`]; each block holds old or new bytes then.
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError>;

    /// Whether several writes cost less through [`Disk::write_each`].
    fn joins_writes(&self) -> bool {
        false
    }

    /// Writes several pieces in this order and tells of each, by its place in the list, how it ended:
    /// as if by [`Disk::write`] one after the other, none of them forced.
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        for (i, piece) in pieces.iter().enumerate() {
            ended(i, self.write(piece.at, piece.bytes, false));
        }
    }

    /// Returns when everything answered before is durable. Has no address.
    ///
    /// # Errors
    /// [`DiskError`]; nothing is known to be durable then.
    fn flush(&self) -> Result<Done, DiskError>;

    /// Forgets whole blocks inside the range: they read as zeroes. Any length.
    ///
    /// # Errors
    /// [`DiskError`].
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError>;

    /// Makes a range read as zeroes, exact to the byte, any length. With `keep` the space stays
    /// taken: real zeroes are written.
    ///
    /// # Errors
    /// [`DiskError`].
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError>;

    /// Whether [`Disk::zero`] of this range needs no data written at all.
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool;

    /// The state of a range as at most `most` extents from `at` on, covering all of the range
    /// unless `most` is reached.
    ///
    /// # Errors
    /// [`DiskError`].
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError>;

    /// Transactions and remapping, where the disk has them.
    ///
    /// # Errors
    /// [`TransactError`].
    fn transact(&self, ask: Ask<'_>) -> Result<Told, TransactError> {
        let _ = ask;
        Err(TransactError::NotOffered)
    }

    /// A clean stop: everything is durable, and what makes the next start quick is written. The
    /// disk is not used afterwards.
    ///
    /// # Errors
    /// As a flush.
    fn close(&self) -> Result<(), DiskError> {
        self.flush().and_then(Done::wait)
    }

    /// Counters of the stack, one name and number each, for people and for `stats`.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
