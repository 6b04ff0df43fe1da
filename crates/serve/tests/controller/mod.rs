//! A controller for the time of a test, and bytes of PDUs.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod bytes;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stack::live::Stack;
use varve_serve::nbd::Address;
use varve_serve::nvme::initiator::{Told, Wish};
use varve_serve::nvme::{Handle, Initiator, Namespace, Options, Server, Subsystem};

pub const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:76617276-6500-8000-8000-0000000000ff";

pub fn stack(text: &str) -> Stack {
    Stack::start(&text.parse().expect("a text")).expect("a stack")
}

/// A small drive with transactions, whose power can go.
pub const DRIVE: &str = "drive(mqsim-default, geometry.blocks=0, capacity=16 MiB, geometry.channels=2, \
                         geometry.dies=1, line=plane, op=80 %, unit=4 KiB, nand.oob=full, map.mode=full, tx.mode=nolog)";

/// A controller in threads of its own; it is stopped when this is dropped.
pub struct Running {
    pub at: SocketAddr,
    pub handle: Handle,
    pub stacks: Vec<Stack>,
    thread: Option<JoinHandle<()>>,
}

pub fn run(stacks: &[&str], options: Options) -> Running {
    run_stacks(stacks.iter().map(|text| stack(text)).collect(), options)
}

pub fn run_stacks(stacks: Vec<Stack>, options: Options) -> Running {
    let named = stacks.iter().enumerate();
    let namespaces =
        named.map(|(i, stack)| Namespace::new(&format!("disk{i}"), stack.clone(), &[])).collect();
    let subsystem = Subsystem::new(NQN, namespaces, options);
    let any = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
    let server = Server::bind(&any, Arc::clone(&subsystem)).expect("a socket");
    let Address::Tcp(at) = server.address().expect("an address") else { panic!("not TCP") };
    let handle = server.handle();
    let thread = Some(std::thread::spawn(move || server.run().expect("served")));
    Running { at, handle, stacks, thread }
}

impl Running {
    pub fn address(&self) -> Address {
        Address::Tcp(self.at)
    }
    /// A host, and the first namespace.
    pub fn host(&self, wish: &Wish) -> (Initiator, Told) {
        let host = Initiator::connect(&self.address(), NQN, wish).expect("connected");
        let told = host.namespaces[0];
        (host, told)
    }
    pub fn count(&self, name: &str) -> u64 {
        let all = self.handle.counters();
        all.iter().find(|(known, _)| *known == name).expect("a counter").1
    }
    /// Waits until it holds; a server on a busy machine takes its time.
    pub fn until(&self, what: &str, holds: impl Fn(&Running) -> bool) {
        let since = Instant::now();
        while !holds(self) {
            assert!(since.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server failed");
        }
    }
}

/// A connection of bytes.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn open(at: SocketAddr) -> Raw {
        let stream = TcpStream::connect(at).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        Raw(stream)
    }
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("sent");
    }
    /// The next PDU; empty: the connection was closed.
    pub fn pdu(&mut self) -> Vec<u8> {
        let mut head = [0; 8];
        if self.0.read_exact(&mut head).is_err() {
            return Vec::new();
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        assert!((8..1 << 20).contains(&length), "a PDU of {length} bytes");
        let mut all = head.to_vec();
        all.resize(length, 0);
        self.0.read_exact(&mut all[8..]).expect("all of it");
        all
    }
    /// Whether nothing more comes.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

/// The data of Connect.
pub fn connect_data(nqn: &str, cntlid: u16) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(b"varve transcript");
    data[16..18].copy_from_slice(&cntlid.to_le_bytes());
    data[256..256 + nqn.len()].copy_from_slice(nqn.as_bytes());
    let host = b"nqn.2014-08.org.nvmexpress:uuid:76617276-6500-8000-8000-000000000002";
    data[512..512 + host.len()].copy_from_slice(host);
    data
}

/// A line of a transcript as bytes; `None`: any byte. Words are hex, `zN` N zeroes, `xN` N bytes of any
/// kind, `=N` N bytes of data (A5h), `hello` the data of Connect.
pub fn bytes_of(line: &str, nqn: &str, cntlid: u16) -> Vec<Option<u8>> {
    let mut all = Vec::new();
    for word in line.split_whitespace() {
        let count = |text: &str| text.parse::<usize>().expect("a number");
        match (word.split_at(1), word) {
            (_, "hello") => all.extend(connect_data(nqn, cntlid).into_iter().map(Some)),
            (("z", n), _) => all.extend(std::iter::repeat_n(Some(0), count(n))),
            (("x", n), _) => all.extend(std::iter::repeat_n(None, count(n))),
            (("=", n), _) => all.extend(std::iter::repeat_n(Some(0xa5), count(n))),
            _ => {
                assert!(word.len().is_multiple_of(2), "{word}");
                let pair = |i| u8::from_str_radix(&word[i..i + 2], 16).expect("hex");
                all.extend((0..word.len()).step_by(2).map(|i| Some(pair(i))));
            }
        }
    }
    all
}
