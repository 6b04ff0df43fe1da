//! The NBD protocol's numbers, and its frames as bytes: nothing here reads, waits or allocates.
//!
//! All integers are big-endian. Names are those of the protocol's document, shortened.

/// What a server says first.
pub const GREETING: u64 = 0x4e42_444d_4147_4943;
/// Before each option, and second in the greeting.
pub const OPTION: u64 = 0x4948_4156_454f_5054;
/// Before each answer to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub const REQUEST: u32 = 0x2560_9513;
/// Before each simple reply.
pub const SIMPLE: u32 = 0x6744_6698;
/// Before each chunk of a structured reply.
pub const CHUNK: u32 = 0x668e_33ef;

/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an option without its data.
pub const OPTION_BYTES: usize = 16;
/// Bytes of a simple reply without data.
pub const SIMPLE_BYTES: usize = 16;
/// Bytes of a chunk without its payload.
pub const CHUNK_BYTES: usize = 20;
/// Bytes of payload of one read or write at most.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Bytes of a name at most.
pub const MAX_NAME: usize = 4096;

/// Flags of the handshake, both ways.
pub mod handshake {
    /// Fixed newstyle.
    pub const FIXED: u16 = 1;
    /// No padding after the answer to EXPORT_NAME.
    pub const NO_ZEROES: u16 = 2;
}

/// Options.
pub mod option {
    /// Begin, in the old way.
    pub const EXPORT_NAME: u32 = 1;
    /// Leave.
    pub const ABORT: u32 = 2;
    /// What is there?
    pub const LIST: u32 = 3;
    /// TLS.
    pub const STARTTLS: u32 = 5;
    /// Tell of an export.
    pub const INFO: u32 = 6;
    /// The same, and begin.
    pub const GO: u32 = 7;
    /// Structured replies from now on.
    pub const STRUCTURED: u32 = 8;
    /// What can BLOCK_STATUS tell?
    pub const LIST_META: u32 = 9;
    /// What BLOCK_STATUS shall tell.
    pub const SET_META: u32 = 10;
}

/// Answers to options.
pub mod answer {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export.
    pub const SERVER: u32 = 2;
    /// One fact about an export.
    pub const INFO: u32 = 3;
    /// One context.
    pub const META: u32 = 4;
    /// Not known here.
    pub const UNSUP: u32 = (1 << 31) + 1;
    /// Not allowed here.
    pub const POLICY: u32 = (1 << 31) + 2;
    /// Malformed.
    pub const INVALID: u32 = (1 << 31) + 3;
    /// No such export.
    pub const UNKNOWN: u32 = (1 << 31) + 6;
    /// Too long.
    pub const TOO_BIG: u32 = (1 << 31) + 9;
}

/// Facts about an export.
pub mod info {
    /// Size and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// What it is.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod flag {
    /// The others mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// It may only be read.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH.
    pub const FLUSH: u16 = 1 << 2;
    /// Force unit access.
    pub const FUA: u16 = 1 << 3;
    /// TRIM.
    pub const TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Reads in one chunk.
    pub const DF: u16 = 1 << 7;
    /// A flush on one connection covers all.
    pub const MULTI_CONN: u16 = 1 << 8;
    /// CACHE.
    pub const CACHE: u16 = 1 << 10;
    /// WRITE_ZEROES that refuses to be slow.
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// Leave.
    pub const DISC: u16 = 2;
    /// Flush.
    pub const FLUSH: u16 = 3;
    /// Trim.
    pub const TRIM: u16 = 4;
    /// Prefetch.
    pub const CACHE: u16 = 5;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// The state of a range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a command.
pub mod how {
    /// Durable when answered; allowed with every command.
    pub const FUA: u16 = 1;
    /// The space of zeroes stays taken.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fast, or not at all.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of chunks.
pub mod chunk {
    /// It is the last of its reply.
    pub const DONE: u16 = 1;
    /// Nothing: the reply ends.
    pub const NONE: u16 = 0;
    /// Data and where it is.
    pub const OFFSET_DATA: u16 = 1;
    /// Where zeroes are, and how many.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error of the whole request.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// An error and where it is.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// State of an extent, context `base:allocation`.
pub mod state {
    /// Nothing is stored.
    pub const HOLE: u32 = 1;
    /// It reads as zeroes.
    pub const ZERO: u32 = 2;
}

/// An error as the protocol has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// Malformed, or beyond the end.
    Inval = 22,
    /// A write beyond the end, or no room.
    NoSpace = 28,
    /// Too much for one reply.
    Overflow = 75,
    /// Not in this way.
    NotSup = 95,
    /// The server stops.
    Shutdown = 108,
}

/// A request's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Flags.
    pub flags: u16,
    /// Command.
    pub kind: u16,
    /// Echoed in the reply.
    pub cookie: u64,
    /// First byte.
    pub at: u64,
    /// Length.
    pub bytes: u32,
}

/// The bytes are no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:#010x} instead of a request")]
pub struct NotARequest(pub u32);

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
/// The integer at a place inside `bytes`.
///
/// # Panics
/// If it reaches beyond them.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}
/// The integer at a place inside `bytes`.
///
/// # Panics
/// If it reaches beyond them.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

impl Request {
    /// Reads one.
    ///
    /// # Errors
    /// [`NotARequest`]: there is no way to find the next one.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Result<Request, NotARequest> {
        match u32_at(bytes, 0) {
            REQUEST => Ok(Request {
                flags: u16_at(bytes, 4),
                kind: u16_at(bytes, 6),
                cookie: u64_at(bytes, 8),
                at: u64_at(bytes, 16),
                bytes: u32_at(bytes, 24),
            }),
            other => Err(NotARequest(other)),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.at.to_be_bytes());
        bytes[24..].copy_from_slice(&self.bytes.to_be_bytes());
        bytes
    }

    /// Bytes of payload that follow it.
    pub fn payload(&self) -> u32 {
        if self.kind == command::WRITE { self.bytes } else { 0 }
    }

    /// Whether all its flags are known for its command.
    pub fn flags_fit(&self) -> bool {
        let known = match self.kind {
            command::READ => how::DF,
            command::WRITE_ZEROES => how::NO_HOLE | how::FAST_ZERO,
            command::BLOCK_STATUS => how::REQ_ONE,
            _ => 0,
        };
        self.flags & !(known | how::FUA) == 0
    }

    /// Whether one of its flags is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A simple reply without data.
pub fn simple(error: u32, cookie: u64) -> [u8; SIMPLE_BYTES] {
    let mut bytes = [0; SIMPLE_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The head of a chunk.
pub fn chunk_head(done: bool, kind: u16, cookie: u64, payload: u32) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    bytes[..4].copy_from_slice(&CHUNK.to_be_bytes());
    bytes[4..6].copy_from_slice(&(if done { chunk::DONE } else { 0 }).to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&payload.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_was() {
        let request = Request {
            flags: how::FUA,
            kind: command::WRITE,
            cookie: 0x0102_0304_0506_0708,
            at: u64::MAX - 1,
            bytes: 77,
        };
        let mut bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Ok(request));
        assert_eq!(request.payload(), 77);
        assert!(request.flags_fit());
        assert!(!Request { flags: how::DF, ..request }.flags_fit());
        assert!(!Request { flags: 1 << 9, ..request }.flags_fit());
        bytes[3] ^= 1;
        assert_eq!(Request::decode(&bytes), Err(NotARequest(REQUEST ^ 1)));
    }
}
