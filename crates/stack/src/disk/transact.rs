//! Transactions and remapping of a disk: all of [`block::tx`], for many threads at once.
//!
//! Invariant: a layer that does not pass this on has none: whoever asks is told so, and nothing is done
//! halfway. Ranges are the asker's to check, as of any request below a disk.

use block::{Lpn, Remap, Transactional, TxError, TxId, TxLimits};

use super::{DiskError, Done};

/// What a disk with transactions may be asked.
#[derive(Debug)]
pub enum Ask<'a> {
    /// What it can hold.
    Limits,
    /// Opens the next transaction.
    Begin,
    /// Writes whole pages for a transaction.
    Write(TxId, Lpn, &'a [u8]),
    /// Reads whole pages as a transaction sees them.
    Read(TxId, Lpn, &'a mut [u8]),
    /// Makes this many pages read as zeroes once the transaction is committed.
    Trim(TxId, Lpn, u32),
    /// Commits together: all or none, durable when it is answered.
    Commit(&'a [TxId]),
    /// Brings back what was committed.
    Abort(TxId),
    /// For each (destination, source): the destination gets the source's page. All or none, durable.
    Remap(&'a [(Lpn, Lpn)]),
}

/// What it answers.
#[derive(Clone, Debug)]
pub enum Told {
    /// To [`Ask::Limits`].
    Limits(TxLimits),
    /// To [`Ask::Begin`].
    Begun(TxId),
    /// To everything else.
    Done(Done),
}

/// Why it refuses.
#[derive(Debug, thiserror::Error)]
pub enum TransactError {
    /// There are no transactions here.
    #[error("this disk has no transactions")]
    NotOffered,
    /// The transaction is as it was, and may be continued.
    #[error(transparent)]
    Refused(TxError),
    /// What any request may meet. After an error of a commit the outcome is unknown until the next
    /// power-on.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl From<TxError> for TransactError {
    fn from(error: TxError) -> TransactError {
        match error {
            TxError::Device(error) => TransactError::Disk(error.into()),
            refused => TransactError::Refused(refused),
        }
    }
}

/// A device with transactions.
pub trait Transactor: Transactional + Remap {}

impl<D: Transactional + Remap> Transactor for D {}
