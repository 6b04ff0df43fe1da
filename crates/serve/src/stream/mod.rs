//! What every server of byte streams has: sockets, buffers of fixed size, and seats for clients.
//!
//! ```text
//! address, transport      where it listens; bytes both ways
//! input, output, delay    a connection's buffers
//! host                    threads, seats, limits, stop
//! counters                what is counted, by name
//! ```

pub mod address;
mod counters;
mod delay;
pub mod host;
pub mod input;
pub mod output;
pub mod transport;

pub use address::{Address, Listener};
pub(crate) use counters::counters;
#[cfg(feature = "vhost-user")]
pub(crate) use delay::{Delay, REPLIES};
pub use input::Input;
pub use output::Output;
pub use transport::{Socket, Transport};
