//! DH-HMAC-CHAP, by which a host shows a controller that it knows a secret, and a controller shows its host the same
//! (NVM Express Base Specification 2.0, 8.13).
//!
//! ```text
//! secret     a secret, as `nvme gen-dhchap-key` prints it; a file of them
//! hash       the hash functions: HMAC over secrets and challenges
//! group      the Diffie-Hellman groups: none, and ffdhe2048 (RFC 7919)
//! message    what both send, as bytes
//! response   what only who knows the secret can answer
//! host       the host's part, message by message
//! ```
//!
//! Invariants: a secret leaves a process in no form, nor does `Debug` show one; a response is compared in a time that does
//! not depend on where it differs; a message is taken apart only when all that it declares is there, and nothing is
//! allocated by what it declares.

mod group;
mod hash;
mod host;
mod message;
mod response;
mod secret;

pub use group::{Group, Pair};
pub use hash::Hash;
pub use host::{Host, HostError};
pub use message::{Challenge, MOST, Message, Negotiate, Reply, Why};
pub use response::{Names, Round, Who};
pub use secret::{CONTROLLER, Secret, SecretError, Secrets};

/// Where random bytes come from: [`crate::random::fill`], or what a test draws.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> std::io::Result<()>;

/// In the answer to Connect: the controller wants to know who is there.
pub const REQUIRED: u64 = 1 << 17;
/// In the same: and a secure channel afterwards, which nothing here offers.
pub const CHANNEL: u64 = 1 << 18;
