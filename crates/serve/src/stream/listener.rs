//! Where a server listens.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::stream::{Address, Socket};

#[derive(Debug)]
enum Kind {
    /// The socket, its path, and the file that is at it.
    Unix(UnixListener, PathBuf, Option<(u64, u64)>),
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

/// Device and inode of the file at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
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
                Kind::Unix(listener, path.clone(), file_at(path))
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
            Kind::Unix(_, path, _) => Ok(Address::Unix(path.clone())),
            Kind::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Unix(listener, ..) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Another descriptor of a unix socket, for whoever accepts by himself.
    #[cfg(feature = "vhost-user")]
    pub(crate) fn unix(&self) -> Option<io::Result<UnixListener>> {
        match &self.0 {
            Kind::Unix(listener, ..) => Some(listener.try_clone()),
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
            Kind::Unix(listener, ..) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
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

/// The socket of a server that stopped would only be in the way; one that another server has put there since is not its.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path, file) = &self.0
            && file_at(path) == *file
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_takes_away_its_own_socket_and_no_other() {
        let path = std::env::temp_dir().join(format!("varve-listener-{}", std::process::id()));
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address).unwrap();
        assert!(Listener::bind(&address).is_err(), "somebody listens there");
        // As a user does who stops one server and begins the next.
        std::fs::remove_file(&path).unwrap();
        let second = Listener::bind(&address).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok(), "the second one's socket is there");
        drop(second);
        assert!(!path.exists());
    }
}
