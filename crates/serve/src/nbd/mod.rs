//! NBD: the server, and the wire it speaks.
//!
//! ```text
//! wire       the protocol's numbers; frames as bytes
//! negotiate  the handshake as a machine: bytes in, bytes out
//! session    requests after it      writes   those that come together
//! server     clients of exports     export   a disk under a name, and what is said of it
//! ```
//!
//! Trusted are the operator and the machine; no byte of a client is. What one client may cost is
//! fixed: one thread (two while a drive's latencies are emulated), one buffer each way, 64 options
//! and 10 seconds for the handshake, 30 seconds for each piece of a request or an answer.

pub mod client;
pub mod export;
pub mod negotiate;
pub mod server;
mod session;
mod stats;
pub mod wire;
mod writes;

pub use client::{Client, ClientError};
pub use export::Export;
pub use server::{Handle, Limits, Server, handshake, session};
pub use session::End;
pub use stats::{Counts, Stats};

pub use crate::stream::{Address, Input};
