//! A byte stream to a client: a socket, or what a test puts there.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A peer that takes nothing of what is sent for so long is left.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes in order, both ways.
pub trait Transport: Read + Write + Send + Sized + 'static {
    /// A read that gets nothing for so long ends with [`io::ErrorKind::WouldBlock`] or
    /// [`io::ErrorKind::TimedOut`].
    ///
    /// # Errors
    /// What the system said.
    fn read_within(&self, time: Duration) -> io::Result<()>;
    /// The same of writes.
    ///
    /// # Errors
    /// What the system said.
    fn write_within(&self, time: Duration) -> io::Result<()>;
    /// A second hand on the same stream.
    ///
    /// # Errors
    /// What the system said.
    fn twin(&self) -> io::Result<Self>;
    /// Nothing more is read (`true`), or the stream is over both ways.
    fn end(&self, reads_only: bool);
}

/// A socket.
#[derive(Debug)]
pub enum Socket {
    /// A unix stream socket.
    Unix(UnixStream),
    /// TCP.
    Tcp(TcpStream),
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.read(into),
            Socket::Tcp(socket) => socket.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.write(from),
            Socket::Tcp(socket) => socket.write(from),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Socket {
    fn read_within(&self, time: Duration) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.set_read_timeout(Some(time)),
            Socket::Tcp(socket) => socket.set_read_timeout(Some(time)),
        }
    }
    fn write_within(&self, time: Duration) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.set_write_timeout(Some(time)),
            Socket::Tcp(socket) => socket.set_write_timeout(Some(time)),
        }
    }
    fn twin(&self) -> io::Result<Socket> {
        match self {
            Socket::Unix(socket) => socket.try_clone().map(Socket::Unix),
            Socket::Tcp(socket) => socket.try_clone().map(Socket::Tcp),
        }
    }
    fn end(&self, reads_only: bool) {
        let how = if reads_only { Shutdown::Read } else { Shutdown::Both };
        // A stream that is over already cannot be ended, which is well.
        let _ = match self {
            Socket::Unix(socket) => socket.shutdown(how),
            Socket::Tcp(socket) => socket.shutdown(how),
        };
    }
}

/// Whether nothing came, or nothing was taken, in time.
pub fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Writes all of `bytes` within [`PATIENCE`].
///
/// # Errors
/// What the stream said; too late.
pub fn write_all(stream: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    let mut since = None;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // A clock is asked only of a client that does not take it all at once.
        if !bytes.is_empty() && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}
