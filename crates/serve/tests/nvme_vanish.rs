//! Who vanishes at a power cut acknowledges nothing of the life before, however soon somebody asks.
//!
//! Nothing here looks at the power from time to time, as a server does: what is answered depends on the connections alone.

mod controller;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::bytes::{begin, capsule};
use controller::{DRIVE, NQN, stack};
use stack::live::Stack;
use stack::power::When;
use varve_serve::nbd::Address;
use varve_serve::nvme::codec::{Place, Sqe, io as command};
use varve_serve::nvme::initiator::{Line, Told, Wish, blocks, connect_command};
use varve_serve::nvme::pdu::{COMMON, CQE, Digests, kind, u16_at, u32_at};
use varve_serve::nvme::{Initiator, InitiatorError, Namespace, Options, Subsystem, serve};
use varve_serve::stream::Transport;
use wire::nvme::codec::Cqe;
use wire::stream::Socket;

/// A controller of a drive: each connection has a thread, and nobody else does anything.
struct Served {
    at: SocketAddr,
    stack: Stack,
    shared: Arc<Subsystem>,
}

fn served(text: &str) -> Served {
    let stack = stack(text);
    let namespaces = vec![Namespace::new("disk", stack.clone(), &[])];
    let options = Options { vanish: true, ..Options::default() };
    let shared = Subsystem::new(NQN, namespaces, options);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let (at, here) = (listener.local_addr().expect("an address"), Arc::clone(&shared));
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (shared, socket) = (Arc::clone(&here), Socket::Tcp(socket.expect("a host")));
            std::thread::spawn(move || serve(&shared, socket, None, &AtomicBool::new(false)));
        }
    });
    Served { at, stack, shared }
}

/// The power goes and comes, and the page that was written goes with it.
fn off_and_on(stack: &Stack) {
    stack.power.cut(When::Now).expect("cut");
    stack.power.on().expect("on");
    let mut there = vec![1; 4096];
    stack.disk.read(3 * 4096, &mut there).expect("read").wait().unwrap();
    assert!(there.iter().all(|byte| *byte == 0), "what is lost makes the test");
}

/// A host with a page that was answered and not flushed.
fn with_a_page(of: &Served) -> (Initiator, Told) {
    let mut host =
        Initiator::connect(&Address::Tcp(of.at), NQN, &Wish::default()).expect("connected");
    let told = host.namespaces[0];
    host.write(told, 3, &[7; 4096], false).expect("answered");
    (host, told)
}

#[test]
fn a_flush_is_not_acknowledged_when_what_was_before_it_is_lost() {
    for text in [DRIVE.to_string(), format!("{DRIVE}+real-time")] {
        let served = served(&text);
        let (mut host, of) = with_a_page(&served);
        off_and_on(&served.stack);
        let flushed = host.flush(of);
        assert!(matches!(flushed, Err(InitiatorError::Io(_))), "{text}: {flushed:?}");
    }
}

/// A connection in memory; the power goes and comes while its second piece is on the way.
#[derive(Clone)]
struct Torn {
    pieces: Arc<Mutex<Vec<Vec<u8>>>>,
    out: Arc<Mutex<Vec<u8>>>,
    stack: Stack,
}

impl Read for Torn {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut pieces = self.pieces.lock().expect("whole");
        let Some(piece) = pieces.pop() else { return Ok(0) };
        if pieces.is_empty() {
            off_and_on(&self.stack);
        }
        into[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

impl Write for Torn {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.out.lock().expect("whole").extend_from_slice(from);
        Ok(from.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Torn {
    fn read_within(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
    fn write_within(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
    fn twin(&self) -> io::Result<Torn> {
        Ok(self.clone())
    }
    fn end(&self, _: bool) {}
}

/// Commands that were answered.
fn answered(out: &[u8]) -> Vec<u16> {
    let (mut at, mut all) = (0, Vec::new());
    while at < out.len() {
        if out[at] == kind::RESPONSE {
            let bytes = out[at + COMMON..at + COMMON + CQE].try_into().expect("whole");
            all.push(Cqe::decode(bytes).cid);
        }
        at += u32_at(out, at + 4) as usize;
    }
    all
}

/// Where answers wait for the drive's time, they leave by a thread of their own, while the connection still works on what
/// came with them.
#[test]
fn nothing_of_a_row_of_commands_is_acknowledged_behind_a_cut() {
    const CONNECT: u16 = 1;
    for text in [DRIVE.to_string(), format!("{DRIVE}+real-time")] {
        let served = served(&text);
        let (host, of) = with_a_page(&served);
        let first = begin(2, u16_at(&host.controller, 78), &Wish::default());
        // As many as share a flush, then more to read than answers may wait.
        let mut row = Vec::new();
        for cid in 2..1026 {
            row.extend(capsule(Sqe::new(command::FLUSH, of.nsid).numbered(cid), &[]));
        }
        for cid in 1026..1066 {
            let read = blocks(command::READ, of, 0, 32).moving(32 * 4096, Place::Transport);
            row.extend(capsule(read.numbered(cid), &[]));
        }
        let torn = Torn {
            pieces: Arc::new(Mutex::new(vec![row, first])),
            out: Arc::default(),
            stack: served.stack.clone(),
        };
        let out = Arc::clone(&torn.out);
        serve(&served.shared, torn, None, &AtomicBool::new(false));
        assert_eq!(answered(&out.lock().expect("whole")), [CONNECT], "{text}");
    }
}

/// The host's queue is new, what it knows is not.
#[test]
fn a_queue_that_is_connected_anew_is_not_of_a_life_before() {
    for text in [DRIVE.to_string(), format!("{DRIVE}+real-time")] {
        let served = served(&text);
        let (host, of) = with_a_page(&served);
        off_and_on(&served.stack);
        let mut line =
            Line::open(&Address::Tcp(served.at), Digests::both(false)).expect("a connection");
        let cntlid = u16_at(&host.controller, 78);
        let (sqe, data) = connect_command(NQN, &Wish::default(), 2, 15, cntlid);
        let connected = line.done(sqe, &data, 0);
        let flushed = connected.and_then(|_| line.done(Sqe::new(command::FLUSH, of.nsid), &[], 0));
        assert!(flushed.is_err(), "{text}: {flushed:?}");
    }
}
