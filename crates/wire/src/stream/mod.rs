//! Byte streams: where a peer is, sockets, what has come and is not handled yet.

mod address;
pub mod input;
pub mod transport;

pub use address::Address;
pub use input::Input;
pub use transport::{PATIENCE, Socket, Transport, write_all};
