//! The server: a subsystem's hosts, and its power.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::connection::serve;
use super::stats::Counts;
use super::subsystem::Subsystem;
use crate::stream::host::{self, Host, Service};
use crate::stream::{Address, Socket};

/// Bytes that a command may bring with it at most.
pub const MOST_IN_CAPSULE: u32 = 512 << 10;
/// Bytes that a command may move at most.
pub const MOST_TRANSFER: u32 = 256 << 10;

/// A subsystem that is served.
#[derive(Debug)]
struct Served(Arc<Subsystem>);

impl Service for Served {
    const NAME: &'static str = "nvme";

    fn seats(&self) -> usize {
        self.0.options.connections
    }
    fn refused(&self) {
        self.0.stats.take(&mut Counts { refused: 1, ..Counts::default() });
    }
    fn serve(&self, client: Socket, stop: &AtomicBool) {
        let local = match &client {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        };
        // What became of it is counted.
        serve(&self.0, client, local, stop);
    }
    fn look(&self) -> bool {
        self.0.look()
    }
}

/// A server's handle: statistics and the wish that it stops.
#[derive(Clone, Debug)]
pub struct Handle(host::Handle<Served>);

impl Handle {
    /// Lets the server stop: nothing more is accepted, what is admitted is finished.
    pub fn stop(&self) {
        self.0.stop();
    }
    /// What it counted.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let subsystem = &self.0.service().0;
        let mut all = subsystem.stats.list();
        all.push(("connections_now", self.0.clients()));
        all.push(("hosts_now", subsystem.hosts()));
        all
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server(Host<Served>);

impl Server {
    /// Listens at `address`.
    ///
    /// # Errors
    /// What the system said, or options that cannot be.
    pub fn bind(address: &Address, subsystem: Arc<Subsystem>) -> io::Result<Server> {
        let options = &subsystem.options;
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what.to_string()));
        if !options.transfer.is_power_of_two()
            // One page would be announced as 2 to the 0, which means any number (MDTS 0).
            || !(8192..=MOST_TRANSFER).contains(&options.transfer)
        {
            return wrong("bytes of a command: expected 8 KiB to 256 KiB, a power of two");
        }
        if !(4096..=MOST_IN_CAPSULE).contains(&options.in_capsule)
            || !options.in_capsule.is_multiple_of(16)
        {
            return wrong("bytes in a capsule: expected 4 KiB to 512 KiB, a multiple of 16");
        }
        if options.queues == 0 || !(2..=1024).contains(&options.depth) {
            return wrong("expected a queue or more, of 2 to 1024 commands");
        }
        if subsystem.nqn.len() > 223 || !subsystem.nqn.starts_with("nqn.") {
            return wrong("expected a name of at most 223 bytes that begins with `nqn.`");
        }
        Host::bind(address, Served(subsystem)).map(Server)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system said.
    pub fn address(&self) -> io::Result<Address> {
        self.0.address()
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        Handle(self.0.handle())
    }

    /// Serves until it is told to stop, and until the last host has left.
    ///
    /// # Errors
    /// The listener failed.
    pub fn run(self) -> io::Result<()> {
        self.0.run()
    }
}
