//! Writes through the buffer: whole and partial pages, and what passes it by.

use block::{Data, DeviceError, Lba, Lpn, Op, Request, Time};
use nand::{Payload, ReadCause};

use super::front::{Buffer, Host, PAGE, sectors_of};
use super::policy::{Access, Admission, Policy, ReqInfo};
use crate::backend::Backend;
use crate::ftl::{SlotData, Writer};

/// Pages of a request that the policy refuses: they go to flash with their neighbours of the same
/// mapping unit.
struct Bypassed {
    unit: u32,
    /// Bit i: page i of the unit.
    mask: u32,
    /// The payloads of those pages, in ascending order.
    pieces: Vec<Payload>,
}

impl Bypassed {
    /// Nothing yet; `pieces` is memory to use.
    fn with(mut pieces: Vec<Payload>) -> Bypassed {
        pieces.clear();
        Bypassed { unit: 0, mask: 0, pieces }
    }
    /// The page `bit` of `unit`, behind those of the same unit.
    fn add(&mut self, unit: u32, bit: u32, payload: Payload) {
        self.unit = unit;
        self.mask |= bit;
        self.pieces.push(payload);
    }
    /// Hands on what is gathered, if anything is.
    fn write<B: Backend>(
        &mut self,
        back: &mut B,
        ready: Time,
        info: &ReqInfo,
    ) -> Result<(), DeviceError> {
        if self.mask != 0 {
            let writer = Writer { app: info.app.0, hint: info.hint, batch: 0 };
            back.write(ready, self.unit, self.mask, &self.pieces, writer)?;
            self.mask = 0;
            self.pieces.clear();
        }
        Ok(())
    }
}

impl<P: Policy> Buffer<P> {
    pub(super) fn write<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        // Left from a request that failed: newer than what flash has of their pages, and older than
        // what is written now.
        self.write_back(back, host.now)?;
        let info = self.info(&request);
        let (offset, end) = (info.offset.0, info.offset.0 + info.len.0);
        let start = host.side.start_write(host.now, info.len.0);
        let received = host.side.receive(host.now, start, info.len.0);
        let mut done = received;
        let (first, last) = (offset / PAGE, end.div_ceil(PAGE));
        let unit_pages = host.unit_pages;
        let (mut hits, mut admitted) = (0, 0u64);
        // It belongs to this request: what is gathered when it fails is gone with it.
        let mut bypassed = Bypassed::with(std::mem::take(&mut self.bypassed));
        for page in first..last {
            let bits = sectors_of(page, offset, end);
            self.stats.partial_units += u64::from(bits != 0xFF);
            let payload = self.copy_in(back, host.now, page as u32, &request, offset, &mut done)?;
            let mut access = Access {
                page: Lpn(page as u32),
                op: Op::Write,
                req: &info,
                index: (page - first) as u32,
                mapped: false,
                next_use: u64::MAX,
            };
            let frame = match self.pool.find(access.page) {
                Some(frame) => {
                    hits += 1;
                    self.hit(frame, &access);
                    if P::SHEDS {
                        self.write_back(back, received)?;
                        done = done.max(back.back_pressure(host.staging));
                    }
                    frame
                }
                None => {
                    access.mapped = back.mapped(page as u32);
                    let Admission::Admit(class) =
                        self.policy.admit(&mut self.pool, &access, &mut self.out)
                    else {
                        let (unit, bit) =
                            (page as u32 / unit_pages, 1 << (page as u32 % unit_pages));
                        if bypassed.unit != unit {
                            bypassed.write(back, received, &info)?;
                        }
                        bypassed.add(unit, bit, payload);
                        continue;
                    };
                    self.take_evictions();
                    self.write_back(back, received)?;
                    done = done.max(back.back_pressure(host.staging));
                    let frame = self.pool.insert(access.page, info.app.0, class);
                    self.policy.inserted(&mut self.pool, frame, &access);
                    frame
                }
            };
            admitted += PAGE;
            self.pool.set_dirty(frame);
            self.pool.set_stream(frame, info.hint);
            self.pool.add_mask(frame, if matches!(request.data, Data::None) { bits } else { 0xFF });
            self.pool.set_payload(frame, payload);
        }
        bypassed.write(back, received, &info)?;
        self.bypassed = bypassed.pieces;
        let app = self.app(info.app);
        app.write_units += last - first;
        app.write_hits += hits;
        app.requests += 1;
        app.request_hits += u64::from(hits == last - first);
        if admitted > 0 {
            done = done.max(host.side.dram(host.now, received, admitted));
        }
        if host.through || request.fua || admitted == 0 {
            done = done.max(self.write_through(back, &host, first, last, request.fua)?);
        }
        Ok(host.side.complete(done))
    }

    /// Programs the request's pages and waits for them.
    pub(super) fn write_through<B: Backend>(
        &mut self,
        back: &mut B,
        host: &Host<'_>,
        first: u64,
        last: u64,
        fua: bool,
    ) -> Result<Time, DeviceError> {
        for page in first..last {
            if let Some(frame) = self.pool.find(Lpn(page as u32))
                && self.pool.is_dirty(frame)
            {
                self.clean_unit(back, host, frame)?;
            }
        }
        let done = if fua { back.sync()? } else { back.through()? };
        // All of it has been waited for.
        back.back_pressure(0);
        Ok(done)
    }

    /// The payload a write brings to a page; a part of a page is completed from what it held.
    fn copy_in<B: Backend>(
        &mut self,
        back: &mut B,
        now: Time,
        page: u32,
        request: &Request<'_>,
        offset: u64,
        done: &mut Time,
    ) -> Result<Payload, DeviceError> {
        let start = u64::from(page) * PAGE;
        match &request.data {
            Data::WriteStamps(stamps) => {
                Ok(Payload::Stamp(stamps[((start - offset) / PAGE) as usize]))
            }
            Data::Write(bytes) => {
                let from = offset.max(start);
                let to = (offset + bytes.len() as u64).min(start + PAGE);
                let part = &bytes[(from - offset) as usize..(to - offset) as usize];
                if part.len() as u64 == PAGE {
                    return Ok(Payload::Bytes(part.into()));
                }
                let mut whole = self.old_bytes(back, now, page, done)?;
                whole[(from - start) as usize..(to - start) as usize].copy_from_slice(part);
                Ok(Payload::Bytes(whole.into()))
            }
            Data::None | Data::Read(_) | Data::ReadStamps(_) => Ok(Payload::None),
        }
    }

    fn old_bytes<B: Backend>(
        &mut self,
        back: &mut B,
        now: Time,
        page: u32,
        done: &mut Time,
    ) -> Result<Vec<u8>, DeviceError> {
        let frame = self.pool.find(Lpn(page));
        back.takes_along();
        if let Some(Payload::Bytes(bytes)) = frame.map(|f| self.pool.payload(f)) {
            return Ok(bytes.to_vec());
        }
        if frame.is_none() && back.mapped(page) {
            back.read(now, page, ReadCause::Rmw)?;
            *done = (*done).max(back.read_end()?);
            match back.data(page) {
                SlotData::Bytes(bytes, at) => return Ok(bytes[at..at + PAGE as usize].to_vec()),
                SlotData::Unreadable => {
                    return Err(DeviceError::Unreadable(Lba(u64::from(page) * 8)));
                }
                SlotData::Unmapped | SlotData::Untracked | SlotData::Stamp(_) => {}
            }
        }
        Ok(vec![0; PAGE as usize])
    }
}
