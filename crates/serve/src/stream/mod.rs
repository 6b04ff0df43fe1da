//! What every server of byte streams has: sockets, buffers of fixed size, and seats for clients.
//!
//! ```text
//! listener        where it listens (addresses, sockets and what comes in: `wire::stream`)
//! output, delay   a connection's answers
//! host            threads, seats, limits, stop
//! counters        what is counted, by name
//! ```

mod counters;
mod delay;
pub mod host;
mod listener;
pub mod output;

pub(crate) use counters::counters;
#[cfg(feature = "vhost-user")]
pub(crate) use delay::{Delay, REPLIES};
pub use listener::Listener;
pub use output::Output;
pub use wire::stream::{Address, Input, Socket, Transport, input, transport};
