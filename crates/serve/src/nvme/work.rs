//! What a connection does with a command, and its answers.
//!
//! Invariants: every command is answered once, asynchronous events when there is one. Whoever is to be
//! answered durable (Flush, forced commands) waits for one flush of the disk at the end of the batch: it
//! begins after all of them were done, so it covers all. An answer of data has only bytes that were read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use stack::disk::{DiskError, Done};

use super::association::Association;
use super::codec::{ALL, Cqe, Sqe, admin};
use super::connection::End;
use super::gate::Gate;
use super::namespace::Namespace;
use super::pdu::{self, Digests, Part, kind};
use super::planted::Bug;
use super::powered::Powered;
use super::stats::Counts;
use super::status::{Failure, Status};
use super::subsystem::Subsystem;
use crate::stream::{Output, Transport};

/// Commands that wait for a shared flush.
const WAITING: usize = 1024;
/// Asynchronous events that are held.
pub(super) const EVENTS: usize = 4;

/// What a connection is since it was connected.
#[derive(Debug)]
pub(super) struct Queue {
    /// Whose it is.
    pub association: Arc<Association>,
    /// Its number; 0 is the admin queue.
    pub qid: u16,
    /// Commands it holds.
    pub size: u16,
    /// Commands taken from it, modulo its size; `None`: the host does not want to know.
    pub head: Option<u16>,
    /// What its host has to show before anything else; `None`: nothing, or it has.
    pub gate: Option<Gate>,
    /// Its association knows of it. Until then another connection may become the same queue.
    pub seated: bool,
}

impl Queue {
    /// Whether commands other than those of fabrics may come.
    pub fn serves(&self) -> bool {
        self.gate.is_none() && self.association.is_ready()
    }
    /// Whether what comes on it shows that its host lives: of an I/O queue anybody may say whose it is.
    pub fn tells_of_life(&self) -> bool {
        self.qid == 0 || self.gate.is_none()
    }
}

/// A command that waits for a flush.
#[derive(Debug)]
struct Wait {
    sqe: Sqe,
    /// The place of the namespace; `None`: all of them.
    index: Option<usize>,
    done: Done,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Work<'a, T> {
    pub shared: &'a Arc<Subsystem>,
    pub out: Output<Powered<T>>,
    pub digests: Digests,
    pub queue: Option<Queue>,
    /// Where the host reached us.
    pub local: Option<SocketAddr>,
    waiting: Vec<Wait>,
    /// Asynchronous event requests.
    pub held: Vec<u16>,
    pub counts: Counts,
    pub stop: &'a AtomicBool,
    /// Some disk wants writes that came together.
    pub joins: bool,
    /// Nothing has come behind the command that is done now.
    pub last: bool,
    /// Why an answer could not be given, if one could not.
    pub ended: Option<End>,
}

impl<'a, T: Transport> Work<'a, T> {
    pub fn new(
        shared: &'a Arc<Subsystem>,
        stream: T,
        local: Option<SocketAddr>,
        stop: &'a AtomicBool,
    ) -> Work<'a, T> {
        Work {
            shared,
            out: Output::new(Powered::new(stream, shared)),
            digests: Digests::default(),
            queue: None,
            local,
            waiting: Vec::new(),
            held: Vec::new(),
            counts: Counts { connections: 1, ..Counts::default() },
            stop,
            joins: shared.namespaces.iter().any(|one| one.stack.disk.joins_writes()),
            last: false,
            ended: None,
        }
    }

    /// Whether a command of this number is not answered yet.
    pub fn knows(&self, cid: u16) -> bool {
        self.held.contains(&cid) || self.waiting.iter().any(|wait| wait.sqe.cid() == cid)
    }

    /// Whether nothing else waits, for a flush or to be looked at.
    pub fn is_alone(&self) -> bool {
        self.last && self.waiting.is_empty()
    }

    /// A command was taken from the queue.
    pub fn advance(&mut self) {
        if let Some(queue) = &mut self.queue {
            let size = queue.size;
            queue.head = queue.head.map(|head| if head + 1 >= size { 0 } else { head + 1 });
        }
    }

    /// Does a command whose data is all there.
    pub fn execute(&mut self, sqe: &Sqe, data: &[u8]) -> Result<(), End> {
        let done = match (&self.queue, sqe.opcode()) {
            (_, admin::FABRICS) => self.fabrics(sqe, data),
            (None, _) => Err(Status::SEQUENCE.into()),
            (Some(queue), _) if queue.gate.is_some() => Err(Status::AUTHENTICATION.into()),
            (Some(queue), _) if !queue.serves() => Err(Status::SEQUENCE.into()),
            (Some(queue), _) if queue.qid == 0 => self.admin(sqe, data),
            (Some(_), _) => self.io(sqe, data),
        };
        match done {
            Ok(reply) => self.reply(sqe, reply),
            Err(failure) => self.fail(sqe, failure),
        }
    }

    /// Answers a command that did not fail, when its answer is due.
    pub fn reply(&mut self, sqe: &Sqe, reply: Reply) -> Result<(), End> {
        match reply {
            Reply::Done(result, done) => self.complete(sqe.cid(), Status::OK, result, done),
            Reply::Flush(index, done) => {
                self.waiting.push(Wait { sqe: *sqe, index, done });
                if self.waiting.len() < WAITING { Ok(()) } else { self.settle() }
            }
            Reply::Data(bytes) => self.answer_data(sqe, bytes.len(), |into| {
                into.copy_from_slice(&bytes);
                Ok(Done::NOW)
            }),
            Reply::Answered => self.ended.take().map_or(Ok(()), Err),
            Reply::Held => {
                self.held.push(sqe.cid());
                self.tell_events()
            }
        }
    }

    /// A command is done, or has failed.
    pub fn complete(
        &mut self,
        cid: u16,
        status: Status,
        result: u64,
        done: Done,
    ) -> Result<(), End> {
        let (bytes, count) = self.response(cid, status, result);
        self.out.begin()?;
        self.out.put(&bytes[..count]);
        self.answer(cid, done)
    }

    /// The completion of a command.
    fn response(&self, cid: u16, status: Status, result: u64) -> pdu::Head {
        let head = self.queue.as_ref().map_or(1, |queue| queue.head.unwrap_or(u16::MAX));
        pdu::response(&Cqe { result, head, cid, status }.encode(), self.digests)
    }

    /// The completion leaves when its command is done. If the power goes before, it says what one that comes then is told.
    fn answer(&mut self, cid: u16, done: Done) -> Result<(), End> {
        if done.due().is_none() {
            return Ok(self.out.end_now()?);
        }
        let failure = Failure::from(DiskError::PowerOff);
        let (bytes, count) = self.response(cid, failure.status, failure.result);
        Ok(self.out.end(done, &bytes[..count])?)
    }

    /// A command has failed. While the power is off a drive would say nothing.
    pub fn fail(&mut self, sqe: &Sqe, failure: Failure) -> Result<(), End> {
        if failure.dark && self.shared.options.vanish {
            return Err(End::Dark);
        }
        self.counts.errors += 1;
        if let Some(queue) = &self.queue {
            queue.association.note_error(queue.qid, sqe, failure.status);
        }
        self.complete(sqe.cid(), failure.status, failure.result, Done::NOW)
    }

    /// Answers with data that `fill` brings.
    pub fn answer_data(
        &mut self,
        sqe: &Sqe,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<Done, Failure>,
    ) -> Result<(), End> {
        let part = Part { cid: sqe.cid(), tag: 0, at: 0, bytes: bytes as u32 };
        let (head, count) = part.head(kind::CONTROLLER_DATA, true, self.digests);
        self.out.begin()?;
        self.out.put(&head[..count]);
        let digest = self.digests.data;
        let filled = self.out.put_with(bytes, |into| {
            let done = fill(into)?;
            Ok::<_, Failure>((done, if digest { block::crc32c(0, into) } else { 0 }))
        });
        match filled {
            Ok((done, crc)) => {
                if digest {
                    self.out.put(&crc.to_le_bytes());
                }
                let (bytes, count) = self.response(sqe.cid(), Status::OK, 0);
                self.out.put(&bytes[..count]);
                self.answer(sqe.cid(), done)
            }
            Err(failure) => {
                self.out.forget();
                self.fail(sqe, failure)
            }
        }
    }

    /// One flush of each disk for all that wait for one.
    pub fn settle(&mut self) -> Result<(), End> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let shared = self.shared;
        let (waiting, cntlid) = (std::mem::take(&mut self.waiting), self.cntlid());
        let mut flushed = BTreeMap::new();
        for wait in waiting {
            let mut result = Ok(wait.done);
            let all = 0..shared.namespaces.len();
            let indices = wait.index.map_or(all, |index| index..index + 1);
            for index in indices {
                let counts = &mut self.counts;
                let early = shared.options.bug.has(Bug::FlushEarly);
                let one = flushed.entry(index).or_insert_with(|| {
                    counts.disk_flushes += 1;
                    if early {
                        return Ok(Done::NOW);
                    }
                    shared.namespaces[index].stack.disk.flush().map_err(Failure::from)
                });
                result = result.and_then(|done: Done| one.clone().map(|flush| done.and(flush)));
                // What it is about was written in the life of the drive that it ended in.
                result = result.and_then(|done| shared.believes(index, cntlid).map(|()| done));
            }
            match result {
                Ok(done) => self.complete(wait.sqe.cid(), Status::OK, 0, done)?,
                Err(failure) => self.fail(&wait.sqe, failure)?,
            }
        }
        Ok(())
    }

    /// Answers leave.
    pub fn leave(&mut self) -> Result<(), End> {
        Ok(self.out.flush()?)
    }

    /// Tells of what has happened, as long as somebody waits for it.
    pub fn tell_events(&mut self) -> Result<(), End> {
        while !self.held.is_empty() {
            let Some(queue) = &self.queue else { return Ok(()) };
            let Some(event) = queue.association.next_event() else { return Ok(()) };
            let cid = self.held.remove(0);
            self.complete(cid, Status::OK, u64::from(event), Done::NOW)?;
        }
        Ok(())
    }

    /// Whether it has ended: nothing more is done for it, though it had asked already.
    pub fn check_over(&self) -> Result<(), End> {
        match &self.queue {
            Some(queue) if queue.association.is_dark() => Err(End::Dark),
            Some(queue) if queue.association.is_over() => Err(End::Closed),
            _ => Ok(()),
        }
    }

    /// Whether the association ends now, and why.
    pub fn check_life(&mut self, since: Instant) -> Result<(), End> {
        let Some(queue) = &self.queue else {
            return match since.elapsed() > super::connection::HANDSHAKE {
                true => Err(End::Expired),
                false => Ok(()),
            };
        };
        self.check_over()?;
        if queue.gate.is_some() && since.elapsed() > super::connection::HANDSHAKE {
            return Err(End::Expired);
        }
        if queue.qid > 0 {
            return Ok(());
        }
        if queue.association.is_silent() {
            self.counts.expired += 1;
            return Err(End::Expired);
        }
        self.tell_events()
    }

    /// The namespace of a command: its place, and what it is.
    pub fn namespace(&self, sqe: &Sqe) -> Result<(usize, &'a Namespace), Failure> {
        let index = (sqe.nsid() as usize).wrapping_sub(1);
        let found = self.shared.namespaces.get(index).filter(|_| sqe.nsid() != ALL);
        found.map(|namespace| (index, namespace)).ok_or(Status::INVALID_NAMESPACE.into())
    }

    /// The number of its controller; 0: it has none yet.
    pub fn cntlid(&self) -> u16 {
        self.queue.as_ref().map_or(0, |queue| queue.association.cntlid)
    }

    /// Whether no more commands are taken.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What came of a command that did not fail.
pub(super) enum Reply {
    /// It is done: words 0 and 1, and when that may be said.
    Done(u64, Done),
    /// It is done, and answered after the next flush of the namespace at this place, or of all.
    Flush(Option<usize>, Done),
    /// This is what was asked for.
    Data(Vec<u8>),
    /// It is answered already.
    Answered,
    /// It is answered when something happens.
    Held,
}

impl Reply {
    /// It is done, and nothing is to be said of it.
    pub const OK: Reply = Reply::Done(0, Done::NOW);
}

/// What a command gives, or why it fails; the connection ends otherwise.
pub(super) type Outcome = Result<Reply, Failure>;
