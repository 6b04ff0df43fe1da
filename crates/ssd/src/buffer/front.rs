//! A request passes the buffer: look-ups, evictions, what goes to flash and what is awaited.
//!
//! Generic over the policy inside, one dynamic call per *request* at the edge.

use block::{AppId, Data, DeviceError, Lba, Lpn, Op, Request, Time};
use nand::{Payload, ReadCause};

use super::policy::{Access, Admission, Batches, Policy, ReqInfo, Stream};
use super::pool::{Frame, Pool};
use crate::Bug;
use crate::backend::{Backend, Nothing};
use crate::ftl::{PageFtl, SlotData, Writer};
use crate::host::HostSide;
use crate::hybrid::HybridFtl;
use crate::stats::{AppStats, BufferStats};

pub(super) const PAGE: u64 = 4096;

/// What the drive lends the buffer for a request.
pub(crate) struct Host<'a> {
    pub side: &'a mut HostSide,
    pub now: Time,
    pub unit_pages: u32,
    pub through: bool,
    pub staging: u32,
    /// FLUSH may answer at once while at most so many entries are dirty.
    pub protected: Option<u32>,
    pub bug: Option<Bug>,
}

/// A buffer with its policy, seen from the drive.
pub(crate) trait Front: std::fmt::Debug + Send {
    fn on_page(
        &mut self,
        ftl: &mut PageFtl,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError>;
    fn on_hybrid(
        &mut self,
        ftl: &mut HybridFtl,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError>;
    /// Sees to it that the FTL has the newest version of a page.
    fn settle(&mut self, ftl: &mut PageFtl, host: &Host<'_>, page: u32) -> Result<(), DeviceError>;
    /// The FTL has a newer version of a page than the buffer.
    fn outdated(&mut self, page: u32);
    /// Hit ratios only.
    fn touch(&mut self, nothing: &mut Nothing, accesses: &[super::HitAccess]);
    fn stats(&self) -> (BufferStats, &[AppStats], u64);
    fn reset_stats(&mut self);
    /// The oldest `limit` dirty entries, in order: what a capacitor saves. A flush that was
    /// answered at once relied on those; newer ones have been promised to nobody.
    fn dirty(&self, limit: usize) -> Vec<(u32, Payload)>;
    fn check(&self) -> Result<(), String>;
    /// Entries per list, by the policy's names.
    fn occupancy(&self) -> Vec<(&'static str, usize)>;
    fn boxed(&self) -> Box<dyn Front>;
}

#[derive(Clone, Debug)]
pub(super) struct Evicted {
    pub(super) page: u32,
    pub(super) stream: Stream,
    pub(super) mask: u8,
    pub(super) app: u16,
    pub(super) payload: Payload,
}

#[derive(Debug)]
pub(super) struct Buffer<P> {
    pub(super) pool: Pool,
    pub(super) policy: P,
    pub(super) out: Batches,
    pub(super) evicted: Vec<Evicted>,
    /// Pages to be written with what was evicted.
    pub(super) pads: Vec<std::ops::Range<u32>>,
    pub(super) pieces: Vec<Payload>,
    pub(super) apps: Vec<AppStats>,
    pub(super) stats: BufferStats,
    pub(super) read_unwritten: u64,
    pub(super) requests: u64,
    pub(super) mask: bool,
}

impl<P: Clone> Clone for Buffer<P> {
    fn clone(&self) -> Self {
        Buffer {
            pool: self.pool.clone(),
            policy: self.policy.clone(),
            out: Batches::default(),
            evicted: self.evicted.clone(),
            pads: self.pads.clone(),
            pieces: Vec::new(),
            apps: self.apps.clone(),
            ..*self
        }
    }
}

/// A buffer over a pool, with a policy.
pub(super) fn boxed<P: Policy>(policy: P, pool: Pool, mask: bool) -> Box<dyn Front> {
    Box::new(Buffer {
        pool,
        policy,
        out: Batches { frames: Vec::with_capacity(256), pad: Vec::new() },
        evicted: Vec::with_capacity(256),
        pads: Vec::new(),
        pieces: Vec::with_capacity(16),
        apps: vec![AppStats::default()],
        stats: BufferStats::default(),
        read_unwritten: 0,
        requests: 0,
        mask,
    })
}

/// What an entry keeps of a page on flash; `None` if it cannot be read.
pub(super) fn payload_of(data: SlotData) -> Option<Payload> {
    match data {
        SlotData::Stamp(stamp) => Some(Payload::Stamp(stamp)),
        SlotData::Bytes(bytes, at) => Some(Payload::Bytes(bytes[at..at + PAGE as usize].into())),
        SlotData::Unmapped | SlotData::Untracked => Some(Payload::None),
        SlotData::Unreadable => None,
    }
}

/// The sectors of page `page` that a request covers, as bits.
fn sectors_of(page: u64, offset: u64, end: u64) -> u8 {
    let start = (offset.max(page * PAGE) - page * PAGE) / 512;
    let stop = (end.min((page + 1) * PAGE) - page * PAGE).div_ceil(512);
    ((1u16 << stop) - (1u16 << start)) as u8
}

impl<P: Policy> Buffer<P> {
    pub(super) fn app(&mut self, app: AppId) -> &mut AppStats {
        let at = app.index();
        if at >= self.apps.len() {
            self.apps.resize(at + 1, AppStats::default());
        }
        &mut self.apps[at]
    }

    fn submit<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        if let Some(why) = back.read_only()
            && matches!(request.op, Op::Write | Op::Discard)
        {
            return Err(DeviceError::ReadOnly(why));
        }
        match request.op {
            Op::Read => self.read(back, host, request),
            Op::Write => self.write(back, host, request),
            Op::Flush => self.flush(back, host),
            Op::Discard => self.discard(back, host, &request),
        }
    }

    fn info(&mut self, request: &Request<'_>) -> ReqInfo {
        self.requests += 1;
        ReqInfo {
            id: self.requests,
            offset: request.lba.bytes(),
            len: request.sectors.bytes(),
            app: request.hint.app,
            hint: request.hint.stream,
        }
    }

    fn read<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
        mut request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        let info = self.info(&request);
        let (offset, end) = (info.offset.0, info.offset.0 + info.len.0);
        let start = host.side.start_read(host.now, info.len.0);
        let (mut hits, mut buffered) = (0, 0u64);
        let (first, last) = (offset / PAGE, end.div_ceil(PAGE));
        for page in first..last {
            let access = Access {
                page: Lpn(page as u32),
                op: Op::Read,
                req: &info,
                index: (page - first) as u32,
                mapped: false,
                next_use: u64::MAX,
            };
            let wanted = sectors_of(page, offset, end);
            self.stats.partial_units += u64::from(wanted != 0xFF);
            if let Some(frame) = self.pool.find(access.page) {
                hits += 1;
                buffered += PAGE;
                if !P::SHEDS || back.read_only().is_none() {
                    // Where nothing may be evicted any more, a hit that would changes nothing.
                    self.hit(frame, &access);
                }
                if self.pool.mask(frame) & wanted != wanted {
                    // The entry lacks sectors that are on flash.
                    back.read(start, page as u32, ReadCause::Rmw)?;
                    self.pool.add_mask(frame, 0xFF);
                }
                self.copy_out(back, page as u32, Some(frame), &mut request, offset)?;
                continue;
            }
            self.read_miss(back, &host, start, access, &mut request, offset)?;
        }
        let app = self.app(info.app);
        app.read_units += last - first;
        app.read_hits += hits;
        app.requests += 1;
        app.request_hits += u64::from(hits == last - first);
        let mut done = back.read_end()?.max(start);
        if buffered > 0 {
            done = done.max(host.side.dram(host.now, start, buffered));
        }
        self.write_back(back, host.now)?;
        // A read does not wait for the write-back it causes: its data goes to the host at once.
        back.back_pressure(host.staging);
        let sent = host.side.send(host.now, done, info.len.0);
        Ok(host.side.complete(sent))
    }

    fn read_miss<B: Backend>(
        &mut self,
        back: &mut B,
        host: &Host<'_>,
        start: Time,
        access: Access<'_>,
        request: &mut Request<'_>,
        offset: u64,
    ) -> Result<(), DeviceError> {
        let page = access.page.0;
        // A dirty entry given up earlier in this request must be in the map before it is read.
        if self.evicted.iter().any(|e| e.page == page) {
            self.write_back(back, host.now)?;
        }
        let mapped = back.mapped(page);
        if mapped {
            back.read(start, page, ReadCause::Host)?;
        } else {
            self.read_unwritten += 1;
        }
        self.copy_out(back, page, None, request, offset)?;
        let access = Access { mapped, ..access };
        if back.read_only().is_some() {
            // Nothing may be evicted any more: reads pass by.
            return Ok(());
        }
        let Admission::Admit(class) = self.policy.admit(&mut self.pool, &access, &mut self.out)
        else {
            return Ok(());
        };
        self.take_evictions();
        let frame = self.pool.insert(access.page, access.req.app.0, class);
        self.pool.add_mask(frame, 0xFF);
        if B::REAL
            && mapped
            && let Some(payload) = payload_of(back.data(page))
        {
            self.pool.set_payload(frame, payload);
        }
        self.policy.inserted(&mut self.pool, frame, &access);
        Ok(())
    }

    /// Gives the caller the data of a page it reads.
    fn copy_out<B: Backend>(
        &self,
        back: &B,
        page: u32,
        frame: Option<Frame>,
        request: &mut Request<'_>,
        offset: u64,
    ) -> Result<(), DeviceError> {
        if matches!(request.data, Data::None) {
            // Nobody looks at the data; that there is none is told all the same.
            let lost = B::REAL && frame.is_none() && back.data(page) == SlotData::Unreadable;
            return if lost {
                Err(DeviceError::Unreadable(Lba(u64::from(page) * 8)))
            } else {
                Ok(())
            };
        }
        let found = match frame.map(|f| self.pool.payload(f)) {
            Some(Payload::Stamp(stamp)) => SlotData::Stamp(*stamp),
            Some(Payload::Bytes(bytes)) => SlotData::Bytes(bytes.clone(), 0),
            // What the buffer holds came from the host: none of it lies in a backing alone.
            Some(Payload::None | Payload::Stamps(_) | Payload::Stored(_)) => SlotData::Unmapped,
            None => back.data(page),
        };
        if found == SlotData::Unreadable {
            return Err(DeviceError::Unreadable(Lba(u64::from(page) * 8)));
        }
        let start = u64::from(page) * PAGE;
        match &mut request.data {
            Data::ReadStamps(out) => {
                let at = ((start - offset) / PAGE) as usize;
                out[at] = if let SlotData::Stamp(stamp) = found { stamp } else { 0 };
            }
            Data::Read(out) => {
                let from = offset.max(start);
                let to = (offset + out.len() as u64).min(start + PAGE);
                let place = &mut out[(from - offset) as usize..(to - offset) as usize];
                match found {
                    SlotData::Bytes(bytes, at) => {
                        let at = at + (from - start) as usize;
                        place.copy_from_slice(&bytes[at..at + place.len()]);
                    }
                    _ => place.fill(0),
                }
            }
            Data::None | Data::Write(_) | Data::WriteStamps(_) => {}
        }
        Ok(())
    }

    fn write<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        let info = self.info(&request);
        let (offset, end) = (info.offset.0, info.offset.0 + info.len.0);
        let start = host.side.start_write(host.now, info.len.0);
        let received = host.side.receive(host.now, start, info.len.0);
        let mut done = received;
        let (first, last) = (offset / PAGE, end.div_ceil(PAGE));
        let (mut hits, mut admitted, mut bypassed) = (0, 0u64, None::<(u32, u32)>);
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
                        self.bypass(
                            back,
                            &host,
                            page as u32,
                            payload,
                            &info,
                            received,
                            &mut bypassed,
                        )?;
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
            self.pool.add_mask(frame, if matches!(request.data, Data::None) { bits } else { 0xFF });
            self.pool.set_payload(frame, payload);
        }
        if let Some((unit, mask)) = bypassed {
            self.write_pieces(back, received, unit, mask, &info)?;
        }
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

    /// A page that the policy refuses goes to flash with its neighbours of the same mapping unit.
    #[expect(clippy::too_many_arguments, reason = "the state of the loop it is part of")]
    fn bypass<B: Backend>(
        &mut self,
        back: &mut B,
        host: &Host<'_>,
        page: u32,
        payload: Payload,
        info: &ReqInfo,
        ready: Time,
        gathered: &mut Option<(u32, u32)>,
    ) -> Result<(), DeviceError> {
        let (unit, bit) = (page / host.unit_pages, 1 << (page % host.unit_pages));
        match gathered {
            Some((same, mask)) if *same == unit => *mask |= bit,
            _ => {
                if let Some((unit, mask)) = gathered.take() {
                    self.write_pieces(back, ready, unit, mask, info)?;
                }
                *gathered = Some((unit, bit));
            }
        }
        self.pieces.push(payload);
        Ok(())
    }

    fn write_pieces<B: Backend>(
        &mut self,
        back: &mut B,
        ready: Time,
        unit: u32,
        mask: u32,
        info: &ReqInfo,
    ) -> Result<(), DeviceError> {
        let writer = Writer { app: info.app.0, hint: info.hint, batch: 0 };
        let result = back.write(ready, unit, mask, &self.pieces, writer);
        self.pieces.clear();
        result
    }

    /// Programs the request's pages and waits for them.
    fn write_through<B: Backend>(
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

    /// A hit, and the entries it pushes out.
    #[inline]
    pub(super) fn hit(&mut self, frame: Frame, access: &Access<'_>) {
        self.policy.hit(&mut self.pool, frame, access);
        if P::SHEDS {
            self.policy.shed(&mut self.pool, &mut self.out);
            self.take_evictions();
        }
    }
}

impl<P: Policy> Front for Buffer<P> {
    fn on_page(
        &mut self,
        ftl: &mut PageFtl,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        self.submit(ftl, host, request)
    }
    fn on_hybrid(
        &mut self,
        ftl: &mut HybridFtl,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        self.submit(ftl, host, request)
    }
    fn settle(&mut self, ftl: &mut PageFtl, host: &Host<'_>, page: u32) -> Result<(), DeviceError> {
        self.settle_page(ftl, host, page)
    }
    fn outdated(&mut self, page: u32) {
        self.drop_page(page);
    }
    fn touch(&mut self, nothing: &mut Nothing, accesses: &[super::HitAccess]) {
        self.touch_all(nothing, accesses);
    }
    fn stats(&self) -> (BufferStats, &[AppStats], u64) {
        let stats = BufferStats {
            slots: self.pool.capacity() as u64,
            peak: self.pool.peak() as u64,
            dirty: self.pool.dirty() as u64,
            ..self.stats
        };
        (stats, &self.apps, self.read_unwritten)
    }
    fn reset_stats(&mut self) {
        self.stats = BufferStats::default();
        self.apps.fill(AppStats::default());
        self.read_unwritten = 0;
    }
    fn dirty(&self, limit: usize) -> Vec<(u32, Payload)> {
        let left = self.evicted.iter().map(|e| (e.page, e.payload.clone()));
        let entries = std::iter::successors(self.pool.first_dirty(), |f| self.pool.dirty_after(*f));
        left.chain(entries.map(|f| (self.pool.page(f).0, self.pool.payload(f).clone())))
            .take(limit)
            .collect()
    }
    fn check(&self) -> Result<(), String> {
        self.policy.check(&self.pool)
    }
    fn occupancy(&self) -> Vec<(&'static str, usize)> {
        let mut all = Vec::new();
        self.policy.occupancy(&mut |name, count| all.push((name, count)));
        all
    }
    fn boxed(&self) -> Box<dyn Front> {
        let mut copy = self.clone();
        copy.mask = self.mask;
        Box::new(copy)
    }
}
