//! The server: one virtual machine after the other, at a socket.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stack::disk::Disk;
use vhost_user_backend::{ShutdownHandle, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

use super::device::Device;
use super::stats::{Counts, Stats};
use crate::stream::host::LOOK;
use crate::stream::{Address, Listener};

/// What a server may be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Queues that a machine may use, each with a thread; at most 64.
    pub queues: u16,
    /// Bytes of the driver's logical block: 512 or 4096.
    pub block: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { queues: 1, block: 4096 }
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    stats: Arc<Stats>,
    now: Mutex<Option<ShutdownHandle>>,
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Option<ShutdownHandle>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server's handle: statistics and the wish that it stops.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Lets the server stop: the machine there is finds its device gone.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        if let Some(now) = &*self.0.now() {
            now.shutdown();
        }
    }

    /// What it counted.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.0.stats.list();
        all.push(("connections_now", u64::from(self.0.now().is_some())));
        all
    }
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    disk: Arc<dyn Disk>,
    options: Options,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens at a unix socket.
    ///
    /// # Errors
    /// What the system said; an address that is none of a unix socket.
    pub fn bind(address: &Address, disk: Arc<dyn Disk>, options: Options) -> io::Result<Server> {
        let Address::Unix(_) = address else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected a unix socket: a machine hands over its memory through it",
            ));
        };
        let listener = Listener::bind(address)?;
        Ok(Server { listener, disk, options, shared: Arc::default() })
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// What it offers, in words.
    pub fn list(&self) -> String {
        let c = self.disk.capabilities();
        let Options { queues, block } = self.options;
        let what = match (c.read_only, c.trim) {
            (true, _) => "read-only",
            (false, true) => "flush, discard, write-zeroes",
            (false, false) => "flush, write-zeroes",
        };
        format!(
            "{} bytes in blocks of {block}; {what}; write cache: the machine's choice, now write back; atomic: {} \
             bytes; queues: {queues}",
            c.size, c.atomic
        )
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// The listener failed, or the system gives no threads.
    pub fn run(self) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.listener.wait(LOOK)? {
                self.machine()?;
            }
        }
        Ok(())
    }

    /// Serves one virtual machine until it leaves. How it leaves is its own affair.
    fn machine(&self) -> io::Result<()> {
        self.shared.stats.take(&mut Counts { connections: 1, ..Counts::default() });
        let stats = Arc::clone(&self.shared.stats);
        let device = Arc::new(Device::new(Arc::clone(&self.disk), self.options, stats));
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let other = |error: vhost_user_backend::Error| io::Error::other(error.to_string());
        let mut daemon =
            VhostUserDaemon::new("vhost-user".to_string(), device, memory).map_err(other)?;
        let Some(listener) = self.listener.unix() else { return Ok(()) };
        daemon.start(&mut vhost::vhost_user::Listener::from(listener?)).map_err(other)?;
        *self.shared.now() = daemon.shutdown_handle();
        if self.shared.stop.load(Ordering::Acquire) {
            daemon.request_shutdown();
        }
        let _ = daemon.wait();
        *self.shared.now() = None;
        Ok(())
    }
}
