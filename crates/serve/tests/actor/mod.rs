//! A host that shows who it is message by message, or says what it is told to.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use varve_serve::nbd::Address;
use varve_serve::nvme::codec::{Sqe, admin};
use varve_serve::nvme::initiator::authenticate::{receive, send};
use varve_serve::nvme::initiator::{Line, Wish, connect_command};
use varve_serve::nvme::pdu::Digests;
use varve_serve::nvme::{InitiatorError, Options, Secrets};
use wire::nvme::auth::{Host, Message, Names, REQUIRED, Why};

use crate::controller::{NQN, Running};

pub const ONE: &str = "DHHC-1:00:aABrxn14+/t08ay1kONmRV0i6Hyy7pIKRFg49C/RKYXsE8aE:";
pub const KINDS: [&str; 4] = [
    ONE,
    "DHHC-1:01:gkB8E7oiMHc9iq+02Gw2OPefK8Yb9Wxj8wmuroQiT75PEHUJ:",
    "DHHC-1:02:TNQH0Yz67ERMyGOEWYVdigffHwrIj+tjV1zvaCI+5Y62XnCJHTEfczLO9egWvPLLPZ6p3Q==:",
    "DHHC-1:03:15XIvk/+HYSLUGBt9hTl/BHp8Z3Y6F8Zg/yp18CnFRzH5wY0YRXJwHnLar9RpMcIvKhMwABGkQesgjNIDLc2+wBR64Q=:",
];

pub fn secrets(text: &str) -> Arc<Secrets> {
    Arc::new(Secrets::parse(Path::new("secrets"), text).expect("secrets"))
}

pub fn knowing(text: &str) -> Wish {
    Wish::default().knowing(&secrets(text))
}

pub fn demanding(text: &str) -> Options {
    Options { secrets: Some(secrets(text)), ..Options::default() }
}

/// A connection as far as Connect.
pub fn connected(running: &Running, qid: u16, cntlid: u16) -> Line {
    let mut line = Line::open(&Address::Tcp(running.at), Digests::both(false)).expect("open");
    let (sqe, data) = connect_command(NQN, &Wish::default(), qid, 31, cntlid);
    let done = line.done(sqe, &data, 0).expect("connected");
    assert_eq!(done.cqe.result & REQUIRED, REQUIRED);
    line
}

pub fn random(into: &mut [u8]) -> std::io::Result<()> {
    wire::random::fill(into)
}

/// A host that says what it is told to.
pub struct Actor<'a> {
    pub line: Line,
    pub host: Host<'a>,
}

impl<'a> Actor<'a> {
    pub fn new(line: Line, known: &'a Secrets, me: &'a str) -> Actor<'a> {
        let names = Names { host: me, subsystem: NQN };
        let secret = known.of_host(me).expect("a secret");
        Actor { line, host: Host::new(names, secret, known.controller(), 0x4711) }
    }

    pub fn say(&mut self, message: &[u8]) {
        send(&mut self.line, message).expect("taken");
    }

    /// A challenge, and the answer to it.
    pub fn reply(&mut self) -> Vec<u8> {
        let negotiate = self.host.negotiate();
        self.say(&negotiate);
        let challenge = receive(&mut self.line).expect("a challenge");
        self.host.reply(&challenge, &mut random).expect("answered")
    }

    /// What is told next is that it failed, and why; nothing comes after that.
    pub fn refused(mut self, case: &str) -> Why {
        let told = receive(&mut self.line).unwrap_or_else(|error| panic!("{case}: {error}"));
        let Ok((_, Message::Failure1(why), 8)) = Message::decode(&told) else {
            panic!("{case}: {told:02x?}")
        };
        let after = self.line.ask(Sqe::new(admin::IDENTIFY, 0).word(10, 1), &[], 4096);
        assert!(matches!(after, Err(InitiatorError::Io(_))), "{case}: {after:?}");
        why
    }
}

pub fn auth(kind: u8, bytes: u32) -> Sqe {
    let mut sqe = Sqe::new(admin::FABRICS, 0).word(10, 0xe9_01_01_00).word(11, bytes);
    sqe.0[4] = kind;
    sqe
}
