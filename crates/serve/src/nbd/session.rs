//! One client after the handshake: requests in order, answers in batches.
//!
//! * A request is handled when all of it is there; of a long write each piece is. What a client
//!   declares is never allocated.
//! * Answers are gathered and leave when no whole request is left in the input, or when there are
//!   many. Whoever is to be answered durable (FLUSH, FUA) waits for one flush of the disk at the
//!   end of the batch: it begins after all of them were done, so it covers all.
//! * FLUSH has no address: none is looked at.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::export::Export;
use super::negotiate::{ALLOCATION_ID, Agreed};
use super::stats::{Counts, Stats};
use super::wire::{
    CHUNK_BYTES, Errno, MAX_PAYLOAD, REQUEST_BYTES, Request, chunk, chunk_head, command, how,
    simple, state,
};
use crate::stream::input::Input;
use crate::stream::output::Output;
use crate::stream::transport::{Transport, is_late};
use stack::disk::{Disk, DiskError, Done, Extent, inside};

/// Bytes of a read that are put together at a time.
const READ_PIECE: u32 = 256 << 10;
/// Bytes trimmed or zeroed at a time: others get their turn in between.
const TRIM_PIECE: u64 = 16 << 20;
/// The same where zeroes are written.
const ZERO_PIECE: u64 = 1 << 20;
/// Reads from here on are looked at for holes.
const HOLES_FROM: u32 = 64 << 10;
/// Holes and data of one piece.
const HOLES: usize = 64;
/// Extents in one answer.
const EXTENTS: usize = 4096;
/// Commands that wait for a shared flush.
const WAITING: usize = 1024;

/// What is said of a request whose answer was not due when the power went: as of one that comes then.
const POWER_OFF: u32 = Errno::Io as u32;

/// Why a session ends.
#[derive(Debug)]
pub enum End {
    /// The client left, or what it sent is no request.
    Closed,
    /// The stream failed.
    Stream(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Stream(error)
    }
}

/// One client.
pub struct Session<'a, T> {
    pub(super) disk: &'a dyn Disk,
    size: u64,
    read_only: bool,
    /// The disk wants writes that came together.
    joins: bool,
    smallest: u32,
    agreed: Agreed,
    pub(super) input: Input,
    out: Output<T>,
    /// Cookies of what was done and is answered after the next flush of the disk.
    pub(super) waiting: Vec<(u64, Done)>,
    pub(super) counts: Counts,
    stats: &'a Stats,
    stop: &'a AtomicBool,
}

pub(super) fn errno(error: &DiskError, kind: u16) -> Errno {
    let writes = matches!(kind, command::WRITE | command::WRITE_ZEROES);
    match error {
        DiskError::Range { .. } if writes => Errno::NoSpace,
        DiskError::Range { .. } => Errno::Inval,
        DiskError::ReadOnly => Errno::Perm,
        full if full.is_full() => Errno::NoSpace,
        DiskError::NoSpace(_)
        | DiskError::PowerOff
        | DiskError::Damaged(_)
        | DiskError::Stopped(_)
        | DiskError::InTransaction(_)
        | DiskError::Io(_) => Errno::Io,
    }
}

impl<'a, T: Transport> Session<'a, T> {
    /// A client that agreed on an export; `input` holds what it sent already.
    pub fn new(
        export: &'a Export,
        agreed: Agreed,
        input: Input,
        stream: T,
        stats: &'a Stats,
        stop: &'a AtomicBool,
    ) -> Session<'a, T> {
        let capabilities = export.disk.capabilities();
        Session {
            disk: &*export.disk,
            size: capabilities.size,
            read_only: capabilities.read_only,
            joins: export.disk.joins_writes(),
            smallest: export.smallest,
            agreed,
            input,
            out: Output::new(stream),
            waiting: Vec::new(),
            counts: Counts::default(),
            stats,
            stop,
        }
    }

    /// Serves until the client leaves. What was admitted is finished and answered.
    pub fn run(mut self) -> End {
        let end = loop {
            if let Err(end) = self.step() {
                break end;
            }
        };
        // A client may have ended its side and wait for the rest.
        let finished = self.settle().and_then(|()| Ok(self.out.drain()?));
        self.stats.take(&mut self.counts);
        match (end, finished) {
            (End::Closed, Err(end)) => end,
            (end, _) => end,
        }
    }

    /// One request.
    fn step(&mut self) -> Result<(), End> {
        self.await_input(REQUEST_BYTES, false)?;
        let Some(head) = self.input.bytes().first_chunk() else { return Err(End::Closed) };
        let Ok(request) = Request::decode(head) else { return Err(End::Closed) };
        let refused = self.check(&request).err();
        match request.kind {
            command::DISC => return Err(End::Closed),
            command::WRITE if self.joins && refused.is_none() && self.write_several()? => {
                return Ok(());
            }
            command::WRITE => return self.write(&request, refused),
            _ => self.input.used(REQUEST_BYTES),
        }
        if let Some(errno) = refused {
            return self.refuse(&request, errno);
        }
        match request.kind {
            command::READ => self.read(&request),
            command::FLUSH => {
                self.counts.flushes += 1;
                self.wait_for_flush(request.cookie, Done::NOW)
            }
            command::TRIM | command::WRITE_ZEROES => self.zero(&request),
            _ => self.status(&request),
        }
    }

    /// Returns when at least `wanted` bytes are there, of a request that has `begun` or of the next
    /// one. Before it waits for them, answers leave.
    pub(super) fn await_input(&mut self, wanted: usize, begun: bool) -> Result<(), End> {
        while self.input.bytes().len() < wanted {
            self.settle()?;
            self.out.flush()?;
            self.stats.take(&mut self.counts);
            match self.input.fill(self.out.stream(), wanted) {
                Ok(0) => return Err(End::Closed),
                Ok(_) => {}
                // Between requests a client may rest as long as it likes.
                Err(error) if is_late(&error) && !begun && self.input.bytes().is_empty() => {}
                Err(error) => return Err(End::Stream(error)),
            }
        }
        Ok(())
    }

    /// Whether a request may be handled at all.
    pub(super) fn check(&self, request: &Request) -> Result<(), Errno> {
        let bytes = u64::from(request.bytes);
        let known = match request.kind {
            command::READ | command::WRITE | command::FLUSH => true,
            command::TRIM | command::WRITE_ZEROES => true,
            command::BLOCK_STATUS => self.agreed.status && bytes > 0,
            _ => false,
        };
        let whole_read = request.kind == command::READ && request.has(how::DF);
        if !known || !request.flags_fit() || (whole_read && !self.agreed.structured) {
            return Err(Errno::Inval);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Errno::Shutdown);
        }
        if request.kind == command::FLUSH {
            return Ok(());
        }
        let changes =
            matches!(request.kind, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if changes && self.read_only {
            return Err(Errno::Perm);
        }
        let moves = matches!(request.kind, command::READ | command::WRITE);
        let odd = (request.at | bytes) & u64::from(self.smallest - 1) != 0;
        if (moves && request.bytes > MAX_PAYLOAD) || (self.agreed.aligned && odd) {
            return Err(Errno::Inval);
        }
        inside(request.at, bytes, self.size).map_err(|error| errno(&error, request.kind))
    }

    /// The answer to a request that is refused.
    fn refusal(&self, request: &Request, errno: Errno) -> Vec<u8> {
        let structured = matches!(request.kind, command::READ | command::BLOCK_STATUS);
        if !structured || !self.agreed.structured {
            return simple(errno as u32, request.cookie).to_vec();
        }
        let head = chunk_head(true, chunk::ERROR, request.cookie, 6);
        [&head[..], &(errno as u32).to_be_bytes(), &[0, 0]].concat()
    }

    pub(super) fn refuse(&mut self, request: &Request, errno: Errno) -> Result<(), End> {
        self.counts.errors += 1;
        self.out.begin()?;
        self.out.put(&self.refusal(request, errno));
        Ok(self.out.end_now()?)
    }

    pub(super) fn fail(&mut self, request: &Request, error: &DiskError) -> Result<(), End> {
        self.refuse(request, errno(error, request.kind))
    }

    pub(super) fn succeed(&mut self, cookie: u64, done: Done) -> Result<(), End> {
        self.out.begin()?;
        self.out.put(&simple(0, cookie));
        Ok(self.out.end(done, &simple(POWER_OFF, cookie))?)
    }

    pub(super) fn wait_for_flush(&mut self, cookie: u64, done: Done) -> Result<(), End> {
        self.waiting.push((cookie, done));
        if self.waiting.len() < WAITING { Ok(()) } else { self.settle() }
    }

    /// One flush for all that wait for one.
    fn settle(&mut self) -> Result<(), End> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.counts.disk_flushes += 1;
        let result = self.disk.flush();
        for (cookie, done) in std::mem::take(&mut self.waiting) {
            match &result {
                Ok(flushed) => self.succeed(cookie, done.and(flushed.clone()))?,
                Err(error) => {
                    self.counts.errors += 1;
                    self.out.begin()?;
                    self.out.put(&simple(errno(error, command::FLUSH) as u32, cookie));
                    self.out.end_now()?;
                }
            }
        }
        Ok(())
    }

    /// TRIM and WRITE_ZEROES.
    fn zero(&mut self, request: &Request) -> Result<(), End> {
        let (trim, keep) = (request.kind == command::TRIM, request.has(how::NO_HOLE));
        let end = request.at + u64::from(request.bytes);
        let fast = request.has(how::FAST_ZERO);
        if fast && !self.disk.zero_is_fast(request.at, u64::from(request.bytes), keep) {
            return self.refuse(request, Errno::NotSup);
        }
        let piece = if keep { ZERO_PIECE } else { TRIM_PIECE };
        let (mut at, mut all) = (request.at, Done::NOW);
        while at < end {
            let stop = ((at / piece + 1) * piece).min(end);
            let result = match trim {
                true => self.disk.trim(at, stop - at, false),
                false => self.disk.zero(at, stop - at, keep, false),
            };
            match result {
                Ok(done) => all = all.and(done),
                Err(error) => return self.fail(request, &error),
            }
            at = stop;
        }
        let count = if trim { &mut self.counts.trims } else { &mut self.counts.zeroes };
        *count += 1;
        if request.has(how::FUA) {
            self.counts.forced += 1;
            return self.wait_for_flush(request.cookie, all);
        }
        self.succeed(request.cookie, all)
    }

    fn status(&mut self, request: &Request) -> Result<(), End> {
        let most = if request.has(how::REQ_ONE) { 1 } else { EXTENTS };
        let found = match self.disk.extents(request.at, u64::from(request.bytes), most) {
            Ok(found) => found,
            Err(error) => return self.fail(request, &error),
        };
        self.counts.statuses += 1;
        self.out.begin()?;
        let bytes = 4 + 8 * found.len().min(most) as u32;
        self.out.put(&chunk_head(true, chunk::BLOCK_STATUS, request.cookie, bytes));
        self.out.put(&ALLOCATION_ID.to_be_bytes());
        for extent in found.iter().take(most) {
            let flags = if extent.hole { state::HOLE | state::ZERO } else { 0 };
            let length = u32::try_from(extent.bytes).unwrap_or(request.bytes);
            self.out.put(&length.to_be_bytes());
            self.out.put(&flags.to_be_bytes());
        }
        Ok(self.out.end_now()?)
    }

    fn read(&mut self, request: &Request) -> Result<(), End> {
        if request.bytes > READ_PIECE {
            return self.read_long(request);
        }
        self.out.begin()?;
        let result = match self.agreed.structured {
            true => self.put_chunks(request, request.at, request.bytes, true),
            false => {
                self.out.put(&simple(0, request.cookie));
                self.put_data(request.at, request.bytes)
            }
        };
        match result {
            Ok(done) => {
                self.counts.reads += 1;
                self.counts.read_bytes += u64::from(request.bytes);
                let refusal = match done.due() {
                    Some(_) => self.refusal(request, Errno::Io),
                    None => Vec::new(),
                };
                Ok(self.out.end(done, &refusal)?)
            }
            Err(error) => {
                self.out.forget();
                self.fail(request, &error)
            }
        }
    }

    fn put_data(&mut self, at: u64, bytes: u32) -> Result<Done, DiskError> {
        let disk = self.disk;
        self.out.put_with(bytes as usize, |into| disk.read(at, into))
    }

    /// Data and holes of at most [`READ_PIECE`] bytes as chunks; the last ends the reply if it is
    /// to.
    fn put_chunks(
        &mut self,
        request: &Request,
        at: u64,
        bytes: u32,
        last: bool,
    ) -> Result<Done, DiskError> {
        if bytes == 0 {
            self.out.put(&chunk_head(last, chunk::NONE, request.cookie, 0));
            return Ok(Done::NOW);
        }
        let look = bytes >= HOLES_FROM && !request.has(how::DF);
        let found = match look {
            true => self.disk.extents(at, u64::from(bytes), HOLES)?,
            false => Vec::new(),
        };
        let (mut next, end, mut all) = (at, at + u64::from(bytes), Done::NOW);
        let mut extents = found.into_iter().filter(|extent| extent.bytes > 0).take(HOLES);
        while next < end {
            // Beyond what the disk tells there is data.
            let rest = Extent { bytes: end - next, hole: false };
            let extent = extents.next().unwrap_or(rest);
            let length = extent.bytes.min(end - next) as u32;
            let done = last && next + u64::from(length) == end;
            if extent.hole {
                self.out.put(&chunk_head(done, chunk::OFFSET_HOLE, request.cookie, 12));
                self.out.put(&next.to_be_bytes());
                self.out.put(&length.to_be_bytes());
            } else {
                self.out.put(&chunk_head(done, chunk::OFFSET_DATA, request.cookie, 8 + length));
                self.out.put(&next.to_be_bytes());
                all = all.and(self.put_data(next, length)?);
            }
            next += u64::from(length);
        }
        Ok(all)
    }

    /// A read in pieces: nothing else leaves in between.
    fn read_long(&mut self, request: &Request) -> Result<(), End> {
        self.out.drain()?;
        let whole = !self.agreed.structured || request.has(how::DF);
        let mut at = request.at;
        let end = at + u64::from(request.bytes);
        while at < end {
            let bytes = (end - at).min(u64::from(READ_PIECE)) as u32;
            let (first, last) = (at == request.at, at + u64::from(bytes) == end);
            self.out.begin()?;
            if first && whole {
                self.put_long_head(request);
            }
            let result = match whole {
                true => self.put_data(at, bytes),
                false => self.put_chunks(request, at, bytes, last),
            };
            match result.and_then(Done::wait) {
                Ok(()) => self.out.flush()?,
                Err(error) => {
                    self.out.forget();
                    // Nothing can be said any more once data was promised.
                    return if whole && !first {
                        self.counts.errors += 1;
                        Err(End::Closed)
                    } else {
                        self.fail(request, &error)
                    };
                }
            }
            at += u64::from(bytes);
        }
        self.counts.reads += 1;
        self.counts.read_bytes += u64::from(request.bytes);
        Ok(())
    }

    fn put_long_head(&mut self, request: &Request) {
        if !self.agreed.structured {
            return self.out.put(&simple(0, request.cookie));
        }
        self.out.put(&chunk_head(true, chunk::OFFSET_DATA, request.cookie, 8 + request.bytes));
        self.out.put(&request.at.to_be_bytes());
    }
}

// An answer with all its chunks fits where answers are put together.
const _: () = assert!(
    READ_PIECE as usize + (HOLES + 1) * (CHUNK_BYTES + 12) <= crate::stream::output::ANSWER
        && CHUNK_BYTES + 4 + 8 * EXTENTS <= crate::stream::output::ANSWER
);
