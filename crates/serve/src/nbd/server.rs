//! The server: clients of its exports.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::export::Export;
use super::negotiate::{Agreed, Negotiation, Next, greeting};
use super::session::{End, Session};
use super::stats::{Counts, Stats};
use crate::stream::host::{self, Host, Service};
use crate::stream::output::{PATIENCE, write_all};
use crate::stream::{Address, Input, Socket, Transport};

/// For the whole of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

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

#[derive(Debug)]
struct Exports {
    all: Vec<Export>,
    limits: Limits,
    stats: Stats,
}

impl Service for Exports {
    const NAME: &'static str = "nbd";

    fn seats(&self) -> usize {
        self.limits.connections
    }
    fn refused(&self) {
        self.stats.take(&mut Counts { refused: 1, ..Counts::default() });
    }
    fn serve(&self, mut socket: Socket, stop: &AtomicBool) {
        let mut counts = Counts { connections: 1, ..Counts::default() };
        let agreed = handshake(&mut socket, &self.all, self.limits.listed);
        counts.handshakes_failed = u64::from(!matches!(agreed, Ok(Some(_))));
        self.stats.take(&mut counts);
        if let Ok(Some((agreed, input))) = agreed {
            session(&self.all, agreed, input, socket, &self.stats, stop);
        }
    }
}

/// A server's handle: statistics and the wish that it stops.
#[derive(Clone, Debug)]
pub struct Handle(host::Handle<Exports>);

impl Handle {
    /// Lets the server stop: nothing more is accepted, what is admitted is finished.
    pub fn stop(&self) {
        self.0.stop();
    }
    /// What it counted.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.0.service().stats.list();
        all.push(("connections_now", self.0.clients()));
        all
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server(Host<Exports>);

impl Server {
    /// Listens at `address`; the first export is also the one without a name.
    ///
    /// # Errors
    /// What the system said.
    pub fn bind(address: &Address, exports: Vec<Export>, limits: Limits) -> io::Result<Server> {
        Host::bind(address, Exports { all: exports, limits, stats: Stats::default() }).map(Server)
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

    /// Serves until it is told to stop, and until the last client has left.
    ///
    /// # Errors
    /// The listener failed.
    pub fn run(self) -> io::Result<()> {
        self.0.run()
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
