//! Reads and writes of a log in virtual time.

use block::{BlockDevice, Data, DeviceError, Lba, Lpn, Request, SECTOR_BYTES, Time, crc32c};

use super::below::Payload;
use super::buffer::{crc, form};
use super::gather::{Feed, Names};
use super::{HostLog, SECTORS};
use crate::engine::Place;
use crate::geometry::{BLOCK, Pba};
use crate::record::stamp_crc;

const MISFIT: DeviceError = DeviceError::Unsupported("payload does not fit the request");
const NO_PAYLOAD: DeviceError = DeviceError::Unsupported("this log keeps no payload");

/// The blocks a request touches, and whether it covers them.
struct Span {
    lpn: Lpn,
    count: u32,
    /// Byte of the request's first in its first block.
    head: usize,
    bytes: usize,
}

fn span(request: &Request<'_>) -> Span {
    let (from, to) = (request.lba.0, request.lba.0 + request.sectors.0);
    let first = from / SECTORS;
    Span {
        lpn: Lpn(first as u32),
        count: (to.div_ceil(SECTORS) - first) as u32,
        head: ((from % SECTORS) * SECTOR_BYTES) as usize,
        bytes: (request.sectors.0 * SECTOR_BYTES) as usize,
    }
}

impl Span {
    fn aligned(&self) -> bool {
        self.head == 0 && self.bytes == self.count as usize * BLOCK
    }
}

fn lba_of(lpn: Lpn) -> Lba {
    Lba(u64::from(lpn.0) * SECTORS)
}

impl<D: BlockDevice> HostLog<D> {
    pub(super) fn write(&mut self, request: Request<'_>) -> Result<Time, DeviceError> {
        self.may_write()?;
        self.engine.hint(request.hint.stream.0);
        let span = span(&request);
        let stored = self.below.payload;
        let mut done = match request.data {
            _ if span.count == 0 => self.below.clock,
            Data::Write(_) | Data::WriteStamps(_) if !stored => return Err(NO_PAYLOAD),
            Data::Write(bytes) if bytes.len() == span.bytes && span.aligned() => {
                self.admit(&span, Payload::Bytes(bytes))?
            }
            Data::Write(bytes) if bytes.len() == span.bytes => self.admit_parts(&span, bytes)?,
            Data::WriteStamps(stamps) if span.aligned() && stamps.len() == span.count as usize => {
                self.admit(&span, Payload::Stamps(stamps))?
            }
            Data::None => {
                let before = self.read_ends(&span)?;
                self.admit(&span, Payload::Nothing)?.max(before)
            }
            _ => return Err(MISFIT),
        };
        if request.fua {
            done = done.max(self.sync()?);
        }
        Ok(done)
    }

    /// Reads the blocks at the ends of a write without payload that covers only parts of them.
    fn read_ends(&mut self, span: &Span) -> Result<Time, DeviceError> {
        let mut done = self.below.clock;
        let last = Lpn(span.lpn.0 + span.count - 1);
        let tail = !(span.head + span.bytes).is_multiple_of(BLOCK);
        for (lpn, part) in [(span.lpn, span.head != 0), (last, tail)] {
            self.load_pages(lpn, 1)?;
            if let (true, Place::At(pba)) = (part, self.engine.lookup(lpn))
                && !self.is_here(lpn, pba)
            {
                done = done.max(self.below.get(pba, 1, Data::None)?);
            }
        }
        Ok(done)
    }

    /// A write that covers only parts of its first or last block: their old contents complete it.
    /// It stays one request, all or nothing.
    fn admit_parts(&mut self, span: &Span, bytes: &[u8]) -> Result<Time, DeviceError> {
        let mut whole = vec![0; span.count as usize * BLOCK];
        let (last, end) = (span.count as usize - 1, span.head + bytes.len());
        let mut before = self.below.clock;
        let ends = [(0, span.head != 0), (last, !end.is_multiple_of(BLOCK))];
        for (i, part) in ends {
            if part {
                let block = &mut whole[i * BLOCK..(i + 1) * BLOCK];
                let lpn = Lpn(span.lpn.0 + i as u32);
                before = before.max(self.read_bytes(lpn, 1, block)?);
                // Even where reads are not verified: damage would get a CRC that fits.
                self.compare(lpn, block)?;
            }
        }
        whole[span.head..end].copy_from_slice(bytes);
        // The write goes out with the request; what it had to wait for is added to its answer.
        let wait = before.since(self.below.clock);
        let done = self.admit(span, Payload::Bytes(&whole))?;
        Ok(done + wait)
    }

    /// Admits whole blocks, at most `atomic_max` at a time, and sends them.
    fn admit(&mut self, span: &Span, payload: Payload<'_>) -> Result<Time, DeviceError> {
        let most = self.engine.options().atomic_blocks();
        let (mut done, mut from) = (self.below.clock, 0);
        while from < span.count {
            let count = (span.count - from).min(most);
            let (a, b) = (from as usize, (from + count) as usize);
            let part = match payload {
                Payload::Nothing => Payload::Nothing,
                Payload::Bytes(bytes) => Payload::Bytes(&bytes[a * BLOCK..b * BLOCK]),
                Payload::Stamps(stamps) => Payload::Stamps(&stamps[a..b]),
            };
            done = done.max(self.admit_piece(Lpn(span.lpn.0 + from), count, part)?);
            from += count;
        }
        Ok(done)
    }

    fn admit_piece(
        &mut self,
        lpn: Lpn,
        count: u32,
        payload: Payload<'_>,
    ) -> Result<Time, DeviceError> {
        if let Some(answered) = self.buffer(lpn, count, payload)? {
            self.admitted += u64::from(count);
            self.keep_house()?;
            return Ok(answered);
        }
        self.load_and_make_room(lpn, count, count)?;
        let geometry = *self.engine.geometry();
        let mut feed = Feed {
            gather: &mut self.gather,
            payload,
            reverse: self.reverse.as_mut(),
            names: Names::From(lpn),
            geometry,
        };
        let crc = |i: u32| crc(payload, i as usize);
        self.engine.write(lpn, count, form(payload), crc, &mut feed);
        self.admitted += u64::from(count);
        let done = self.issue()?;
        self.keep_house()?;
        Ok(done)
    }

    pub(super) fn read(&mut self, request: Request<'_>) -> Result<Time, DeviceError> {
        let span = span(&request);
        match request.data {
            _ if span.count == 0 => Ok(self.below.clock),
            Data::None => self.read_nothing(span.lpn, span.count),
            Data::Read(_) | Data::ReadStamps(_) if !self.below.payload => Err(NO_PAYLOAD),
            Data::Read(out) if out.len() == span.bytes && span.aligned() => {
                self.read_bytes(span.lpn, span.count, out)
            }
            Data::Read(out) if out.len() == span.bytes => {
                let mut whole = vec![0; span.count as usize * BLOCK];
                let done = self.read_bytes(span.lpn, span.count, &mut whole)?;
                out.copy_from_slice(&whole[span.head..span.head + span.bytes]);
                Ok(done)
            }
            Data::ReadStamps(out) if span.aligned() && out.len() == span.count as usize => {
                self.read_stamps(span.lpn, out)
            }
            _ => Err(MISFIT),
        }
    }

    /// The next run of blocks that are in one piece, and may be read.
    fn next_run(&mut self, lpn: Lpn, most: u32) -> Result<(Place, u32), DeviceError> {
        self.load_pages(lpn, 1)?;
        // Up to the end of the map page: the next one may not be in memory.
        let most = most.min(1024 - lpn.0 % 1024);
        let (place, count) = self.engine.run(lpn, most);
        match place {
            Place::Damaged => Err(DeviceError::Unreadable(lba_of(lpn))),
            Place::Held(_) if self.failed.is_some() => Err(DeviceError::Unreadable(lba_of(lpn))),
            Place::At(pba) if self.failed.is_some() && !self.all_durable(pba, count) => {
                Err(DeviceError::Unreadable(lba_of(lpn)))
            }
            place => Ok((place, count)),
        }
    }

    fn all_durable(&self, pba: Pba, count: u32) -> bool {
        (pba.0..pba.0 + count).all(|p| self.engine.is_durable(Pba(p)))
    }

    fn read_nothing(&mut self, mut lpn: Lpn, count: u32) -> Result<Time, DeviceError> {
        let (mut done, end) = (self.below.clock, lpn.0 + count);
        while lpn.0 < end {
            let (place, n) = self.next_run(lpn, end - lpn.0)?;
            if let Place::At(pba) = place
                && !self.gather.holds(pba)
            {
                done = done.max(self.below.get(pba, n, Data::None)?);
            }
            lpn.0 += n;
        }
        Ok(done)
    }

    pub(super) fn read_bytes(
        &mut self,
        first: Lpn,
        count: u32,
        out: &mut [u8],
    ) -> Result<Time, DeviceError> {
        let (mut done, mut from) = (self.below.clock, 0);
        while from < count {
            let lpn = Lpn(first.0 + from);
            let (place, n) = self.next_run(lpn, count - from)?;
            let part = &mut out[from as usize * BLOCK..(from + n) as usize * BLOCK];
            match place {
                Place::At(pba) => {
                    done = done.max(self.fetch_bytes(pba, n, part)?);
                    self.verify(lpn, part)?;
                }
                Place::Held(slot) => match self.contents.bytes(slot) {
                    Some(bytes) => part.copy_from_slice(bytes),
                    None => part.fill(0),
                },
                _ => part.fill(0),
            }
            from += n;
        }
        Ok(done)
    }

    /// Reads places from the device, or from what is gathered.
    fn fetch_bytes(&mut self, pba: Pba, n: u32, out: &mut [u8]) -> Result<Time, DeviceError> {
        let mut done = self.below.clock;
        if self.gather.blocks() == 0 {
            return self.below.get(pba, n, Data::Read(out));
        }
        for (i, block) in out.chunks_exact_mut(BLOCK).enumerate() {
            let at = Pba(pba.0 + i as u32);
            match self.gather.bytes_at(at) {
                Some(bytes) => block.copy_from_slice(bytes),
                None => done = done.max(self.below.get(at, 1, Data::Read(block))?),
            }
        }
        Ok(done)
    }

    fn verify(&self, lpn: Lpn, bytes: &[u8]) -> Result<(), DeviceError> {
        if self.engine.verifies() { self.compare(lpn, bytes) } else { Ok(()) }
    }

    /// Compares blocks with the CRCs that the log keeps, if it does.
    fn compare(&self, lpn: Lpn, bytes: &[u8]) -> Result<(), DeviceError> {
        for (i, block) in (0..).zip(bytes.chunks_exact(BLOCK)) {
            let lpn = Lpn(lpn.0 + i);
            // 0: written without payload, there is nothing to compare with.
            let known = self.engine.crc(lpn).filter(|crc| *crc != 0);
            if known.is_some_and(|crc| crc != crc32c(0, block)) {
                return Err(DeviceError::Unreadable(lba_of(lpn)));
            }
        }
        Ok(())
    }

    fn read_stamps(&mut self, first: Lpn, out: &mut [u64]) -> Result<Time, DeviceError> {
        let (mut done, mut from) = (self.below.clock, 0);
        while from < out.len() {
            let lpn = Lpn(first.0 + from as u32);
            let (place, n) = self.next_run(lpn, (out.len() - from) as u32)?;
            let part = &mut out[from..from + n as usize];
            match place {
                Place::At(pba) if self.gather.blocks() == 0 => {
                    done = done.max(self.below.get(pba, n, Data::ReadStamps(part))?);
                }
                Place::At(pba) => {
                    for (i, stamp) in (0..).zip(part.iter_mut()) {
                        let at = Pba(pba.0 + i);
                        match self.gather.stamp_at(at) {
                            Some(known) => *stamp = known,
                            None => {
                                let into = Data::ReadStamps(std::slice::from_mut(stamp));
                                done = done.max(self.below.get(at, 1, into)?);
                            }
                        }
                    }
                }
                Place::Held(slot) => part.fill(self.contents.stamp(slot).unwrap_or(0)),
                _ => part.fill(0),
            }
            let checked = if self.engine.verifies() { n as usize } else { 0 };
            for (i, stamp) in (0..).zip(&out[from..from + checked]) {
                let known = self.engine.crc(Lpn(lpn.0 + i)).filter(|crc| *crc != 0);
                if known.is_some_and(|crc| crc != stamp_crc(*stamp)) {
                    return Err(DeviceError::Unreadable(lba_of(Lpn(lpn.0 + i))));
                }
            }
            from += n as usize;
        }
        Ok(done)
    }
}
