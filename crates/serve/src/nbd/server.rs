//! The server: accepts clients, one thread for each, and stops cleanly.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::address::{Address, Listener};
use super::export::Export;
use super::input::Input;
use super::negotiate::{Agreed, Negotiation, Next, greeting};
use super::output::{PATIENCE, write_all};
use super::session::{End, Session};
use super::stats::{Counts, Stats};
use super::transport::{Socket, Transport};

/// For the whole of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often the listener looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What a server may be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Clients at a time; more are closed when they come.
    pub connections: usize,
    /// Clients may ask what exports there are.
    pub listed: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 64, listed: true }
    }
}

#[derive(Debug, Default)]
struct Clients {
    open: BTreeMap<u64, Socket>,
    last: u64,
}

#[derive(Debug)]
struct Shared {
    exports: Vec<Export>,
    limits: Limits,
    stats: Stats,
    stop: AtomicBool,
    clients: Mutex<Clients>,
    left: Condvar,
}

/// A server's handle: statistics and the wish that it stops.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Lets the server stop: nothing more is accepted, what is admitted is finished.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
    /// What it counted.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.0.stats.list();
        all.push(("connections_now", self.0.clients().open.len() as u64));
        all
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

/// Takes a client off the list, however its thread ends.
struct Seat {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.clients().open.remove(&self.number);
        self.shared.left.notify_all();
    }
}

impl Server {
    /// Listens at `address`; the first export is also the one without a name.
    ///
    /// # Errors
    /// What the system said.
    pub fn bind(address: &Address, exports: Vec<Export>, limits: Limits) -> io::Result<Server> {
        let listener = Listener::bind(address)?;
        let shared = Arc::new(Shared {
            exports,
            limits,
            stats: Stats::default(),
            stop: AtomicBool::new(false),
            clients: Mutex::default(),
            left: Condvar::new(),
        });
        Ok(Server { listener, shared })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system said.
    pub fn address(&self) -> io::Result<Address> {
        self.listener.address()
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Serves until it is told to stop, and until the last client has left.
    ///
    /// # Errors
    /// The listener failed.
    pub fn run(self) -> io::Result<()> {
        let mut result = Ok(());
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.listener.accept_within(LOOK) {
                Ok(Some(socket)) => self.seat(socket),
                Ok(None) => {}
                // Too many open files, or a client that left at once: later again.
                Err(error) if error.raw_os_error().is_some() => std::thread::sleep(LOOK),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(self.listener);
        empty(&self.shared);
        result
    }

    fn seat(&self, socket: Socket) {
        let mut clients = self.shared.clients();
        if clients.open.len() >= self.shared.limits.connections {
            self.shared.stats.take(&mut Counts { refused: 1, ..Counts::default() });
            return;
        }
        let Ok(twin) = socket.twin() else { return };
        clients.last += 1;
        let number = clients.last;
        clients.open.insert(number, twin);
        drop(clients);
        let seat = Seat { shared: Arc::clone(&self.shared), number };
        // Without a thread the seat is given up, and the socket closed, when the closure is dropped.
        let _ = std::thread::Builder::new().name("nbd".to_string()).spawn(move || {
            serve(&seat.shared, socket);
        });
    }
}

/// Asks clients to leave, and waits until they have.
fn empty(shared: &Shared) {
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

fn serve(shared: &Shared, mut socket: Socket) {
    let mut counts = Counts { connections: 1, ..Counts::default() };
    let agreed = handshake(&mut socket, &shared.exports, shared.limits.listed);
    counts.handshakes_failed = u64::from(!matches!(agreed, Ok(Some(_))));
    shared.stats.take(&mut counts);
    if let Ok(Some((agreed, input))) = agreed {
        session(&shared.exports, agreed, input, socket, &shared.stats, &shared.stop);
    }
}

/// Greets a client and comes to terms with it; `None`: it left, or there are none.
///
/// # Errors
/// What the stream said, or the time is over.
pub fn handshake<T: Transport>(
    stream: &mut T,
    exports: &[Export],
    listed: bool,
) -> io::Result<Option<(Agreed, Input)>> {
    let until = Instant::now() + HANDSHAKE;
    stream.write_within(HANDSHAKE)?;
    write_all(stream, &greeting())?;
    let (mut input, mut out) = (Input::default(), Vec::new());
    let mut negotiation = Negotiation::new(exports, listed);
    loop {
        let next = negotiation.take(input.bytes(), &mut out);
        if let Next::Used(count) | Next::Begin(count, _) = next {
            input.used(count);
        }
        // A client may send many options at once; their answers are not gathered for long.
        if !matches!(next, Next::Used(_)) || out.len() > 64 << 10 {
            write_all(stream, &out)?;
            out.clear();
        }
        match next {
            Next::Used(_) => {}
            Next::Begin(_, agreed) => return Ok(Some((agreed, input))),
            Next::Close => return Ok(None),
            Next::Need(wanted) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.read_within(left)?;
                if input.fill(stream, wanted)? == 0 {
                    return Ok(None);
                }
            }
        }
    }
}

/// Serves one client that agreed on an export.
pub fn session<T: Transport>(
    exports: &[Export],
    agreed: Agreed,
    input: Input,
    stream: T,
    stats: &Stats,
    stop: &AtomicBool,
) -> End {
    let timed = stream.read_within(PATIENCE).and_then(|()| stream.write_within(PATIENCE));
    match timed {
        Err(error) => End::Stream(error),
        Ok(()) => Session::new(&exports[agreed.export], agreed, input, stream, stats, stop).run(),
    }
}
