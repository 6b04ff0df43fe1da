//! NVMe over TCP: bytes, and the end of the wire that asks.
//!
//! ```text
//! pdu, codec, status, identity   bytes: PDUs, commands and completions, what came of a command, what there is
//! initiator                      a host: what the checks, the tests and the load ask controllers with
//! auth                           who both ends are, by secrets
//! place, drive, log              a namespace with transactions as a device, and a log of commits on it
//! ```

pub mod auth;
pub mod codec;
pub mod drive;
pub mod identity;
pub mod initiator;
mod log;
pub mod pdu;
pub mod place;
pub mod status;

pub use drive::{Drive, DriveError};
pub use initiator::{Initiator, InitiatorError};
pub use place::Place;
pub use status::Status;
