//! Where a peer is.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::transport::Socket;

/// Where a server listens, or a client finds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A unix stream socket.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Address::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

impl Address {
    /// Whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp(address) => address.ip().is_loopback(),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// What the system said.
    pub fn connect(&self) -> io::Result<Socket> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
            Address::Tcp(address) => TcpStream::connect(address).and_then(|socket| {
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }),
        }
    }
}
