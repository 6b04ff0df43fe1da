//! An initiator of our own: what the conformance checks, the tests and the load ask controllers with.
//!
//! It says what it is told, also what no good host would.

pub mod authenticate;
mod line;
mod wish;

use std::io;

use block::TxId;

pub use line::{Completion, Line};
pub use wish::Wish;

use super::codec::{DEALLOCATE, FORCE, Sqe, admin, claim, fabrics, io as command, vendor};
use super::identity::{self, DISCOVERY};
use super::pdu::{put, u16_at, u32_at, u64_at};
use super::status::Status;
use crate::stream::Address;

/// Why an initiator gives up.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// The stream failed, or ended.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The controller breaks the protocol.
    #[error("the controller breaks the protocol: {0}")]
    Protocol(String),
    /// The controller ended the connection: why, and the byte of the header that it is about.
    #[error("the controller ended the connection: reason {0}, byte {1}")]
    Terminated(u16, u32),
    /// One side does not believe who the other one is: why.
    #[error("authentication: {0}")]
    Authentication(&'static str),
    /// A command failed.
    #[error("command {opcode:02x}h failed: {status}, {result:#x}")]
    Failed {
        /// The command.
        opcode: u8,
        /// What came of it.
        status: Status,
        /// Words 0 and 1 of its completion.
        result: u64,
    },
}

/// What a controller says of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its number.
    pub nsid: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes of one are 2 to this.
    pub shift: u32,
    /// It may not be written.
    pub read_only: bool,
    /// Its transactions, if it has any.
    pub transactions: Option<identity::Limits>,
}

/// A host that is connected.
#[derive(Debug)]
pub struct Initiator {
    /// The admin queue.
    pub admin: Line,
    /// I/O queues.
    pub queues: Vec<Line>,
    /// The answer to Identify Controller.
    pub controller: Vec<u8>,
    /// The namespaces.
    pub namespaces: Vec<Told>,
}

/// A command of fabrics.
fn fabric(kind: u8) -> Sqe {
    let mut sqe = Sqe::new(admin::FABRICS, 0);
    sqe.0[4] = kind;
    sqe
}

/// Connect, and its data.
pub fn connect_command(nqn: &str, wish: &Wish, qid: u16, size: u16, cntlid: u16) -> (Sqe, Vec<u8>) {
    let sqe = fabric(fabrics::CONNECT)
        .word(10, u32::from(qid) << 16)
        .word(11, u32::from(size))
        .word(12, if qid == 0 { wish.alive } else { 0 });
    let mut data = vec![0; 1024];
    put(&mut data, 0, &wish.id);
    put(&mut data, 16, &cntlid.to_le_bytes());
    put(&mut data, 256, nqn.as_bytes());
    put(&mut data, 512, wish.host.as_bytes());
    (sqe, data)
}

fn get_property(line: &mut Line, at: u32, wide: bool) -> Result<u64, InitiatorError> {
    let sqe = fabric(fabrics::GET).word(10, u32::from(wide)).word(11, at);
    Ok(line.done(sqe, &[], 0)?.cqe.result)
}

/// Sets CC.
///
/// # Errors
/// [`InitiatorError`].
pub fn configure(line: &mut Line, value: u32) -> Result<(), InitiatorError> {
    let sqe = fabric(fabrics::SET).word(11, 0x14).word(12, value);
    line.done(sqe, &[], 0).map(drop)
}

/// A log.
///
/// # Errors
/// [`InitiatorError`].
pub fn log(line: &mut Line, number: u8, at: u64, bytes: u32) -> Result<Vec<u8>, InitiatorError> {
    let words = bytes / 4 - 1;
    let sqe = Sqe::new(admin::GET_LOG, u32::MAX)
        .word(10, u32::from(number) | (words & 0xffff) << 16)
        .word(11, words >> 16)
        .words(12, at);
    Ok(line.done(sqe, &[], bytes as usize)?.data)
}

/// Opens an admin queue of a subsystem, and lets its controller begin; its number.
fn begin(address: &Address, nqn: &str, wish: &Wish) -> Result<(Line, u16), InitiatorError> {
    let mut line = Line::open(address, wish.digests)?;
    let (sqe, data) = connect_command(nqn, wish, 0, 31, u16::MAX);
    let answer = line.done(sqe, &data, 0)?.cqe.result;
    let cntlid = answer as u16;
    authenticate::authenticate(&mut line, nqn, wish, answer)?;
    let capabilities = get_property(&mut line, 0, true)?;
    if capabilities & 1 << 37 == 0 || capabilities >> 48 & 0xf != 0 {
        return Err(InitiatorError::Protocol(format!("capabilities {capabilities:#x}")));
    }
    configure(&mut line, 0x0046_0001)?;
    let status = get_property(&mut line, 0x1c, false)?;
    if status & 3 != 1 {
        return Err(InitiatorError::Protocol(format!("not ready: status {status:#x}")));
    }
    Ok((line, cntlid))
}

/// A subsystem that a discovery controller tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its qualified name.
    pub nqn: String,
    /// Where it is: address and port, as texts.
    pub at: (String, String),
    /// What is told of a secure channel: 0 nothing, 1 that one must be, 2 that one may be.
    pub secure: u8,
}

/// The subsystems that are told at an address.
///
/// # Errors
/// [`InitiatorError`].
pub fn discover(address: &Address, wish: &Wish) -> Result<Vec<Listed>, InitiatorError> {
    let (mut line, _) = begin(address, DISCOVERY, wish)?;
    let count = u64_at(&log(&mut line, 0x70, 0, 1024)?, 8).min(64);
    let mut all = Vec::new();
    for number in 0..count {
        let entry = log(&mut line, 0x70, 1024 * (number + 1), 1024)?;
        let text = |from: usize, to: usize| {
            let bytes = entry[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).trim_end().to_string()
        };
        all.push(Listed {
            nqn: text(256, 512),
            at: (text(512, 768), text(32, 64)),
            secure: entry[3] & 3,
        });
    }
    Ok(all)
}

/// The name of the subsystem that is meant: the one that was given, else the first one that is told there.
///
/// # Errors
/// [`InitiatorError`].
pub fn name_at(
    address: &Address,
    given: Option<&str>,
    wish: &Wish,
) -> Result<String, InitiatorError> {
    if let Some(given) = given {
        return Ok(given.to_string());
    }
    let first = discover(address, wish)?.into_iter().next();
    let none = || InitiatorError::Protocol("discovery tells of no subsystem".to_string());
    first.map(|listed| listed.nqn).ok_or_else(none)
}

fn identify(line: &mut Line, kind: u32, nsid: u32) -> Result<Vec<u8>, InitiatorError> {
    Ok(line.done(Sqe::new(admin::IDENTIFY, nsid).word(10, kind), &[], 4096)?.data)
}

impl Initiator {
    /// Connects to a subsystem: all its namespaces, as many queues as wished for.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn connect(address: &Address, nqn: &str, wish: &Wish) -> Result<Initiator, InitiatorError> {
        let (mut admin, cntlid) = begin(address, nqn, wish)?;
        let controller = identify(&mut admin, 1, 0)?;
        if identity::cntlid(&controller) != cntlid {
            return Err(InitiatorError::Protocol("another controller answers".to_string()));
        }
        let list = identify(&mut admin, 2, 0)?;
        let mut namespaces = Vec::new();
        for nsid in list.chunks(4).map(|word| u32_at(word, 0)).take_while(|nsid| *nsid > 0) {
            let all = identify(&mut admin, 0, nsid)?;
            let shift = u32::from(all[128 + 4 * usize::from(all[26] & 15) + 2]);
            let read_only = all[99] & 1 != 0;
            if !(9..=16).contains(&shift) {
                return Err(InitiatorError::Protocol(format!("blocks of 2^{shift} bytes")));
            }
            let (blocks, transactions) = (u64_at(&all, 0), identity::limits_of(&all));
            namespaces.push(Told { nsid, blocks, shift, read_only, transactions });
        }
        let count = u32::from(wish.queues - 1);
        let set = Sqe::new(admin::SET_FEATURES, 0).word(10, 7).word(11, count << 16 | count);
        let granted = admin.done(set, &[], 0)?.cqe.result as u32 & 0xffff;
        let capsule = (u32_at(&controller, 1792) as usize * 16).saturating_sub(64);
        let mut queues = Vec::new();
        for qid in 1..=wish.queues.min(granted as u16 + 1) {
            let mut line = Line::open(address, wish.digests)?;
            let (sqe, data) = connect_command(nqn, wish, qid, wish.depth - 1, cntlid);
            let answer = line.done(sqe, &data, 0)?.cqe.result;
            authenticate::authenticate(&mut line, nqn, wish, answer)?;
            line.capsule = wish.capsule.map_or(capsule, |most| most.min(capsule));
            queues.push(line);
        }
        Ok(Initiator { admin, queues, controller, namespaces })
    }

    /// The first I/O queue.
    pub fn line(&mut self) -> &mut Line {
        &mut self.queues[0]
    }

    /// Bytes that a command may move.
    pub fn transfer(&self) -> u64 {
        match self.controller[77] {
            0 => 1 << 20,
            power => (4096u64 << power.min(16)).min(1 << 20),
        }
    }

    /// Whether it offers an optional command (a bit of ONCS).
    pub fn offers(&self, bit: u16) -> bool {
        u16_at(&self.controller, 520) & 1 << bit != 0
    }

    /// Transactions: open at once, pages, span; `None`: there are none.
    pub fn transactions(&self) -> Option<(u32, u32, u64)> {
        identity::limits(&self.controller)
    }

    /// Reads logical blocks, in as many commands as it takes.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn read(&mut self, of: Told, first: u64, count: u64) -> Result<Vec<u8>, InitiatorError> {
        let (step, mut all) = (self.transfer() >> of.shift, Vec::new());
        let mut at = first;
        loop {
            let now = step.min(first + count - at);
            let sqe = blocks(command::READ, of, at, now);
            let bytes = (now << of.shift) as usize;
            let data = self.line().done(sqe, &[], bytes)?.data;
            if data.len() != bytes {
                return Err(InitiatorError::Protocol(format!("{} bytes of {bytes}", data.len())));
            }
            all.extend_from_slice(&data);
            at += now;
            if at >= first + count {
                return Ok(all);
            }
        }
    }

    /// Writes logical blocks, in as many commands as it takes.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn write(
        &mut self,
        of: Told,
        first: u64,
        data: &[u8],
        force: bool,
    ) -> Result<(), InitiatorError> {
        let step = self.transfer() as usize;
        for (i, piece) in data.chunks(step).enumerate() {
            let at = first.wrapping_add((i * step) as u64 >> of.shift);
            let sqe = blocks(command::WRITE, of, at, piece.len() as u64 >> of.shift);
            let force = if force { FORCE } else { 0 };
            let sqe = sqe.word(12, sqe.dword(12) | force);
            self.line().done(sqe, piece, 0)?;
        }
        Ok(())
    }

    /// Flushes.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn flush(&mut self, of: Told) -> Result<(), InitiatorError> {
        self.line().done(Sqe::new(command::FLUSH, of.nsid), &[], 0).map(drop)
    }

    /// Makes logical blocks zero; with `keep` the space stays taken.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn zero(
        &mut self,
        of: Told,
        first: u64,
        count: u64,
        keep: bool,
    ) -> Result<(), InitiatorError> {
        let mut at = first;
        let end = first.saturating_add(count);
        while at < end {
            let now = (end - at).min(1 << 16);
            let sqe = blocks(command::WRITE_ZEROES, of, at, now);
            let bit = if keep { 0 } else { DEALLOCATE };
            self.line().done(sqe.word(12, sqe.dword(12) | bit), &[], 0)?;
            at += now;
        }
        Ok(())
    }

    /// Forgets logical blocks.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn deallocate(&mut self, of: Told, first: u64, count: u32) -> Result<(), InitiatorError> {
        let mut range = [0; 16];
        put(&mut range, 4, &count.to_le_bytes());
        put(&mut range, 8, &first.to_le_bytes());
        let sqe = Sqe::new(command::DATASET, of.nsid).word(11, 4);
        self.line().done(sqe, &range, 0).map(drop)
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn tx_begin(&mut self, of: Told) -> Result<TxId, InitiatorError> {
        let done = self.line().done(Sqe::new(vendor::BEGIN, of.nsid), &[], 0)?;
        Ok(TxId(done.cqe.result))
    }

    /// Writes for one.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn tx_write(
        &mut self,
        of: Told,
        tid: TxId,
        first: u64,
        data: &[u8],
    ) -> Result<(), InitiatorError> {
        let sqe = blocks(vendor::WRITE, of, first, data.len() as u64 >> of.shift).words(14, tid.0);
        self.line().done(sqe, data, 0).map(drop)
    }

    /// Reads as one sees it.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn tx_read(
        &mut self,
        of: Told,
        tid: TxId,
        first: u64,
        count: u64,
    ) -> Result<Vec<u8>, InitiatorError> {
        let sqe = blocks(vendor::READ, of, first, count).words(14, tid.0);
        Ok(self.line().done(sqe, &[], (count << of.shift) as usize)?.data)
    }

    /// Zeroes once it is committed.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn tx_trim(
        &mut self,
        of: Told,
        tid: TxId,
        first: u64,
        count: u64,
    ) -> Result<(), InitiatorError> {
        let sqe = blocks(vendor::TRIM, of, first, count).words(14, tid.0);
        self.line().done(sqe, &[], 0).map(drop)
    }

    /// Commits: several together.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn tx_commit(&mut self, of: Told, tids: &[TxId]) -> Result<(), InitiatorError> {
        let sqe = match tids {
            [tid] => Sqe::new(vendor::COMMIT, of.nsid).words(14, tid.0),
            _ => {
                Sqe::new(vendor::COMMIT_SET, of.nsid).word(10, (tids.len() as u32).wrapping_sub(1))
            }
        };
        let data: Vec<u8> = match tids {
            [_] => Vec::new(),
            _ => tids.iter().flat_map(|tid| tid.0.to_le_bytes()).collect(),
        };
        self.line().done(sqe, &data, 0).map(drop)
    }

    /// Aborts.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn tx_abort(&mut self, of: Told, tid: TxId) -> Result<(), InitiatorError> {
        let sqe = Sqe::new(vendor::ABORT, of.nsid).words(14, tid.0);
        self.line().done(sqe, &[], 0).map(drop)
    }

    /// Claims a namespace for this host alone, or gives it back.
    ///
    /// # Errors
    /// [`InitiatorError`]: [`Status::CLAIMED`] if another host has it.
    pub fn claim(&mut self, of: Told, take: bool) -> Result<(), InitiatorError> {
        let what = if take { claim::TAKE } else { claim::GIVE_BACK };
        self.line().done(Sqe::new(vendor::CLAIM, of.nsid).word(10, what), &[], 0).map(drop)
    }

    /// Whether namespaces can be claimed.
    pub fn offers_claims(&self) -> bool {
        identity::claims(&self.controller)
    }

    /// Moves blocks: (destination, source) each.
    ///
    /// # Errors
    /// [`InitiatorError`].
    pub fn remap(&mut self, of: Told, pairs: &[(u64, u64)]) -> Result<(), InitiatorError> {
        let sqe = Sqe::new(vendor::REMAP, of.nsid).word(10, (pairs.len() as u32).wrapping_sub(1));
        let words = pairs.iter().flat_map(|(to, from)| [*to, *from]);
        let data: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        self.line().done(sqe, &data, 0).map(drop)
    }
}

/// A command of logical blocks.
pub fn blocks(opcode: u8, of: Told, first: u64, count: u64) -> Sqe {
    Sqe::new(opcode, of.nsid).words(10, first).word(12, (count as u32).wrapping_sub(1) & 0xffff)
}
