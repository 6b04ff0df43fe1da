//! Why a device refuses or fails a request.

use crate::{Lba, Sectors, Time};

/// A device's typed error. After any of these the device still obeys its contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The request does not lie inside the device.
    #[error("sectors {} to {} lie beyond the device's {capacity} sectors", lba, lba.0.saturating_add(sectors.0))]
    OutOfRange {
        /// First sector asked for.
        lba: Lba,
        /// Number of sectors asked for.
        sectors: Sectors,
        /// Size of the device.
        capacity: Sectors,
    },
    /// A request's time lies before an earlier request's.
    #[error("submitted at {at:?}, after a request at {last:?}: times may not fall")]
    TimeReversed {
        /// Time of this request.
        at: Time,
        /// Time of the latest request before it.
        last: Time,
    },
    /// Virtual time is at its end (106 days for submissions).
    #[error("virtual time ends 106 days after its start; the request is at {0:?}")]
    TimeExhausted(Time),
    /// No line gains space by cleaning: more valid data than the spare space can turn over.
    #[error("no space: {0}")]
    NoSpace(&'static str),
    /// The drive has no spare blocks left, or met an error it may not write past; reads work.
    #[error("the drive is read-only: {0}")]
    ReadOnly(&'static str),
    /// A unit could not be read: detected, never returned as data (contract C6).
    #[error("uncorrectable read at sector {0}")]
    Unreadable(Lba),
    /// A plain write or discard of a page that an open transaction has written.
    #[error("sector {0} belongs to a page of an open transaction")]
    InTransaction(Lba),
    /// Power is gone; nothing works until the drive is mounted again.
    #[error("power is off")]
    PowerOff,
    /// The request asks for what this device does not have, or its parts do not fit together.
    #[error("unsupported request: {0}")]
    Unsupported(&'static str),
    /// The backing of a live device failed.
    #[error("i/o error: {0}")]
    Io(String),
}
