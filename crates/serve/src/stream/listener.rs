//! Where a server listens.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::stream::{Address, Socket};

#[derive(Debug)]
enum Kind {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// A socket that accepts.
#[derive(Debug)]
pub struct Listener(Kind);

/// Removes a socket that nobody listens on: what a process that was killed leaves.
fn clear(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)
            }
            _ => Err(io::ErrorKind::AddrInUse.into()),
        },
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    /// What the system said; somebody listens there.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        let kind = match address {
            Address::Unix(path) => {
                clear(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Kind::Unix(listener, path.clone())
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Kind::Tcp(listener)
            }
        };
        Ok(Listener(kind))
    }

    /// Where, with the port that was found if none was asked for.
    ///
    /// # Errors
    /// What the system said.
    pub fn address(&self) -> io::Result<Address> {
        match &self.0 {
            Kind::Unix(_, path) => Ok(Address::Unix(path.clone())),
            Kind::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Unix(listener, _) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Another descriptor of a unix socket, for whoever accepts by himself.
    #[cfg(feature = "vhost-user")]
    pub(crate) fn unix(&self) -> Option<io::Result<UnixListener>> {
        match &self.0 {
            Kind::Unix(listener, _) => Some(listener.try_clone()),
            Kind::Tcp(_) => None,
        }
    }

    /// Whether a client comes within `time`.
    ///
    /// # Errors
    /// What the system said.
    pub fn wait(&self, time: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::IN)];
        let within = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&within)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The next client, if one comes within `time`.
    ///
    /// # Errors
    /// What the system said.
    pub fn accept_within(&self, time: Duration) -> io::Result<Option<Socket>> {
        if !self.wait(time)? {
            return Ok(None);
        }
        let accepted = match &self.0 {
            Kind::Unix(listener, _) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
            Kind::Tcp(listener) => listener.accept().and_then(|(socket, _)| {
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The socket of a server that stopped would only be in the way.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
