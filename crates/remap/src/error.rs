//! Why a log cannot be made, opened or used.

use block::DeviceError;

/// A typed error of the host log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// An option's name or value is wrong.
    #[error("`{name} = {value}`: expected {expected}")]
    Option {
        /// Name as given.
        name: String,
        /// Value as given.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// The device cannot hold a log of this shape.
    #[error("the device does not fit the log: {0}")]
    Shape(String),
    /// There is no log on the device, or one of another version.
    #[error("no host log here: {0}")]
    NotALog(String),
    /// Reads are to be verified, and the log was made without what that needs.
    #[error("the log keeps no checksums for reads: it was made without them")]
    Unverified,
    /// What a flush made durable is missing or damaged.
    #[error("the log is damaged: {0}")]
    Corrupt(String),
    /// An invariant of the tables does not hold.
    #[error("an invariant is broken: {0}")]
    Broken(String),
    /// The device below failed or refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
