//! Commands and completions as bytes, and the numbers of both.

use super::pdu::{CQE, SQE, put, u16_at, u32_at, u64_at};
use super::status::Status;

/// Commands of every queue of fabrics, and of the admin queue.
pub mod admin {
    /// A log.
    pub const GET_LOG: u8 = 0x02;
    /// What there is.
    pub const IDENTIFY: u8 = 0x06;
    /// Ends a command early.
    pub const ABORT: u8 = 0x08;
    /// Sets a feature.
    pub const SET_FEATURES: u8 = 0x09;
    /// Asks for one.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Answered when something happens.
    pub const ASYNC_EVENT: u8 = 0x0c;
    /// The host lives.
    pub const KEEP_ALIVE: u8 = 0x18;
    /// Commands of fabrics.
    pub const FABRICS: u8 = 0x7f;
}

/// Kinds of [`admin::FABRICS`].
pub mod fabrics {
    /// Sets a property.
    pub const SET: u8 = 0;
    /// Makes a connection a queue.
    pub const CONNECT: u8 = 1;
    /// Asks for a property.
    pub const GET: u8 = 4;
    /// Brings a message of an authentication.
    pub const AUTH_SEND: u8 = 5;
    /// Asks for one.
    pub const AUTH_RECEIVE: u8 = 6;
}

/// Commands of I/O queues.
pub mod io {
    /// Everything answered becomes durable.
    pub const FLUSH: u8 = 0x00;
    /// Writes.
    pub const WRITE: u8 = 0x01;
    /// Reads.
    pub const READ: u8 = 0x02;
    /// Compares.
    pub const COMPARE: u8 = 0x05;
    /// Writes zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Tells what becomes of ranges.
    pub const DATASET: u8 = 0x09;
}

/// Vendor commands: transactions and remapping (`block::tx`). The two low bits say which way data goes.
pub mod vendor {
    /// Opens a transaction.
    pub const BEGIN: u8 = 0x80;
    /// Writes for one.
    pub const WRITE: u8 = 0x81;
    /// Reads as one sees it.
    pub const READ: u8 = 0x82;
    /// Commits one.
    pub const COMMIT: u8 = 0x84;
    /// Commits several together.
    pub const COMMIT_SET: u8 = 0x85;
    /// Aborts one.
    pub const ABORT: u8 = 0x88;
    /// Moves pages by the map.
    pub const REMAP: u8 = 0x89;
    /// Zeroes once it is committed.
    pub const TRIM: u8 = 0x8c;
    /// Claims a namespace, or gives it back ([`super::claim`]).
    pub const CLAIM: u8 = 0x90;
}

/// What [`vendor::CLAIM`] does: its tenth word.
pub mod claim {
    /// From here on nobody else may change anything.
    pub const TAKE: u32 = 0;
    /// Everybody may.
    pub const GIVE_BACK: u32 = 1;
}

/// Bit 30 of the twelfth word: durable when it is answered.
pub const FORCE: u32 = 1 << 30;
/// Bit 25 of the twelfth word of WRITE_ZEROES: the space may be given back.
pub const DEALLOCATE: u32 = 1 << 25;
/// Every namespace.
pub const ALL: u32 = u32::MAX;

/// Where the data of a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Behind the command.
    Capsule,
    /// Moved by PDUs of its own.
    Transport,
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sqe(pub [u8; SQE]);

impl Sqe {
    /// One that moves no data.
    pub fn new(opcode: u8, nsid: u32) -> Sqe {
        let mut bytes = [0; SQE];
        (bytes[0], bytes[1]) = (opcode, 0x40);
        put(&mut bytes, 4, &nsid.to_le_bytes());
        bytes[39] = 0x5a;
        Sqe(bytes)
    }
    /// The same with a word (10 to 15).
    pub fn word(mut self, number: usize, value: u32) -> Sqe {
        put(&mut self.0, number * 4, &value.to_le_bytes());
        self
    }
    /// The same with a number in two words.
    pub fn words(self, first: usize, value: u64) -> Sqe {
        self.word(first, value as u32).word(first + 1, (value >> 32) as u32)
    }
    /// The same of a number.
    pub fn numbered(mut self, cid: u16) -> Sqe {
        put(&mut self.0, 2, &cid.to_le_bytes());
        self
    }
    /// The same with this many bytes of data.
    pub fn moving(mut self, bytes: u32, place: Place) -> Sqe {
        put(&mut self.0, 24, &[0; 8]);
        put(&mut self.0, 32, &bytes.to_le_bytes());
        self.0[39] = if place == Place::Capsule { 0x01 } else { 0x5a };
        self
    }

    /// What is to be done.
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }
    /// Its number, which comes back.
    pub fn cid(&self) -> u16 {
        u16_at(&self.0, 2)
    }
    /// The namespace; of [`admin::FABRICS`] its kind is in the low byte.
    pub fn nsid(&self) -> u32 {
        u32_at(&self.0, 4)
    }
    /// A word.
    pub fn dword(&self, number: usize) -> u32 {
        u32_at(&self.0, number * 4)
    }
    /// Two words.
    pub fn qword(&self, first: usize) -> u64 {
        u64_at(&self.0, first * 4)
    }
    /// Whether it brings data.
    pub fn brings(&self) -> bool {
        match self.opcode() {
            admin::FABRICS => self.0[4] & 3 == 1,
            opcode => opcode & 3 == 1,
        }
    }
    /// Bytes of its data, and where they are.
    ///
    /// # Errors
    /// No such descriptor is offered here.
    pub fn data(&self) -> Result<(u32, Place), Status> {
        if self.0[1] & 0xc0 != 0x40 || self.0[1] & 3 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        match self.0[39] {
            // Data of the capsule begins where it begins.
            0x01 if u64_at(&self.0, 24) == 0 => Ok((u32_at(&self.0, 32), Place::Capsule)),
            0x01 => Err(Status::SGL_OFFSET),
            0x5a => Ok((u32_at(&self.0, 32), Place::Transport)),
            _ => Err(Status::SGL_TYPE),
        }
    }
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cqe {
    /// Words 0 and 1.
    pub result: u64,
    /// Where the controller is in the queue.
    pub head: u16,
    /// The command.
    pub cid: u16,
    /// What came of it.
    pub status: Status,
}

impl Cqe {
    /// As bytes.
    pub fn encode(self) -> [u8; CQE] {
        let mut bytes = [0; CQE];
        put(&mut bytes, 0, &self.result.to_le_bytes());
        put(&mut bytes, 8, &self.head.to_le_bytes());
        put(&mut bytes, 12, &self.cid.to_le_bytes());
        put(&mut bytes, 14, &(self.status.0 << 1).to_le_bytes());
        bytes
    }
    /// From bytes.
    pub fn decode(bytes: &[u8; CQE]) -> Cqe {
        Cqe {
            result: u64_at(bytes, 0),
            head: u16_at(bytes, 8),
            cid: u16_at(bytes, 12),
            status: Status(u16_at(bytes, 14) >> 1),
        }
    }
}
