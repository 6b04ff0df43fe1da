//! Where a peer is.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::transport::{PATIENCE, Socket};

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

    /// The address of `HOST[:PORT]`; `port` where none is named.
    ///
    /// # Errors
    /// In words: there is no such host.
    pub fn resolve(host: &str, port: u16) -> Result<Address, String> {
        let named = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let whole = if named { host.to_string() } else { format!("{host}:{port}") };
        let found = whole.to_socket_addrs().map_err(|error| format!("{whole}: {error}"))?.next();
        found.map(Address::Tcp).ok_or_else(|| format!("{whole}: no such host"))
    }

    /// Connects.
    ///
    /// # Errors
    /// What the system said.
    pub fn connect(&self) -> io::Result<Socket> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
            Address::Tcp(address) => {
                TcpStream::connect_timeout(address, PATIENCE).and_then(|socket| {
                    socket.set_nodelay(true)?;
                    Ok(Socket::Tcp(socket))
                })
            }
        }
    }
}
