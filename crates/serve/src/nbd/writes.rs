//! Writes of a client: one, or all that are there one behind the other.
//!
//! Invariants: writes take effect in the order in which they came; each is answered by itself, also
//! when a disk laid several down together.

use super::session::{End, Session, errno};
use super::wire::{Errno, REQUEST_BYTES, Request, command, how};
use crate::stream::input::BUFFER;
use crate::stream::transport::Transport;
use stack::disk::{DiskError, Done, Piece};

/// Bytes of a long write that are handled at a time.
const WRITE_PIECE: usize = 512 << 10;
/// Writes that a disk is given together.
const TOGETHER: usize = 64;
/// One that is longer goes alone.
const SHORT: usize = 64 << 10;

/// How a write of several ended.
type Ended = Option<Result<Done, DiskError>>;

impl<T: Transport> Session<'_, T> {
    /// Handles the writes that are there as a whole, one behind the other, if they are two or more.
    /// One that is refused ends the row. Returns whether it did anything.
    pub(super) fn write_several(&mut self) -> Result<bool, End> {
        let mut requests = [const { None::<Request> }; TOGETHER];
        let mut pieces = [Piece::default(); TOGETHER];
        let (mut count, mut used, there) = (0, 0, self.input.bytes());
        while count < TOGETHER
            && let Some((request, payload)) = self.whole_write(&there[used..])
        {
            pieces[count] = Piece { at: request.at, bytes: payload };
            requests[count] = Some(request);
            used += REQUEST_BYTES + payload.len();
            count += 1;
        }
        if count < 2 {
            return Ok(false);
        }
        let mut ended = [const { None::<Result<Done, DiskError>> }; TOGETHER];
        self.disk.write_each(&pieces[..count], &mut |i, result| ended[i] = Some(result));
        self.input.used(used);
        for (request, ended) in requests.iter().flatten().zip(ended) {
            self.answer_write(request, ended)?;
        }
        Ok(true)
    }

    /// The write that these bytes begin with, if all of it is there and nothing speaks against it.
    fn whole_write<'b>(&self, bytes: &'b [u8]) -> Option<(Request, &'b [u8])> {
        let request = Request::decode(bytes.first_chunk()?).ok()?;
        let length = request.bytes as usize;
        let fits = request.kind == command::WRITE && length <= SHORT;
        let payload = bytes.get(REQUEST_BYTES..REQUEST_BYTES + length).filter(|_| fits)?;
        self.check(&request).is_ok().then_some((request, payload))
    }

    fn answer_write(&mut self, request: &Request, ended: Ended) -> Result<(), End> {
        match ended {
            Some(Ok(done)) => self.wrote(request, done, request.has(how::FUA)),
            Some(Err(error)) => self.fail(request, &error),
            // A disk that says nothing of a piece has not written it.
            None => self.refuse(request, Errno::Io),
        }
    }

    /// A write is done, and answered now or after the next flush.
    fn wrote(&mut self, request: &Request, done: Done, flush: bool) -> Result<(), End> {
        self.counts.writes += 1;
        self.counts.write_bytes += u64::from(request.bytes);
        self.counts.forced += u64::from(request.has(how::FUA));
        match flush {
            true => self.wait_for_flush(request.cookie, done),
            false => self.succeed(request.cookie, done),
        }
    }

    /// Takes the payload of a write in any case.
    pub(super) fn write(&mut self, request: &Request, refused: Option<Errno>) -> Result<(), End> {
        let (total, fua) = (request.bytes as usize, request.has(how::FUA));
        let piece = if REQUEST_BYTES + total <= BUFFER { total } else { WRITE_PIECE };
        self.await_input(REQUEST_BYTES + piece.min(total), true)?;
        self.input.used(REQUEST_BYTES);
        let (mut written, mut result, mut errno_now) = (0, Ok(Done::NOW), refused);
        // The only one that wants to be durable may say so to the disk itself.
        let alone = fua
            && piece == total
            && self.waiting.is_empty()
            && self.input.bytes().len() < total + REQUEST_BYTES;
        while written < total {
            let next = piece.min(total - written);
            self.await_input(next, true)?;
            let data = &self.input.bytes()[..next];
            if errno_now.is_none() {
                match self.disk.write(request.at + written as u64, data, alone) {
                    Ok(done) => result = result.map(|before: Done| before.and(done)),
                    Err(error) => {
                        errno_now = Some(errno(&error, request.kind));
                        result = Err(error);
                    }
                }
            }
            self.input.used(next);
            written += next;
        }
        match (errno_now, result) {
            (Some(errno), _) => self.refuse(request, errno),
            (None, Err(error)) => self.fail(request, &error),
            (None, Ok(done)) => self.wrote(request, done, fua && !alone),
        }
    }
}
