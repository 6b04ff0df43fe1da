//! NVMe over TCP: bytes, and the end of the wire that asks.
//!
//! ```text
//! pdu, codec, status, identity   bytes: PDUs, commands and completions, what came of a command, what there is
//! initiator                      a host: what the checks, the tests and the load ask controllers with
//! ```

pub mod codec;
pub mod identity;
pub mod initiator;
pub mod pdu;
pub mod status;

pub use initiator::{Initiator, InitiatorError};
pub use status::Status;
