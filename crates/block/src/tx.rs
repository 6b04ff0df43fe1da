//! Capabilities beyond plain blocks: transactions (paper 4), a log of commits beside them, and
//! remapping of page pairs.
//!
//! A layer that cannot keep one of these promises does not implement the trait. Pages are
//! [`crate::UNIT_BYTES`] long and named by [`Lpn`]: page n lies at sector 8 n.

use std::sync::Arc;

use crate::{BlockDevice, Bytes, Data, DeviceError, Lpn, Time, TxId};

/// What a transactional device can hold. All sizes are fixed when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxLimits {
    /// Transactions open at once.
    pub max_open: u32,
    /// Pages all open transactions may have written together (the P2P table of paper 4).
    pub pages: u32,
    /// Distance between the oldest open transaction and the next one.
    pub span: u64,
    /// The transaction that [`Transactional::tx_begin`] would hand out next.
    pub next: TxId,
}

/// Why a transactional device refuses. The transaction is as it was before the call, and may be
/// continued, committed or aborted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TxError {
    /// The table of pages of open transactions is full.
    #[error("open transactions hold {0} pages, as many as this device keeps")]
    Full(u32),
    /// Another open transaction has written this page.
    #[error("page {page} belongs to the open transaction {owner}")]
    Conflict {
        /// The page.
        page: Lpn,
        /// Who has written it.
        owner: TxId,
    },
    /// No such transaction is open: it was never begun, has ended, or is from before a power-on.
    #[error("transaction {0} is not open")]
    Unknown(TxId),
    /// As many transactions are open as the device allows.
    #[error("{0} transactions are open, as many as this device allows")]
    TooManyOpen(u32),
    /// The oldest open transaction is too far behind the next number.
    #[error("transaction {oldest} is still open: the device spans {span} numbers")]
    Span {
        /// The oldest open transaction.
        oldest: TxId,
        /// Numbers that may lie between it and the next.
        span: u64,
    },
    /// What any request may meet. After an error of a commit the outcome is unknown until the
    /// next power-on.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Transactions without logging: the pages of a transaction become visible and durable together,
/// at its commit, or never (contract C4).
///
/// A page of an open transaction can be written by that transaction alone: a plain write or
/// discard of it is refused as [`TxError::Conflict`] or, through
/// [`BlockDevice::submit`], as [`DeviceError::InTransaction`]. A lost client's transactions are
/// aborted by whoever loses it.
pub trait Transactional: BlockDevice {
    /// What the device can hold.
    fn tx_limits(&self) -> TxLimits;

    /// Opens the next transaction. No I/O.
    ///
    /// # Errors
    /// [`TxError::TooManyOpen`], [`TxError::Span`].
    fn tx_begin(&mut self) -> Result<TxId, TxError>;

    /// Writes a page for an open transaction; a number not handed out yet opens it. `data` is
    /// [`Data::None`], one page, or one stamp.
    ///
    /// # Errors
    /// Any [`TxError`].
    fn tx_write(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>)
    -> Result<Time, TxError>;

    /// Makes pages read as zeroes once the transaction is committed.
    ///
    /// # Errors
    /// Any [`TxError`].
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError>;

    /// Reads a page as the transaction sees it: its own version, else the committed one.
    ///
    /// # Errors
    /// [`TxError::Unknown`], [`TxError::Device`].
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError>;

    /// Commits transactions together: all of them or none, durable at the returned time. One
    /// that has written nothing costs nothing.
    ///
    /// # Errors
    /// [`TxError::Unknown`], [`TxError::Device`].
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError>;

    /// Brings the committed versions back. A number that is not open is no error.
    ///
    /// # Errors
    /// [`TxError::Device`].
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError>;

    /// Its log of commits, if it has one. A layer that does not pass on what a log promises has none.
    fn commit_log(&mut self) -> Option<&mut dyn CommitLog> {
        None
    }

    /// The log that somebody keeps on pages of it, for whoever appends while others use the device; `None`: it is
    /// appended to in turn with them.
    fn log_on_pages(&self, _first: Lpn) -> Option<Arc<dyn LogSink>> {
        None
    }

    /// How it grows, if it can still. A layer that does not pass on its capacity does not.
    fn growth(&mut self) -> Option<&mut dyn Growth> {
        None
    }
}

/// A device that can become larger while it is used.
pub trait Growth {
    /// What it may hold one day.
    fn most(&self) -> Bytes;

    /// Lets it hold `capacity` bytes: all that it holds stays where it is, and the rest reads as zeroes. Transactions
    /// that are open are gone; what was written is durable. `log`: bytes of its log of commits, if it gets a new one,
    /// which is empty.
    ///
    /// # Errors
    /// [`DeviceError::NoSpace`] where there is no room; the device is as it was. After any other error it may have
    /// failed.
    fn grow(&mut self, at: Time, capacity: Bytes, log: Bytes) -> Result<Time, DeviceError>;
}

/// Room for a log of commits beside the pages: written in place, outside of whatever maps these, so
/// that a short record costs no more than itself. After an error of an append nobody knows what is
/// there.
pub trait CommitLog {
    /// Bytes there are: a multiple of [`CommitLog::log_grain`].
    fn log_bytes(&self) -> u64;

    /// Bytes that are written at least; all places and lengths are multiples.
    fn log_grain(&self) -> u32;

    /// The byte it begins at in what holds it: for whoever names a damaged place.
    fn log_start(&self) -> u64;

    /// Writes; durable at the returned time, and until then each sector is old or new.
    ///
    /// # Errors
    /// The device's.
    fn log_append(&mut self, at: Time, offset: u64, bytes: &[u8]) -> Result<Time, DeviceError>;

    /// Reads what was written.
    ///
    /// # Errors
    /// The device's.
    fn log_read(&mut self, at: Time, offset: u64, out: &mut [u8]) -> Result<Time, DeviceError>;

    /// The same log for whoever appends while others use the device; `None`: it is appended to in turn with them.
    fn log_sink(&self) -> Option<Arc<dyn LogSink>> {
        None
    }
}

/// A log of commits beside its device: an append waits for its own bytes, and holds up nobody who reads or writes
/// pages meanwhile.
pub trait LogSink: Send + Sync {
    /// See [`CommitLog::log_append`]: durable on return.
    ///
    /// # Errors
    /// The device's.
    fn append(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;
}

/// Moving pages by changing the map (what SW-WAL's checkpoint needs).
pub trait Remap: BlockDevice {
    /// For each (destination, source): the destination names the source's page, and the source
    /// reads as zeroes. All pairs together or none, durable at the returned time.
    ///
    /// # Errors
    /// [`TxError::Conflict`] for a page of an open transaction, [`TxError::Device`].
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError>;

    /// Pairs that one call may have at most.
    fn remap_most(&self) -> usize {
        usize::MAX
    }
}
