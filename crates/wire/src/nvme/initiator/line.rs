//! One connection of a host: commands out, completions in.
//!
//! It holds a controller to the protocol: an answer to nothing asked, data beyond what was asked for, or a
//! digest that differs is an error.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use super::InitiatorError;
use crate::nvme::codec::{Cqe, Place, Sqe};
use crate::nvme::pdu::{
    COMMON, CQE, Common, DATA_HEAD, Digests, INITIALIZE, Part, header_digest_fits, initialize,
    kind, u16_at, u32_at,
};
use crate::stream::{Address, Input, Socket, Transport};

/// A controller that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a PDU from the controller at most.
const MOST: usize = 768 << 10;

/// A completion, and what was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// What came of the command.
    pub cqe: Cqe,
    /// Data.
    pub data: Vec<u8>,
}

#[derive(Debug, Default)]
struct Asked {
    /// Bytes that the controller may ask for.
    out: Vec<u8>,
    /// Bytes that it may send, and those that came.
    wanted: usize,
    data: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct Line {
    stream: Socket,
    input: Input,
    /// What was agreed on.
    pub digests: Digests,
    /// Bytes of data in a PDU to the controller.
    pub most: u32,
    /// Bytes of data that a command may bring with it.
    pub capsule: usize,
    next: u16,
    asked: BTreeMap<u16, Asked>,
    /// Bytes that are to be sent.
    gathered: Vec<u8>,
}

fn wrong<R>(what: impl Into<String>) -> Result<R, InitiatorError> {
    Err(InitiatorError::Protocol(what.into()))
}

impl Line {
    /// Connects, and agrees on digests.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn open(address: &Address, digests: Digests) -> Result<Line, InitiatorError> {
        let mut stream = address.connect()?;
        stream.read_within(PATIENCE)?;
        stream.write_within(PATIENCE)?;
        stream.write_all(&initialize(kind::INITIALIZE_REQUEST, digests, 0))?;
        let mut line = Line {
            stream,
            input: Input::default(),
            digests: Digests::default(),
            most: 0,
            capsule: 8192,
            next: 0,
            asked: BTreeMap::new(),
            gathered: Vec::new(),
        };
        let common = line.await_pdu()?;
        let pdu = line.input.bytes();
        if common.kind != kind::INITIALIZE_RESPONSE || common.length as usize != INITIALIZE {
            return wrong(format!("no answer to the beginning: {common:?}"));
        }
        if u16_at(pdu, 8) != 0 || pdu[11] != digests.bits() {
            return wrong("other digests than those asked for, or another format");
        }
        line.most = u32_at(pdu, 12);
        if line.most < 4096 || !line.most.is_multiple_of(4) {
            return wrong(format!("{} bytes in a PDU to the controller", line.most));
        }
        line.input.used(INITIALIZE);
        line.digests = digests;
        Ok(line)
    }

    /// The stream, for what is no command.
    pub fn stream(&mut self) -> &mut Socket {
        &mut self.stream
    }

    /// Commands that are not answered yet.
    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }

    fn await_bytes(&mut self, wanted: usize) -> Result<(), InitiatorError> {
        while self.input.bytes().len() < wanted {
            self.push()?;
            if self.input.fill(&mut self.stream, wanted)? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        Ok(())
    }

    /// The next PDU, all of it.
    fn await_pdu(&mut self) -> Result<Common, InitiatorError> {
        self.await_bytes(COMMON)?;
        let head = self.input.bytes().first_chunk().map(Common::decode);
        let Some(common) = head else { return wrong("no header") };
        let length = common.length as usize;
        if !(COMMON..=MOST).contains(&length) {
            return wrong(format!("a PDU of {length} bytes"));
        }
        self.await_bytes(length)?;
        if common.kind == kind::CONTROLLER_TERMINATE && length >= DATA_HEAD {
            let pdu = self.input.bytes();
            return Err(InitiatorError::Terminated(u16_at(pdu, 8), u32_at(pdu, 10)));
        }
        Ok(common)
    }

    /// A number that no command in flight has.
    fn number(&mut self) -> u16 {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.asked.contains_key(&self.next) && self.next != u16::MAX {
                return self.next;
            }
        }
    }

    /// Sends a command, with `out` to the controller, and room for `wanted` bytes; its number. It leaves
    /// when an answer is awaited.
    ///
    /// # Errors
    /// What the stream said.
    pub fn send(&mut self, sqe: Sqe, out: &[u8], wanted: usize) -> Result<u16, InitiatorError> {
        let cid = self.number();
        let here = !out.is_empty() && out.len() <= self.capsule;
        let sqe = match (here, out.is_empty()) {
            (true, _) => sqe.moving(out.len() as u32, Place::Capsule),
            (_, false) => sqe.moving(out.len() as u32, Place::Transport),
            _ => sqe.moving(wanted as u32, Place::Transport),
        };
        let in_capsule = if here { out } else { &[] };
        self.put_command(&sqe.numbered(cid), in_capsule);
        let later = if here { Vec::new() } else { out.to_vec() };
        self.asked.insert(cid, Asked { out: later, wanted, data: Vec::new() });
        if self.gathered.len() > 64 << 10 {
            self.push()?;
        }
        Ok(cid)
    }

    /// A command as it is.
    pub fn put_command(&mut self, sqe: &Sqe, data: &[u8]) {
        let (head, count) = crate::nvme::pdu::command(&sqe.0, data.len(), self.digests);
        self.gathered.extend_from_slice(&head[..count]);
        self.put_data(data);
    }

    fn put_data(&mut self, data: &[u8]) {
        self.gathered.extend_from_slice(data);
        if self.digests.data && !data.is_empty() {
            self.gathered.extend_from_slice(&block::crc32c(0, data).to_le_bytes());
        }
    }

    /// What is gathered leaves.
    ///
    /// # Errors
    /// What the stream said.
    pub fn push(&mut self) -> Result<(), InitiatorError> {
        let bytes = std::mem::take(&mut self.gathered);
        Ok(crate::stream::write_all(&mut self.stream, &bytes)?)
    }

    /// What the controller is ready for, of a command that was put as it is.
    ///
    /// # Errors
    /// [`InitiatorError`]; it says something else.
    pub fn asked_for(&mut self) -> Result<Part, InitiatorError> {
        let common = self.await_pdu()?;
        if common.kind != kind::READY {
            return wrong(format!("not ready: {common:?}"));
        }
        self.check(common, DATA_HEAD, 0)?;
        let part = Part::decode(self.input.bytes());
        self.input.used(common.length as usize);
        Ok(part)
    }

    /// The next completion.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn receive(&mut self) -> Result<Completion, InitiatorError> {
        loop {
            let common = self.await_pdu()?;
            let length = common.length as usize;
            let header = usize::from(common.header);
            if self.digests.header && !header_digest_fits(&self.input.bytes()[..length], header) {
                return wrong("the digest of a header differs");
            }
            let done = match common.kind {
                kind::RESPONSE => Some(self.completed(common)?),
                kind::CONTROLLER_DATA => self.data(common).map(|()| None)?,
                kind::READY => self.ready(common).map(|()| None)?,
                other => return wrong(format!("a PDU of kind {other}")),
            };
            self.input.used(length);
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    fn check(&self, common: Common, header: usize, most: usize) -> Result<usize, InitiatorError> {
        common
            .check(header, self.digests, most)
            .or_else(|(_, field)| wrong(format!("byte {field} of {common:?}")))
    }

    fn completed(&mut self, common: Common) -> Result<Completion, InitiatorError> {
        self.check(common, COMMON + CQE, 0)?;
        let bytes = self.input.bytes()[COMMON..].first_chunk();
        let Some(cqe) = bytes.map(Cqe::decode) else { return wrong("half a completion") };
        match self.asked.remove(&cqe.cid) {
            Some(asked) => Ok(Completion { cqe, data: asked.data }),
            None => wrong(format!("an answer to command {}, which is not in flight", cqe.cid)),
        }
    }

    fn data(&mut self, common: Common) -> Result<(), InitiatorError> {
        let count = self.check(common, DATA_HEAD, MOST)?;
        let pdu = self.input.bytes();
        let part = Part::decode(pdu);
        let at = DATA_HEAD + self.digests.header_bytes();
        let data = &pdu[at..at + count];
        if self.digests.data && u32_at(pdu, at + count) != block::crc32c(0, data) {
            return wrong("the digest of data differs");
        }
        let Some(asked) = self.asked.get_mut(&part.cid) else {
            return wrong(format!("data of command {}, which is not in flight", part.cid));
        };
        let fits = part.bytes as usize == count
            && part.at as usize == asked.data.len()
            && asked.data.len() + count <= asked.wanted;
        if !fits {
            return wrong(format!("{part:?}: {} bytes of {}", asked.data.len(), asked.wanted));
        }
        asked.data.extend_from_slice(data);
        Ok(())
    }

    fn ready(&mut self, common: Common) -> Result<(), InitiatorError> {
        self.check(common, DATA_HEAD, 0)?;
        let part = Part::decode(self.input.bytes());
        let Some(asked) = self.asked.get(&part.cid) else {
            return wrong(format!("ready for command {}, which is not in flight", part.cid));
        };
        let (from, to) = (part.at as usize, part.at as usize + part.bytes as usize);
        let Some(all) = asked.out.get(from..to).map(<[u8]>::to_vec) else {
            return wrong(format!("ready for {part:?}: there are {} bytes", asked.out.len()));
        };
        let mut at = part.at;
        for piece in all.chunks(self.most as usize) {
            let one = Part { at, bytes: piece.len() as u32, ..part };
            at += piece.len() as u32;
            let last = at == part.at + part.bytes;
            let (head, count) = one.head(kind::HOST_DATA, last, self.digests);
            self.gathered.extend_from_slice(&head[..count]);
            self.put_data(piece);
        }
        self.push()
    }

    /// A command, and its answer; nothing else may be in flight.
    ///
    /// # Errors
    /// [`InitiatorError`], its status apart.
    pub fn ask(
        &mut self,
        sqe: Sqe,
        out: &[u8],
        wanted: usize,
    ) -> Result<Completion, InitiatorError> {
        let cid = self.send(sqe, out, wanted)?;
        loop {
            // Events are held: their answers come when they like.
            let done = self.receive()?;
            if done.cqe.cid == cid {
                return Ok(done);
            }
        }
    }

    /// The same; what it says and brings, if it succeeds.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn done(
        &mut self,
        sqe: Sqe,
        out: &[u8],
        wanted: usize,
    ) -> Result<Completion, InitiatorError> {
        let done = self.ask(sqe, out, wanted)?;
        match done.cqe.status.0 {
            0 => Ok(done),
            _ => Err(InitiatorError::Failed {
                opcode: sqe.opcode(),
                status: done.cqe.status,
                result: done.cqe.result,
            }),
        }
    }
}
