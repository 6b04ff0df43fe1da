//! One socket of a host: PDUs in order, answers in batches.
//!
//! * A PDU is looked at when all of it is there; what its header declares is compared with what may come
//!   before a byte of it is awaited, and never allocated.
//! * Answers are gathered and leave when no whole PDU is left in the input, or when there are many.
//! * What breaks the protocol ends the connection, with a PDU that says why; what is only wrong in a
//!   command fails the command.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use wire::nvme::auth::MOST;

use super::codec::{Place, Sqe};
use super::pdu::{
    COMMON, CQE, Common, DATA_HEAD, DIGEST, Digests, Fatal, INITIALIZE, Reason, SQE, TERMINATE,
    header_digest_fits, initialize, kind, terminate, u16_at, u32_at,
};
use super::powered::Dark;
use super::status::{Failure, Status};
use super::subsystem::{Digest, Subsystem};
use super::transfer::Transfers;
use super::work::Work;
use crate::stream::host::LOOK;
use crate::stream::output::PATIENCE;
use crate::stream::transport::is_late;
use crate::stream::{Input, Transport};

/// From the first byte to Connect, and to the end of an authentication.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes of data that a command of the admin queue may bring with it: the protocol's.
pub(super) const ADMIN_DATA: usize = 8192;
/// Bytes of data in a PDU to the controller.
pub(super) const HOST_DATA: u32 = 128 << 10;

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The host left, or the server stops.
    Closed,
    /// The stream failed.
    Stream(io::Error),
    /// What came breaks the protocol: why, and the header of it.
    Fatal(Reason, Vec<u8>),
    /// The host was silent for too long.
    Expired,
    /// One side was not shown who the other one is.
    Unknown,
    /// The power is off, or was: nothing more is said.
    Dark,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        match error.get_ref().is_some_and(|why| why.is::<Dark>()) {
            true => End::Dark,
            false => End::Stream(error),
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection<'a, T> {
    pub input: Input,
    pub work: Work<'a, T>,
    pub transfers: Transfers,
    began: Instant,
}

/// A PDU of which a part is there: since when the rest is waited for.
#[derive(Default)]
struct Half(Option<Instant>);

impl Half {
    fn look(&mut self, half: bool, now: Instant) {
        if half {
            self.0.get_or_insert(now);
        }
    }

    /// A read may give up a little before its time is over: nobody waits as long once more for that.
    fn is_late(&self, now: Instant) -> bool {
        self.0.is_some_and(|since| now.saturating_duration_since(since) + LOOK >= PATIENCE)
    }
}

/// Serves one connection until it ends. What was admitted is finished and answered.
pub fn serve<T: Transport>(
    shared: &Arc<Subsystem>,
    stream: T,
    local: Option<SocketAddr>,
    stop: &AtomicBool,
) -> End {
    if let Err(error) = stream.read_within(LOOK).and_then(|()| stream.write_within(PATIENCE)) {
        return End::Stream(error);
    }
    let work = Work::new(shared, stream, local, stop);
    let input = Input::default();
    let mut connection =
        Connection { input, work, transfers: Transfers::default(), began: Instant::now() };
    let end = connection.run();
    connection.finish(end)
}

impl<T: Transport> Connection<'_, T> {
    fn run(&mut self) -> End {
        if let Err(end) = self.initialize() {
            return end;
        }
        loop {
            if let Err(end) = self.step() {
                return end;
            }
        }
    }

    fn finish(mut self, end: End) -> End {
        let mut end = end;
        if !matches!(end, End::Dark) {
            let finished = self.work.settle().and_then(|()| Ok(self.work.out.drain()?));
            if let (End::Closed, Err(failed)) = (&end, finished) {
                end = failed;
            }
        }
        if let End::Fatal(reason, header) = &end {
            self.work.counts.terminated += 1;
            let last = terminate(kind::CONTROLLER_TERMINATE, *reason, header);
            // It is for whoever still listens.
            let _ = crate::stream::output::write_all(self.work.out.stream(), &last);
        }
        if let Some(queue) = self.work.queue.take() {
            match queue.qid {
                0 => self.work.shared.end(&queue.association),
                qid if queue.seated => queue.association.leave(qid),
                _ => {}
            }
        }
        self.work.shared.stats.take(&mut self.work.counts);
        end
    }

    /// Returns when at least `wanted` bytes are there, of a PDU that has `begun` or of the next one.
    /// Before it waits for them, answers leave.
    fn await_input(&mut self, wanted: usize, begun: bool) -> Result<(), End> {
        let mut half = Half::default();
        while self.input.bytes().len() < wanted {
            self.work.settle()?;
            self.work.check_life(self.began)?;
            self.work.leave()?;
            self.work.shared.stats.take(&mut self.work.counts);
            half.look(begun || !self.input.bytes().is_empty(), Instant::now());
            match self.input.fill(self.work.out.stream(), wanted) {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {
                    if let Some(queue) = self.work.queue.as_ref().filter(|one| one.tells_of_life())
                    {
                        queue.association.hear();
                    }
                }
                // Between PDUs a host may rest; what has begun comes to an end.
                Err(error) if is_late(&error) => {
                    if self.work.is_stopping() {
                        return Err(End::Closed);
                    }
                    if half.is_late(Instant::now()) {
                        return Err(End::Stream(error));
                    }
                }
                Err(error) => return Err(End::Stream(error)),
            }
        }
        Ok(())
    }

    fn fatal<R>(&self, why: Fatal, field: u32) -> Result<R, End> {
        let there = self.input.bytes();
        Err(End::Fatal((why, field), there[..there.len().min(INITIALIZE)].to_vec()))
    }

    /// The first PDU: digests and alignment.
    fn initialize(&mut self) -> Result<(), End> {
        self.await_input(COMMON, false)?;
        let common = self.common()?;
        if common.kind != kind::INITIALIZE_REQUEST {
            return self.fatal(Fatal::Sequence, 0);
        }
        if common.length as usize != INITIALIZE || usize::from(common.header) != INITIALIZE {
            return self.fatal(Fatal::Header, if common.header == 128 { 4 } else { 2 });
        }
        self.await_input(INITIALIZE, true)?;
        let pdu = self.input.bytes();
        if u16_at(pdu, 8) != 0 {
            return self.fatal(Fatal::Parameter, 8);
        }
        // Padding before data to the host, in words less one.
        if pdu[10] != 0 {
            return self.fatal(Fatal::Parameter, 10);
        }
        let asked = Digests::of_bits(pdu[11]);
        let digests = match (asked, self.work.shared.options.digest) {
            (None, _) => return self.fatal(Fatal::Header, 11),
            (Some(asked), Digest::Allow) => asked,
            (Some(asked), Digest::Off) if asked == Digests::both(false) => asked,
            (Some(asked), Digest::Require) if asked == Digests::both(true) => asked,
            _ => return self.fatal(Fatal::Parameter, 11),
        };
        self.input.used(INITIALIZE);
        self.work.out.begin()?;
        self.work.out.put(&initialize(kind::INITIALIZE_RESPONSE, digests, HOST_DATA));
        self.work.out.end_now()?;
        self.work.digests = digests;
        Ok(())
    }

    fn common(&self) -> Result<Common, End> {
        self.input.bytes().first_chunk().map(Common::decode).ok_or(End::Closed)
    }

    /// One PDU.
    fn step(&mut self) -> Result<(), End> {
        self.await_input(COMMON, false)?;
        self.work.check_over()?;
        if self.work.joins && self.write_several()? {
            return Ok(());
        }
        let common = self.common()?;
        let (header, most) = match common.kind {
            kind::COMMAND => (COMMON + SQE, self.most_data()),
            kind::HOST_DATA => (DATA_HEAD, HOST_DATA as usize),
            kind::HOST_TERMINATE if common.length as usize <= TERMINATE => {
                return Err(End::Closed);
            }
            kind::INITIALIZE_REQUEST => return self.fatal(Fatal::Sequence, 0),
            _ => return self.fatal(Fatal::Header, 0),
        };
        let digests = self.work.digests;
        let data = match common.check(header, digests, most) {
            Ok(data) => data,
            Err((why, field)) => return self.fatal(why, field),
        };
        let length = common.length as usize;
        self.await_input(length, true)?;
        let pdu = &self.input.bytes()[..length];
        if digests.header && !header_digest_fits(pdu, header) {
            return self.fatal(Fatal::HeaderDigest, u32::from(common.header));
        }
        match common.kind {
            kind::COMMAND => self.command(length, data)?,
            _ => self.host_data(length, data)?,
        }
        self.input.used(length);
        Ok(())
    }

    fn most_data(&self) -> usize {
        match &self.work.queue {
            Some(queue) if queue.qid > 0 => self.work.shared.options.in_capsule as usize,
            _ => ADMIN_DATA,
        }
    }

    /// A command, whose PDU is there.
    fn command(&mut self, length: usize, data_bytes: usize) -> Result<(), End> {
        let pdu = &self.input.bytes()[..length];
        let mut sqe = [0; SQE];
        sqe.copy_from_slice(&pdu[COMMON..COMMON + SQE]);
        let sqe = Sqe(sqe);
        self.work.advance();
        self.work.last = self.input.bytes().len() == length;
        if self.work.knows(sqe.cid()) || self.transfers.has(sqe.cid()) {
            return self.work.fail(&sqe, Status::ID_CONFLICT.into());
        }
        let start = COMMON + SQE + self.work.digests.header_bytes();
        let data = &pdu[start..start + data_bytes];
        let spoiled = data_bytes > 0
            && self.work.digests.data
            && u32_at(&pdu[length - DIGEST..], 0) != block::crc32c(0, data);
        if spoiled {
            return self.work.fail(&sqe, Status::TRANSFER.into());
        }
        match self.to_come(&sqe, data_bytes) {
            Err(failure) => self.work.fail(&sqe, failure),
            Ok(0) => self.work.execute(&sqe, data),
            Ok(bytes) => {
                let size = self.work.queue.as_ref().map_or(1, |queue| usize::from(queue.size));
                // More commands than the queue holds.
                if self.transfers.len() >= size {
                    return self.fatal(Fatal::Limit, 0);
                }
                let part = self.transfers.push(sqe, bytes);
                self.ask(part)
            }
        }
    }

    /// Bytes that are still to come for a command.
    fn to_come(&self, sqe: &Sqe, here: usize) -> Result<u32, Failure> {
        let (bytes, place) = sqe.data()?;
        match place {
            Place::Capsule if bytes as usize != here => Err(Status::DATA_LENGTH.into()),
            Place::Capsule => Ok(0),
            Place::Transport if here > 0 => Err(Status::DATA_LENGTH.into()),
            Place::Transport if !sqe.brings() => Ok(0),
            Place::Transport if bytes > self.work.shared.options.transfer => {
                Err(Status::INVALID_FIELD.into())
            }
            // Whoever is not connected brings what little it has with the command.
            Place::Transport if self.work.queue.is_none() => Err(Status::SEQUENCE.into()),
            Place::Transport if bytes as usize > MOST && self.is_shut() => {
                Err(Status::AUTHENTICATION.into())
            }
            Place::Transport => Ok(bytes),
        }
    }

    /// Whether the host has still to show who it is.
    fn is_shut(&self) -> bool {
        self.work.queue.as_ref().is_some_and(|queue| queue.gate.is_some())
    }

    fn ask(&mut self, part: Option<super::pdu::Part>) -> Result<(), End> {
        let Some(part) = part else { return Ok(()) };
        let (bytes, count) = part.ready(self.work.digests);
        self.work.out.begin()?;
        self.work.out.put(&bytes[..count]);
        Ok(self.work.out.end_now()?)
    }

    /// A part of a transfer, whose PDU is there.
    fn host_data(&mut self, length: usize, data_bytes: usize) -> Result<(), End> {
        let pdu = &self.input.bytes()[..length];
        let whole = match self.transfers.take(pdu, self.work.digests, data_bytes) {
            Ok(whole) => whole,
            Err((why, field)) => return self.fatal(why, field),
        };
        let Some((sqe, spoiled)) = whole else { return Ok(()) };
        let data = self.transfers.data();
        match spoiled {
            true => self.work.fail(&sqe, Status::TRANSFER.into())?,
            false => self.work.execute(&sqe, &data)?,
        }
        let next = self.transfers.done(data);
        self.ask(next)
    }
}

// Every PDU that may come fits into the input, every answer where answers are put together.
const _: () = assert!(
    super::server::MOST_IN_CAPSULE as usize + INITIALIZE <= crate::stream::input::BUFFER
        && super::server::MOST_TRANSFER as usize + DATA_HEAD + COMMON + CQE + 3 * DIGEST
            <= crate::stream::output::ANSWER
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The reads of an I/O queue end once in [`PATIENCE`].
    #[test]
    fn half_a_pdu_is_waited_for_once() {
        let (mut half, begun) = (Half::default(), Instant::now());
        half.look(false, begun);
        assert!(!half.is_late(begun + 10 * PATIENCE), "between PDUs a host may rest");
        half.look(true, begun);
        half.look(true, begun + PATIENCE / 2);
        assert!(!half.is_late(begun + PATIENCE / 2));
        assert!(half.is_late(begun + PATIENCE));
    }
}
