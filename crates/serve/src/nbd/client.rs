//! A small NBD client: what the conformance checks and the tests ask servers with.
//!
//! It says exactly what it is told, also what no good client would, and holds a server to the
//! protocol: a reply that is none, or to nothing asked, is an error.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use super::wire::{
    CHUNK, GREETING, MAX_PAYLOAD, OPTION, OPTION_REPLY, Request, SIMPLE, answer, chunk, command,
    handshake, info, option, u32_at, u64_at,
};
use crate::stream::Address;
use crate::stream::transport::{Socket, Transport};

/// A server that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a client gives up.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The stream failed, or ended.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The server breaks the protocol.
    #[error("the server breaks the protocol: {0}")]
    Protocol(String),
    /// The server refuses an option.
    #[error("the server refuses option {option}: answer {answer:#x}")]
    Refused {
        /// The option.
        option: u32,
        /// The answer.
        answer: u32,
    },
    /// The server answers a command with an error.
    #[error("command {command} failed with error {errno}")]
    Failed {
        /// The command.
        command: u16,
        /// The protocol's error number.
        errno: u32,
    },
}

fn wrong(what: impl Into<String>) -> ClientError {
    ClientError::Protocol(what.into())
}

/// What a client asks for in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Structured replies, if the server has them.
    pub structured: bool,
    /// BLOCK_STATUS, if the server has it.
    pub status: bool,
    /// The limits of requests; the client is bound to them then.
    pub sizes: bool,
}

/// Everything but to be bound.
pub const ALL: Wish = Wish { structured: true, status: true, sizes: false };

/// A reply, whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request it answers.
    pub request: Request,
    /// The protocol's error number; 0 is success.
    pub errno: u32,
    /// What was read.
    pub data: Vec<u8>,
    /// Chunks of data and holes in it; 0 for a simple reply.
    pub chunks: u32,
    /// Length and flags of each extent.
    pub extents: Vec<(u32, u32)>,
}

/// A connection after the handshake.
#[derive(Debug)]
pub struct Client {
    stream: Socket,
    /// Size of the export in bytes.
    pub size: u64,
    /// What the server says that it can do.
    pub flags: u16,
    /// Smallest, preferred and largest request, if told.
    pub sizes: Option<[u32; 3]>,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// The number of `base:allocation`, if agreed on.
    pub context: Option<u32>,
    next: u64,
    asked: BTreeMap<u64, Reply>,
}

/// An option as a client sends it.
pub fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION.to_be_bytes().to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn text(bytes: &[u8]) -> Vec<u8> {
    let mut all = (bytes.len() as u32).to_be_bytes().to_vec();
    all.extend_from_slice(bytes);
    all
}

/// The data of INFO and GO.
pub fn go_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = text(name.as_bytes());
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = text(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| text(query.as_bytes())));
    data
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

/// An answer to an option: its kind, and its data.
type Answer = (u32, Vec<u8>);

/// Reads one.
fn option_reply(stream: &mut impl Read, number: u32) -> Result<Answer, ClientError> {
    let head: [u8; 20] = read(stream)?;
    let (length, echoed) = (u32_at(&head, 16), u32_at(&head, 8));
    if u64_at(&head, 0) != OPTION_REPLY || echoed != number || length > 1 << 20 {
        return Err(wrong(format!("answer {head:02x?} to option {number}")));
    }
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data)?;
    Ok((u32_at(&head, 12), data))
}

impl Client {
    /// Connects to an export.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(address: &Address, name: &str, wish: Wish) -> Result<Client, ClientError> {
        let mut stream = address.connect()?;
        stream.read_within(PATIENCE)?;
        stream.write_within(PATIENCE)?;
        let greeting: [u8; 18] = read(&mut stream)?;
        let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
        if u64_at(&greeting, 0) != GREETING || u64_at(&greeting, 8) != OPTION {
            return Err(wrong("no greeting of the newstyle"));
        }
        if flags & handshake::FIXED == 0 {
            return Err(wrong("not the fixed newstyle"));
        }
        stream.write_all(&u32::from(flags & 3).to_be_bytes())?;
        let mut client = Client {
            stream,
            size: 0,
            flags: 0,
            sizes: None,
            structured: false,
            context: None,
            next: 1,
            asked: BTreeMap::new(),
        };
        if wish.structured {
            client.structured = client.option(option::STRUCTURED, &[])?.0 == answer::ACK;
        }
        if wish.status && client.structured {
            let data = meta_data(name, &["base:allocation"]);
            let (last, told) = client.option(option::SET_META, &data)?;
            let ids = told.iter().filter(|(kind, data)| *kind == answer::META && data.len() > 4);
            client.context = ids.map(|(_, data)| u32_at(data, 0)).next();
            if last != answer::ACK {
                client.context = None;
            }
        }
        client.go(name, wish.sizes)?;
        Ok(client)
    }

    /// Sends an option; the last answer, and those before it.
    fn option(&mut self, number: u32, data: &[u8]) -> Result<(u32, Vec<Answer>), ClientError> {
        self.stream.write_all(&option_bytes(number, data))?;
        let mut told = Vec::new();
        loop {
            let (kind, data) = option_reply(&mut self.stream, number)?;
            if kind == answer::ACK || kind >= 1 << 31 {
                return Ok((kind, told));
            }
            if told.len() >= 1000 {
                return Err(wrong("no end of answers"));
            }
            told.push((kind, data));
        }
    }

    fn go(&mut self, name: &str, sizes: bool) -> Result<(), ClientError> {
        let wanted: &[u16] = if sizes { &[info::BLOCK_SIZE] } else { &[] };
        let (last, told) = self.option(option::GO, &go_data(name, wanted))?;
        if last != answer::ACK {
            return Err(ClientError::Refused { option: option::GO, answer: last });
        }
        for (_, data) in told.iter().filter(|(kind, data)| *kind == answer::INFO && data.len() > 1)
        {
            match (u16::from_be_bytes([data[0], data[1]]), data.len()) {
                (info::EXPORT, 12) => {
                    self.size = u64_at(data, 2);
                    self.flags = u16::from_be_bytes([data[10], data[11]]);
                }
                (info::BLOCK_SIZE, 14) => {
                    self.sizes = Some([u32_at(data, 2), u32_at(data, 6), u32_at(data, 10)]);
                }
                (info::EXPORT | info::BLOCK_SIZE, n) => {
                    return Err(wrong(format!("{n} bytes of information")));
                }
                _ => {}
            }
        }
        if self.flags == 0 {
            return Err(wrong("nothing said of the export"));
        }
        Ok(())
    }

    /// Whether the server says that it can do this.
    pub fn can(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
    /// Requests that are not answered yet.
    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }
    /// The stream, for what is no request.
    pub fn stream(&mut self) -> &mut Socket {
        &mut self.stream
    }

    /// Sends a request; returns its cookie.
    ///
    /// # Errors
    /// What the stream said.
    pub fn send(
        &mut self,
        kind: u16,
        flags: u16,
        at: u64,
        bytes: u32,
        payload: &[u8],
    ) -> Result<u64, ClientError> {
        let cookie = self.next;
        self.next += 1;
        let request = Request { flags, kind, cookie, at, bytes };
        let mut all = request.encode().to_vec();
        all.extend_from_slice(payload);
        self.stream.write_all(&all)?;
        let (data, extents) = (Vec::new(), Vec::new());
        if kind != command::DISC {
            self.asked.insert(cookie, Reply { request, errno: 0, data, chunks: 0, extents });
        }
        Ok(cookie)
    }

    /// The next whole reply.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        loop {
            let magic = u32::from_be_bytes(read(&mut self.stream)?);
            let done = match magic {
                SIMPLE => self.simple()?,
                CHUNK => self.chunk()?,
                other => return Err(wrong(format!("{other:#010x} instead of a reply"))),
            };
            if let Some(reply) = done {
                return Ok(reply);
            }
        }
    }

    fn simple(&mut self) -> Result<Option<Reply>, ClientError> {
        let head: [u8; 12] = read(&mut self.stream)?;
        let cookie = u64_at(&head, 4);
        let mut reply =
            self.asked.remove(&cookie).ok_or_else(|| wrong(format!("a reply to {cookie}")))?;
        reply.errno = u32_at(&head, 0);
        let reads = reply.request.kind == command::READ;
        if (reads || reply.request.kind == command::BLOCK_STATUS) && self.structured {
            return Err(wrong("a simple reply to what needs chunks"));
        }
        if reads && reply.errno == 0 {
            reply.data = vec![0; reply.request.bytes as usize];
            self.stream.read_exact(&mut reply.data)?;
        }
        Ok(Some(reply))
    }

    fn chunk(&mut self) -> Result<Option<Reply>, ClientError> {
        let head: [u8; 16] = read(&mut self.stream)?;
        let (flags, kind) = (u32_at(&head, 0) >> 16, u32_at(&head, 0) as u16);
        let (cookie, length) = (u64_at(&head, 4), u32_at(&head, 12));
        if length > MAX_PAYLOAD + 64 || !self.structured {
            return Err(wrong(format!("a chunk of {length} bytes")));
        }
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload)?;
        let reply =
            self.asked.get_mut(&cookie).ok_or_else(|| wrong(format!("a chunk for {cookie}")))?;
        take_chunk(reply, kind, &payload, self.context)?;
        if flags & u32::from(chunk::DONE) == 0 {
            return Ok(None);
        }
        Ok(self.asked.remove(&cookie))
    }

    /// One command from beginning to end, while nothing else is outstanding.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        at: u64,
        bytes: u32,
        payload: &[u8],
    ) -> Result<Reply, ClientError> {
        let cookie = self.send(kind, flags, at, bytes, payload)?;
        let reply = self.receive()?;
        match reply.request.cookie == cookie {
            true => Ok(reply),
            false => Err(wrong("a reply to something else")),
        }
    }

    fn must(
        &mut self,
        kind: u16,
        flags: u16,
        at: u64,
        bytes: u32,
        payload: &[u8],
    ) -> Result<Reply, ClientError> {
        let reply = self.ask(kind, flags, at, bytes, payload)?;
        match reply.errno {
            0 => Ok(reply),
            errno => Err(ClientError::Failed { command: kind, errno }),
        }
    }

    /// Reads.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn read(&mut self, at: u64, bytes: u32) -> Result<Vec<u8>, ClientError> {
        self.must(command::READ, 0, at, bytes, &[]).map(|reply| reply.data)
    }
    /// Writes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn write(&mut self, at: u64, data: &[u8], flags: u16) -> Result<(), ClientError> {
        self.must(command::WRITE, flags, at, data.len() as u32, data).map(drop)
    }
    /// Flushes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.must(command::FLUSH, 0, 0, 0, &[]).map(drop)
    }
    /// Trims.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn trim(&mut self, at: u64, bytes: u32, flags: u16) -> Result<(), ClientError> {
        self.must(command::TRIM, flags, at, bytes, &[]).map(drop)
    }
    /// Writes zeroes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn zero(&mut self, at: u64, bytes: u32, flags: u16) -> Result<(), ClientError> {
        self.must(command::WRITE_ZEROES, flags, at, bytes, &[]).map(drop)
    }
    /// The state of a range: length and flags of each extent.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&mut self, at: u64, bytes: u32) -> Result<Vec<(u32, u32)>, ClientError> {
        self.must(command::BLOCK_STATUS, 0, at, bytes, &[]).map(|reply| reply.extents)
    }
    /// Leaves.
    ///
    /// # Errors
    /// What the stream said.
    pub fn leave(mut self) -> Result<(), ClientError> {
        self.send(command::DISC, 0, 0, 0, &[]).map(drop)
    }
}

/// Puts a chunk where it belongs in its reply.
fn take_chunk(
    reply: &mut Reply,
    kind: u16,
    payload: &[u8],
    context: Option<u32>,
) -> Result<(), ClientError> {
    let request = reply.request;
    let place = |bytes: u64| -> Result<usize, ClientError> {
        let from = u64_at(payload, 0).checked_sub(request.at);
        let fits =
            |from: &u64| from.checked_add(bytes).is_some_and(|end| end <= u64::from(request.bytes));
        let from = from.filter(fits).ok_or_else(|| wrong("a chunk outside its request"))?;
        usize::try_from(from).map_err(|_| wrong("a chunk outside its request"))
    };
    match (kind, payload.len()) {
        (chunk::NONE, 0) => {}
        (chunk::OFFSET_DATA, 9..) if request.kind == command::READ => {
            let from = place(payload.len() as u64 - 8)?;
            reply.data.resize(request.bytes as usize, 0);
            reply.data[from..from + payload.len() - 8].copy_from_slice(&payload[8..]);
            reply.chunks += 1;
        }
        (chunk::OFFSET_HOLE, 12) if request.kind == command::READ => {
            let bytes = u64::from(u32_at(payload, 8));
            let from = place(bytes)?;
            reply.data.resize(request.bytes as usize, 0);
            reply.data[from..from + bytes as usize].fill(0);
            reply.chunks += 1;
        }
        (chunk::BLOCK_STATUS, 12..) if request.kind == command::BLOCK_STATUS => {
            if Some(u32_at(payload, 0)) != context || !(payload.len() - 4).is_multiple_of(8) {
                return Err(wrong("extents of a context nobody asked for"));
            }
            let pair = |bytes: &[u8]| (u32_at(bytes, 0), u32_at(bytes, 4));
            reply.extents.extend(payload[4..].chunks_exact(8).map(pair));
        }
        (chunk::ERROR | chunk::ERROR_OFFSET, 6..) => reply.errno = u32_at(payload, 0),
        (kind, bytes) => return Err(wrong(format!("a chunk of kind {kind} and {bytes} bytes"))),
    }
    Ok(())
}
