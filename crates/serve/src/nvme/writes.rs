//! Writes of a host that come together.
//!
//! Invariants: they take effect in the order in which they came; each is answered by itself, also when a
//! disk laid several down together. One that anything speaks against ends the row, and is looked at as any
//! other command.

use stack::disk::{DiskError, Done, Piece};

use super::codec::{Place, Sqe, io};
use super::connection::{Connection, End};
use super::io::writable;
use super::pdu::{COMMON, Common, DIGEST, SQE, header_digest_fits, kind, u32_at};
use super::status::{Failure, Status};
use crate::stream::Transport;

/// Writes that a disk is given together.
const TOGETHER: usize = 64;
/// Bytes of one; what is longer goes alone.
const SHORT: usize = 64 << 10;

/// A write that is there as a whole: its PDU's length, where its data is in it, and its place on the disk.
#[derive(Clone, Copy)]
struct Whole {
    sqe: Sqe,
    length: usize,
    data: (usize, usize),
    at: u64,
}

impl<T: Transport> Connection<'_, T> {
    /// Does the writes that are there one behind the other, if they are two or more, of a namespace whose
    /// disk wants them together. Returns whether it did anything.
    pub(super) fn write_several(&mut self) -> Result<bool, End> {
        let Some(first) = self.whole_write(0) else { return Ok(false) };
        let Ok((index, namespace)) = self.work.namespace(&first.sqe) else { return Ok(false) };
        if !namespace.stack.disk.joins_writes() {
            return Ok(false);
        }
        let shared = self.work.shared;
        // Who has none is told so one by one.
        let Ok(leave) = shared.leave(index, self.work.cntlid()) else { return Ok(false) };
        let (mut all, mut used) = (vec![first], first.length);
        while all.len() < TOGETHER
            && let Some(next) = self.whole_write(used)
            && next.sqe.nsid() == first.sqe.nsid()
            && all.iter().all(|before| before.sqe.cid() != next.sqe.cid())
        {
            used += next.length;
            all.push(next);
        }
        if all.len() < 2 {
            return Ok(false);
        }
        let there = self.input.bytes();
        let mut start = 0;
        let mut pieces = [Piece::default(); TOGETHER];
        for (piece, whole) in pieces.iter_mut().zip(&all) {
            let (from, to) = (start + whole.data.0, start + whole.data.1);
            *piece = Piece { at: whole.at, bytes: &there[from..to] };
            start += whole.length;
        }
        let mut ended = [const { None::<Result<Done, DiskError>> }; TOGETHER];
        let disk = &namespace.stack.disk;
        disk.write_each(&pieces[..all.len()], &mut |i, result| ended[i] = Some(result));
        self.input.used(used);
        let stands = leave.check();
        drop(leave);
        for (whole, ended) in all.iter().zip(ended) {
            self.work.advance();
            match ended {
                Some(Ok(done)) => match stands {
                    Ok(()) => {
                        let bytes = (whole.data.1 - whole.data.0) as u64;
                        let reply = self.work.wrote(&whole.sqe, index, bytes, done);
                        self.work.reply(&whole.sqe, reply)?;
                    }
                    Err(void) => self.work.fail(&whole.sqe, void)?,
                },
                Some(Err(error)) => self.work.fail(&whole.sqe, error.into())?,
                // A disk that says nothing of a piece has not written it.
                None => self.work.fail(&whole.sqe, Failure::from(Status::INTERNAL))?,
            }
        }
        Ok(true)
    }

    /// The write that begins at this byte of the input, if all of it is there and nothing speaks against it.
    fn whole_write(&self, from: usize) -> Option<Whole> {
        let bytes = self.input.bytes().get(from..)?;
        let common = Common::decode(bytes.first_chunk()?);
        let digests = self.work.digests;
        let queue = self.work.queue.as_ref().filter(|queue| queue.qid > 0)?;
        if common.kind != kind::COMMAND || bytes.get(COMMON) != Some(&io::WRITE) {
            return None;
        }
        let count = common.check(COMMON + SQE, digests, SHORT).ok()?;
        let length = common.length as usize;
        let pdu = bytes.get(..length)?;
        if digests.header && !header_digest_fits(pdu, COMMON + SQE) {
            return None;
        }
        let sqe = Sqe(*pdu[COMMON..].first_chunk()?);
        let start = COMMON + SQE + digests.header_bytes();
        let data = &pdu[start..start + count];
        if digests.data && u32_at(&pdu[length - DIGEST..], 0) != block::crc32c(0, data) {
            return None;
        }
        let (_, namespace) = self.work.namespace(&sqe).ok()?;
        let span = self.work.moved(namespace, &sqe).ok()?;
        let fits = queue.serves()
            && sqe.data() == Ok((count as u32, Place::Capsule))
            && span.bytes == count as u64
            && writable(namespace).is_ok()
            && !self.work.knows(sqe.cid())
            && !self.transfers.has(sqe.cid());
        fits.then_some(Whole { sqe, length, data: (start, start + count), at: span.at })
    }
}
