//! NVMe over TCP: a controller whose namespaces are stacks. Bytes of PDUs and commands, and the other end of the wire,
//! are those of `wire::nvme`.
//!
//! ```text
//! status                which error of a disk is which status
//! connection, work      one socket: PDUs in, answers out in batches    transfer   data to the controller
//! subsystem, namespace  what is served      association   one host: registers, events, transactions
//! fabrics, admin, io, vendor     the commands      writes   those that come together
//! claim                 who alone may write a namespace
//! authenticate, gate    who a host is
//! identify, logs, discovery   what they tell
//! server, powered       threads, power
//! ```
//!
//! Trusted are the operator and the machine; no byte of a host is. What a host may cost is fixed: one
//! thread a connection (two while a drive's latencies are emulated), one buffer each way and one of the
//! largest transfer, one transfer to the controller at a time, 10 seconds from the first byte to Connect,
//! 30 seconds for each PDU, and no more connections than the server has seats. A host that is not heard of
//! for its keep-alive time is gone: its transactions are aborted.

mod admin;
mod association;
mod authenticate;
mod claim;
mod connection;
mod discovery;
mod fabrics;
mod gate;
mod identify;
mod io;
mod logs;
mod namespace;
mod planted;
mod powered;
mod server;
mod stats;
pub mod status;
mod subsystem;
mod transfer;
mod vendor;
mod work;
mod writes;

pub use connection::{End, serve};
pub use namespace::Namespace;
#[doc(hidden)]
pub use planted::Bug;
pub use server::{Handle, Server};
pub use stats::{Counts, Stats};
pub use status::{Failure, Status};
pub use subsystem::{Digest, Options, Subsystem};
pub use wire::nvme::auth::{SecretError, Secrets};
pub use wire::nvme::identity::DISCOVERY;
pub use wire::nvme::{Initiator, InitiatorError, codec, initiator, pdu};
