//! The handshake: bytes in, bytes out, until both sides agree on an export.
//!
//! Invariants: what a client declares is never allocated; options are counted; whatever is
//! malformed gets the protocol's error and the next option is still found, or the connection ends.

use super::export::Export;
use super::wire::{
    GREETING, MAX_NAME, OPTION, OPTION_BYTES, OPTION_REPLY, answer, handshake, info, option,
    u32_at, u64_at,
};

/// Bytes of an option's data that are looked at.
pub const MAX_OPTION: usize = 64 << 10;
/// Bytes of an option's data that are passed over; what is longer ends the connection.
const MAX_SKIP: u32 = 1 << 20;
/// Options of one client.
const MAX_OPTIONS: u32 = 64;
/// The one context there is.
pub const ALLOCATION: &str = "base:allocation";
/// Its number.
pub const ALLOCATION_ID: u32 = 1;

/// What both sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Number of the export.
    pub export: usize,
    /// Structured replies.
    pub structured: bool,
    /// BLOCK_STATUS may be asked.
    pub status: bool,
    /// The client asked for the limits of requests, and keeps to them.
    pub aligned: bool,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// At least so many bytes are needed from where the reader is.
    Need(usize),
    /// So many bytes were used.
    Used(usize),
    /// So many bytes were used, and requests follow.
    Begin(usize, Agreed),
    /// So much was answered; nothing follows.
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The client's flags are awaited.
    Flags,
    /// An option is awaited.
    Option,
    /// The rest of an option too long, and its number.
    Skip(u32, u32),
}

/// One handshake.
#[derive(Debug)]
pub struct Negotiation<'a> {
    exports: &'a [Export],
    /// LIST is answered.
    listed: bool,
    state: State,
    padded: bool,
    structured: bool,
    /// The export whose allocation may be asked for.
    context: Option<usize>,
    options: u32,
}

/// What the server says first.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&GREETING.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION.to_be_bytes());
    bytes[16..].copy_from_slice(&(handshake::FIXED | handshake::NO_ZEROES).to_be_bytes());
    bytes
}

/// Reads the parts of an option's data.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }
    fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }
    fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|b| u32_at(b, 0))
    }
    /// A length and as many bytes of text.
    fn text(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        if n > MAX_NAME { None } else { self.bytes(n) }
    }
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    let length: usize = data.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
    data.iter().for_each(|part| out.extend_from_slice(part));
}

impl<'a> Negotiation<'a> {
    /// With a client that was greeted.
    pub fn new(exports: &'a [Export], listed: bool) -> Negotiation<'a> {
        Negotiation {
            exports,
            listed,
            state: State::Flags,
            padded: true,
            structured: false,
            context: None,
            options: 0,
        }
    }

    /// Looks at what has come, and adds what is to be answered to `out`.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Next {
        match self.state {
            State::Flags if bytes.len() < 4 => Next::Need(4),
            State::Flags => self.flags(u32_at(bytes, 0)),
            State::Skip(left, number) if (left as usize) <= bytes.len() => {
                self.state = State::Option;
                reply(out, number, answer::TOO_BIG, &[b"too long"]);
                Next::Used(left as usize)
            }
            State::Skip(_, _) if bytes.is_empty() => Next::Need(1),
            State::Skip(left, number) => {
                self.state = State::Skip(left - bytes.len() as u32, number);
                Next::Used(bytes.len())
            }
            State::Option if bytes.len() < OPTION_BYTES => Next::Need(OPTION_BYTES),
            State::Option => self.option(bytes, out),
        }
    }

    fn flags(&mut self, flags: u32) -> Next {
        let known = u32::from(handshake::FIXED | handshake::NO_ZEROES);
        if flags & !known != 0 || flags & u32::from(handshake::FIXED) == 0 {
            return Next::Close;
        }
        self.padded = flags & u32::from(handshake::NO_ZEROES) == 0;
        self.state = State::Option;
        Next::Used(4)
    }

    fn option(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Next {
        let (number, length) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if u64_at(bytes, 0) != OPTION || self.options == MAX_OPTIONS || length > MAX_SKIP {
            return Next::Close;
        }
        let all = OPTION_BYTES + length as usize;
        if length as usize > MAX_OPTION {
            self.options += 1;
            self.state = State::Skip(length, number);
            return Next::Used(OPTION_BYTES);
        }
        let Some(data) = bytes.get(OPTION_BYTES..all) else { return Next::Need(all) };
        self.options += 1;
        match number {
            option::EXPORT_NAME => return self.export_name(data, all, out),
            option::ABORT => {
                reply(out, number, answer::ACK, &[]);
                return Next::Close;
            }
            option::LIST => self.list(data, out),
            option::INFO | option::GO => {
                if let Some(agreed) = self.info(number, data, out) {
                    return Next::Begin(all, agreed);
                }
            }
            option::STRUCTURED if data.is_empty() => {
                self.structured = true;
                reply(out, number, answer::ACK, &[]);
            }
            option::STRUCTURED => reply(out, number, answer::INVALID, &[b"no data expected"]),
            option::LIST_META | option::SET_META => self.meta(number, data, out),
            _ => reply(out, number, answer::UNSUP, &[]),
        }
        Next::Used(all)
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        match name.is_empty() {
            true => (!self.exports.is_empty()).then_some(0),
            false => self.exports.iter().position(|export| export.name.as_bytes() == name),
        }
    }

    fn agreed(&self, export: usize, aligned: bool) -> Agreed {
        let status = self.context == Some(export);
        Agreed { export, structured: self.structured, status, aligned }
    }

    fn export_name(&mut self, name: &[u8], used: usize, out: &mut Vec<u8>) -> Next {
        let Some(number) = self.find(name) else { return Next::Close };
        let export = &self.exports[number];
        out.extend_from_slice(&export.disk.capabilities().size.to_be_bytes());
        out.extend_from_slice(&export.flags(self.structured).to_be_bytes());
        if self.padded {
            out.extend_from_slice(&[0; 124]);
        }
        Next::Begin(used, self.agreed(number, false))
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) {
        if !data.is_empty() {
            return reply(out, option::LIST, answer::INVALID, &[b"no data expected"]);
        }
        if !self.listed {
            return reply(out, option::LIST, answer::POLICY, &[b"not told here"]);
        }
        for export in self.exports {
            let name = export.name.as_bytes();
            let length = (name.len() as u32).to_be_bytes();
            let parts: [&[u8]; 3] = [&length, name, export.description.as_bytes()];
            reply(out, option::LIST, answer::SERVER, &parts);
        }
        reply(out, option::LIST, answer::ACK, &[]);
    }

    /// INFO, or GO, which begins.
    fn info(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Agreed> {
        let mut parts = Parts(data);
        let asked = parts.text().and_then(|name| {
            let count = parts.u16()?;
            let wanted: Vec<u16> = (0..count).map_while(|_| parts.u16()).collect();
            (wanted.len() == usize::from(count) && parts.0.is_empty()).then_some((name, wanted))
        });
        let Some((name, wanted)) = asked else {
            reply(out, number, answer::INVALID, &[b"malformed"]);
            return None;
        };
        let Some(found) = self.find(name) else {
            reply(out, number, answer::UNKNOWN, &[b"no such export"]);
            return None;
        };
        let export = &self.exports[found];
        let mut fact = |kind: u16, data: &[&[u8]]| {
            let kind = kind.to_be_bytes();
            let mut all: Vec<&[u8]> = vec![&kind];
            all.extend_from_slice(data);
            reply(out, number, answer::INFO, &all);
        };
        let size = export.disk.capabilities().size.to_be_bytes();
        fact(info::EXPORT, &[&size, &export.flags(self.structured).to_be_bytes()]);
        let sizes: Vec<u8> = export.sizes().into_iter().flat_map(u32::to_be_bytes).collect();
        fact(info::BLOCK_SIZE, &[&sizes]);
        if wanted.contains(&info::NAME) {
            fact(info::NAME, &[export.name.as_bytes()]);
        }
        if wanted.contains(&info::DESCRIPTION) && !export.description.is_empty() {
            fact(info::DESCRIPTION, &[export.description.as_bytes()]);
        }
        reply(out, number, answer::ACK, &[]);
        let aligned = wanted.contains(&info::BLOCK_SIZE);
        (number == option::GO).then(|| self.agreed(found, aligned))
    }

    /// LIST_META_CONTEXT and SET_META_CONTEXT.
    fn meta(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) {
        let set = number == option::SET_META;
        if set {
            // Whatever comes of it, an earlier choice is over.
            self.context = None;
        }
        let mut parts = Parts(data);
        let asked = parts.text().and_then(|name| {
            let count = parts.u32()? as usize;
            let queries: Vec<&[u8]> = (0..count).map_while(|_| parts.text()).collect();
            (queries.len() == count && parts.0.is_empty()).then_some((name, queries))
        });
        let (true, Some((name, queries))) = (self.structured, asked) else {
            return reply(out, number, answer::INVALID, &[b"malformed, or too early"]);
        };
        let Some(found) = self.find(name) else {
            return reply(out, number, answer::UNKNOWN, &[b"no such export"]);
        };
        let exact = queries.contains(&ALLOCATION.as_bytes());
        let all = !set && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if exact || all {
            if set {
                self.context = Some(found);
            }
            let id = if set { ALLOCATION_ID } else { 0 };
            reply(out, number, answer::META, &[&id.to_be_bytes(), ALLOCATION.as_bytes()]);
        }
        reply(out, number, answer::ACK, &[]);
    }
}
