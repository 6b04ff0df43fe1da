//! Which error of a disk is which status.

use block::TxError;
use stack::disk::{DiskError, TransactError};
pub use wire::nvme::status::Status;

/// Why a command fails: its status, and words 0 and 1 of its completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What is answered.
    pub status: Status,
    /// What is said of it.
    pub result: u64,
    /// The power is off: a drive would not answer at all.
    pub dark: bool,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure { status, result: 0, dark: false }
    }
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Failure {
        let status = match error {
            DiskError::Range { .. } => Status::LBA_RANGE,
            DiskError::ReadOnly => Status::WRITE_PROTECTED,
            DiskError::Damaged(_) => Status::UNREADABLE,
            DiskError::InTransaction(_) => Status::TX_CONFLICT,
            full if full.is_full() => Status::CAPACITY,
            DiskError::PowerOff => return Failure { dark: true, ..Status::INTERNAL.into() },
            DiskError::NoSpace(_) | DiskError::Stopped(_) | DiskError::Io(_) => Status::INTERNAL,
        };
        status.into()
    }
}

impl From<TransactError> for Failure {
    fn from(error: TransactError) -> Failure {
        let (status, result) = match error {
            TransactError::Disk(error) => return error.into(),
            TransactError::NotOffered => (Status::INVALID_OPCODE, 0),
            TransactError::Refused(TxError::Full(pages)) => (Status::TX_FULL, u64::from(pages)),
            TransactError::Refused(TxError::Conflict { owner, .. }) => {
                (Status::TX_CONFLICT, owner.0 & u64::from(u32::MAX))
            }
            TransactError::Refused(TxError::Unknown(_)) => (Status::TX_UNKNOWN, 0),
            TransactError::Refused(TxError::TooManyOpen(open)) => {
                (Status::TX_TOO_MANY, u64::from(open))
            }
            TransactError::Refused(TxError::Span { span, .. }) => (Status::TX_SPAN, span),
            TransactError::Refused(TxError::Device(error)) => {
                return DiskError::from(error).into();
            }
        };
        Failure { status, result, dark: false }
    }
}
