//! A host's stream, as long as the power is on under which it was connected.
//!
//! Invariant: where a subsystem vanishes, not a byte leaves once the power has gone since the connection came, whoever
//! writes and whenever it is back. It is looked for behind the work and before each write, so whatever was flushed for an
//! answer that leaves was flushed in the life that its host knows.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::subsystem::Subsystem;
use crate::stream::Transport;

/// Why nothing leaves any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dark;

impl fmt::Display for Dark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the power went")
    }
}

impl std::error::Error for Dark {}

/// See the module.
#[derive(Debug)]
pub(super) struct Powered<T> {
    stream: T,
    shared: Arc<Subsystem>,
    /// Power cuts when it came.
    cuts: u64,
}

impl<T> Powered<T> {
    /// A stream that came now.
    pub fn new(stream: T, shared: &Arc<Subsystem>) -> Powered<T> {
        Powered { stream, shared: Arc::clone(shared), cuts: shared.cuts() }
    }

    /// Power cuts when it came, where they matter.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }
}

impl<T: Read> Read for Powered<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl<T: Transport> Write for Powered<T> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if self.shared.cuts() != self.cuts {
            // Whoever reads on this connection learns of it too.
            self.stream.end(false);
            return Err(io::Error::other(Dark));
        }
        self.stream.write(from)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<T: Transport> Transport for Powered<T> {
    fn read_within(&self, time: Duration) -> io::Result<()> {
        self.stream.read_within(time)
    }
    fn write_within(&self, time: Duration) -> io::Result<()> {
        self.stream.write_within(time)
    }
    fn twin(&self) -> io::Result<Powered<T>> {
        let (stream, shared) = (self.stream.twin()?, Arc::clone(&self.shared));
        Ok(Powered { stream, shared, cuts: self.cuts })
    }
    fn end(&self, reads_only: bool) {
        self.stream.end(reads_only);
    }
}
