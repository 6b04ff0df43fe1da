//! Accepts clients, one thread for each, and stops cleanly.
//!
//! Invariants: never more clients than seats; whoever comes when all are taken is closed at once. When a
//! host has stopped, no thread of it is left.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::listener::Listener;
use super::output::PATIENCE;
use super::{Address, Socket, Transport};

/// How often it looks whether it is to stop.
pub const LOOK: Duration = Duration::from_millis(100);

/// What is done with clients.
pub trait Service: Send + Sync + 'static {
    /// The name of a client's thread.
    const NAME: &'static str;
    /// Clients at a time.
    fn seats(&self) -> usize;
    /// Serves one client until it leaves, or until `stop`.
    fn serve(&self, client: Socket, stop: &AtomicBool);
    /// One was closed because there were too many.
    fn refused(&self);
    /// Called about every [`LOOK`]; false: who comes now is closed at once.
    fn look(&self) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Clients {
    open: BTreeMap<u64, Socket>,
    last: u64,
}

#[derive(Debug)]
struct Shared<S> {
    service: S,
    stop: AtomicBool,
    clients: Mutex<Clients>,
    left: Condvar,
}

impl<S> Shared<S> {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on a host: its service, and the wish that it stops.
#[derive(Debug)]
pub struct Handle<S>(Arc<Shared<S>>);

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Handle<S> {
        Handle(Arc::clone(&self.0))
    }
}

impl<S> Handle<S> {
    /// Lets the host stop: nothing more is accepted, what is admitted is finished.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
    /// Its service.
    pub fn service(&self) -> &S {
        &self.0.service
    }
    /// Clients now.
    pub fn clients(&self) -> u64 {
        self.0.clients().open.len() as u64
    }
}

/// Takes a client off the list, however its thread ends.
struct Seat<S> {
    shared: Arc<Shared<S>>,
    number: u64,
}

impl<S> Drop for Seat<S> {
    fn drop(&mut self) {
        self.shared.clients().open.remove(&self.number);
        self.shared.left.notify_all();
    }
}

/// A service that listens.
#[derive(Debug)]
pub struct Host<S> {
    listener: Listener,
    shared: Arc<Shared<S>>,
}

impl<S: Service> Host<S> {
    /// Listens at `address`.
    ///
    /// # Errors
    /// What the system said.
    pub fn bind(address: &Address, service: S) -> io::Result<Host<S>> {
        let listener = Listener::bind(address)?;
        let shared = Arc::new(Shared {
            service,
            stop: AtomicBool::new(false),
            clients: Mutex::default(),
            left: Condvar::new(),
        });
        Ok(Host { listener, shared })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system said.
    pub fn address(&self) -> io::Result<Address> {
        self.listener.address()
    }

    /// Its handle.
    pub fn handle(&self) -> Handle<S> {
        Handle(Arc::clone(&self.shared))
    }

    /// Serves until it is told to stop, and until the last client has left.
    ///
    /// # Errors
    /// The listener failed.
    pub fn run(self) -> io::Result<()> {
        let mut result = Ok(());
        let (mut open, mut looked) = (self.shared.service.look(), Instant::now());
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.listener.accept_within(LOOK) {
                Ok(Some(socket)) if open => self.seat(socket),
                Ok(_) => {}
                // Too many open files, or a client that left at once: later again.
                Err(error) if error.raw_os_error().is_some() => std::thread::sleep(LOOK),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            // Who comes in crowds does not keep it from looking; nor does it look for each of them.
            if !open || looked.elapsed() >= LOOK {
                (open, looked) = (self.shared.service.look(), Instant::now());
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(self.listener);
        empty(&self.shared);
        result
    }

    fn seat(&self, socket: Socket) {
        let mut clients = self.shared.clients();
        if clients.open.len() >= self.shared.service.seats() {
            self.shared.service.refused();
            return;
        }
        let Ok(twin) = socket.twin() else { return };
        clients.last += 1;
        let number = clients.last;
        clients.open.insert(number, twin);
        drop(clients);
        let seat = Seat { shared: Arc::clone(&self.shared), number };
        // Without a thread the seat is given up, and the socket closed, when the closure is dropped.
        let _ = std::thread::Builder::new().name(S::NAME.to_string()).spawn(move || {
            seat.shared.service.serve(socket, &seat.shared.stop);
        });
    }
}

/// Asks clients to leave, and waits until they have.
fn empty<S>(shared: &Shared<S>) {
    let since = Instant::now();
    let mut clients = shared.clients();
    while !clients.open.is_empty() {
        let late = since.elapsed() > PATIENCE;
        for socket in clients.open.values() {
            socket.end(!late);
        }
        let waited = shared.left.wait_timeout(clients, LOOK);
        clients = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
