//! What a store stands on, and what becomes of the device's errors.

use block::{DeviceError, Remap, Transactional, TxError};

use crate::vfs::Code;

/// A device with both capabilities: transactions without logging, and remapping of pages.
pub trait Device: Transactional + Remap + Send {}

impl<D: Transactional + Remap + Send> Device for D {}

/// SQLite's code for a device's error; `otherwise` for what SQLite has no better word for.
pub(super) fn code(error: &TxError, otherwise: Code) -> Code {
    match error {
        TxError::Full(_) | TxError::Device(DeviceError::NoSpace(_)) => Code::FULL,
        TxError::Conflict { .. } | TxError::TooManyOpen(_) | TxError::Span { .. } => Code::BUSY,
        TxError::Unknown(_) | TxError::Device(_) => otherwise,
    }
}

/// The same where something ends: after BUSY there SQLite would try again, and find it ended.
pub(super) fn last_code(error: &TxError, otherwise: Code) -> Code {
    match code(error, otherwise) {
        Code::BUSY => otherwise,
        code => code,
    }
}
