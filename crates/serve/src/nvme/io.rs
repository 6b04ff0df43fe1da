//! Commands of I/O queues.
//!
//! Invariants: nothing is read or written beyond the end; a command that is refused has changed nothing;
//! Flush has no address, and none is looked at.

use stack::disk::{Disk, DiskError, Done};

use super::claim::changes;
use super::codec::{ALL, DEALLOCATE, FORCE, Sqe, io, vendor};
use super::namespace::Namespace;
use super::pdu::{u32_at, u64_at};
use super::planted::Bug;
use super::status::{Failure, Status};
use super::work::{Outcome, Reply, Work};
use crate::stream::Transport;

/// Bytes trimmed or zeroed at a time: other connections get their turn in between.
const TRIM_PIECE: u64 = 16 << 20;
/// The same where zeroes are written.
const ZERO_PIECE: u64 = 1 << 20;
/// Bytes of a range of Dataset Management.
const RANGE: usize = 16;

/// The bytes that a command is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// The first.
    pub at: u64,
    /// How many.
    pub bytes: u64,
}

/// The logical blocks from one on, as bytes.
pub(super) fn span(of: &Namespace, first: u64, count: u64) -> Result<Span, Failure> {
    match first.checked_add(count) {
        Some(end) if end <= of.blocks => {
            Ok(Span { at: first << of.shift, bytes: count << of.shift })
        }
        _ => Err(Status::LBA_RANGE.into()),
    }
}

/// Those that a command names.
pub(super) fn named(of: &Namespace, sqe: &Sqe) -> Result<Span, Failure> {
    span(of, sqe.qword(10), u64::from(sqe.dword(12) & 0xffff) + 1)
}

/// Whether a namespace may be changed.
pub(super) fn writable(of: &Namespace) -> Result<(), Failure> {
    if of.capabilities.read_only { Err(Status::WRITE_PROTECTED.into()) } else { Ok(()) }
}

impl<T: Transport> Work<'_, T> {
    /// A command of an I/O queue: by leave, where it changes something.
    pub(super) fn io(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let (shared, cntlid) = (self.shared, self.cntlid());
        let index = match sqe.nsid() {
            ALL => None,
            _ => Some(self.namespace(sqe)?.0),
        };
        match index {
            Some(index) if sqe.opcode() == vendor::CLAIM => {
                shared.claim(index, cntlid, sqe.dword(10))?;
                Ok(Reply::OK)
            }
            Some(index) if changes(sqe.opcode()) => {
                let leave = shared.leave(index, cntlid)?;
                let reply = self.admitted(sqe, data)?;
                leave.check()?;
                Ok(reply)
            }
            Some(index) => {
                shared.believes(index, cntlid)?;
                self.admitted(sqe, data)
            }
            None => self.admitted(sqe, data),
        }
    }

    fn admitted(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        match sqe.opcode() {
            io::FLUSH => self.flush(sqe),
            io::READ => self.read(sqe),
            io::WRITE => self.write(sqe, data),
            io::COMPARE => self.compare(sqe, data),
            io::WRITE_ZEROES => self.zero(sqe),
            io::DATASET => self.dataset(sqe, data),
            opcode if opcode >= vendor::BEGIN => self.vendor(sqe, data),
            _ => Err(Status::INVALID_OPCODE.into()),
        }
    }

    fn flush(&mut self, sqe: &Sqe) -> Outcome {
        let index = match sqe.nsid() {
            ALL => None,
            _ => Some(self.namespace(sqe)?.0),
        };
        self.counts.flushes += 1;
        Ok(Reply::Flush(index, Done::NOW))
    }

    /// Bytes of a command that moves them: not more than may be moved, and as many as it has room for.
    pub(super) fn moved(&self, of: &Namespace, sqe: &Sqe) -> Result<Span, Failure> {
        let span = named(of, sqe)?;
        if span.bytes > u64::from(self.shared.options.transfer) {
            return Err(Status::INVALID_FIELD.into());
        }
        if u64::from(sqe.data()?.0) != span.bytes {
            return Err(Status::DATA_LENGTH.into());
        }
        Ok(span)
    }

    fn read(&mut self, sqe: &Sqe) -> Outcome {
        let (_, namespace) = self.namespace(sqe)?;
        let span = self.moved(namespace, sqe)?;
        self.counts.reads += 1;
        self.counts.read_bytes += span.bytes;
        let disk = &*namespace.stack.disk;
        let forced = sqe.dword(12) & FORCE != 0;
        // What is read by force is durable: it cannot be gone afterwards.
        let before = if forced { disk.flush()? } else { Done::NOW };
        self.give(sqe, span, |into| Ok(disk.read(span.at, into)?.and(before)))
    }

    /// Answers with what `fill` reads.
    pub(super) fn give(
        &mut self,
        sqe: &Sqe,
        span: Span,
        fill: impl FnOnce(&mut [u8]) -> Result<Done, Failure>,
    ) -> Outcome {
        let (shared, cntlid, index) = (self.shared, self.cntlid(), self.namespace(sqe)?.0);
        let fill = |into: &mut [u8]| {
            let done = fill(into)?;
            shared.believes(index, cntlid)?;
            Ok(done)
        };
        match self.answer_data(sqe, span.bytes as usize, fill) {
            Ok(()) => Ok(Reply::Answered),
            Err(end) => {
                self.ended = Some(end);
                Ok(Reply::Answered)
            }
        }
    }

    fn write(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let (index, namespace) = self.namespace(sqe)?;
        let span = self.moved(namespace, sqe)?;
        writable(namespace)?;
        let force = sqe.dword(12) & FORCE != 0;
        // The only one that wants to be durable may say so to the disk itself.
        let alone = force && self.is_alone();
        let done = namespace.stack.disk.write(span.at, data, alone && !self.has(Bug::NotForced))?;
        if alone {
            self.counts.forced += 1;
            self.counted(span.bytes);
            return Ok(Reply::Done(0, done));
        }
        Ok(self.wrote(sqe, index, span.bytes, done))
    }

    fn counted(&mut self, bytes: u64) {
        self.counts.writes += 1;
        self.counts.write_bytes += bytes;
    }

    /// A write is done, and answered now or after the next flush.
    pub(super) fn wrote(&mut self, sqe: &Sqe, index: usize, bytes: u64, done: Done) -> Reply {
        self.counted(bytes);
        self.forced(sqe, index, done)
    }

    /// A command that changed something is done: durable, if it was to be.
    fn forced(&mut self, sqe: &Sqe, index: usize, done: Done) -> Reply {
        if sqe.dword(12) & FORCE == 0 || self.has(Bug::NotForced) {
            return Reply::Done(0, done);
        }
        self.counts.forced += 1;
        Reply::Flush(Some(index), done)
    }

    fn has(&self, bug: Bug) -> bool {
        self.shared.options.bug.has(bug)
    }

    fn compare(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let (_, namespace) = self.namespace(sqe)?;
        let span = self.moved(namespace, sqe)?;
        self.counts.compares += 1;
        let mut there = vec![0; data.len()];
        let done = namespace.stack.disk.read(span.at, &mut there)?;
        match there == data {
            true => Ok(Reply::Done(0, done)),
            false => Err(Status::COMPARE.into()),
        }
    }

    fn zero(&mut self, sqe: &Sqe) -> Outcome {
        let (index, namespace) = self.namespace(sqe)?;
        let span = named(namespace, sqe)?;
        writable(namespace)?;
        let (keep, disk) = (sqe.dword(12) & DEALLOCATE == 0, &*namespace.stack.disk);
        let piece = if keep { ZERO_PIECE } else { TRIM_PIECE };
        let done = pieces(span, piece, |at, bytes| disk.zero(at, bytes, keep, false))?;
        self.counts.zeroes += 1;
        Ok(self.forced(sqe, index, done))
    }

    /// Of Dataset Management: what is not needed any more. What else it may tell is of no use here.
    fn dataset(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let (_, namespace) = self.namespace(sqe)?;
        let count = (sqe.dword(10) & 0xff) as usize + 1;
        // Hosts bring a page for a single range.
        let Some(ranges) = data.get(..count * RANGE) else {
            return Err(Status::DATA_LENGTH.into());
        };
        if sqe.dword(11) & 4 == 0 {
            return Ok(Reply::OK);
        }
        writable(namespace)?;
        if !namespace.capabilities.trim {
            return Ok(Reply::OK);
        }
        let one = |range: &[u8]| span(namespace, u64_at(range, 8), u64::from(u32_at(range, 4)));
        let spans: Vec<Span> = ranges.chunks(RANGE).map(one).collect::<Result<_, _>>()?;
        let disk: &dyn Disk = &*namespace.stack.disk;
        let mut all = Done::NOW;
        for span in spans {
            let done = pieces(span, TRIM_PIECE, |at, bytes| disk.trim(at, bytes, false))?;
            all = all.and(done);
            self.counts.trims += 1;
        }
        Ok(Reply::Done(0, all))
    }
}

/// Does a long piece of work in short ones, which end where their multiples do.
fn pieces(
    span: Span,
    piece: u64,
    mut work: impl FnMut(u64, u64) -> Result<Done, DiskError>,
) -> Result<Done, Failure> {
    let (mut at, end, mut all) = (span.at, span.at + span.bytes, Done::NOW);
    while at < end {
        let stop = ((at / piece + 1) * piece).min(end);
        all = all.and(work(at, stop - at)?);
        at = stop;
    }
    Ok(all)
}
