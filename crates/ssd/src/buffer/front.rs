//! A request passes the buffer: look-ups, evictions, what goes to flash and what is awaited.
//!
//! Generic over the policy inside, one dynamic call per *request* at the edge.

use block::{AppId, DeviceError, Op, Plant, Request, StreamId, Time};
use nand::Payload;

use super::policy::{Access, Batches, Policy, ReqInfo, Stream};
use super::pool::{Frame, Pool};
use crate::Bug;
use crate::backend::{Backend, Nothing};
use crate::ftl::{PageFtl, SlotData};
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
    pub bug: Plant<Bug>,
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
    pub(super) hint: StreamId,
    pub(super) payload: Payload,
}

#[derive(Debug)]
pub(super) struct Buffer<P> {
    pub(super) pool: Pool,
    pub(super) policy: P,
    pub(super) out: Batches,
    /// What was given up and is not handed on yet. Between requests there is something in it only
    /// after one that failed: then no older version of these pages may be read or come after them.
    pub(super) evicted: Vec<Evicted>,
    /// Pages to be written with what was evicted.
    pub(super) pads: Vec<std::ops::Range<u32>>,
    /// Memory for the payloads of a mapping unit that leaves the buffer; those of pages that pass
    /// it by, which are gathered meanwhile, have their own.
    pub(super) pieces: Vec<Payload>,
    pub(super) bypassed: Vec<Payload>,
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
            bypassed: Vec::new(),
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
        bypassed: Vec::with_capacity(16),
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
pub(super) fn sectors_of(page: u64, offset: u64, end: u64) -> u8 {
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
        let result = match request.op {
            Op::Read => self.read(back, host, request),
            Op::Write => self.write(back, host, request),
            Op::Flush => self.flush(back, host),
            Op::Discard => self.discard(back, host, &request),
        };
        if result.is_err() {
            // What it gathered to be read is no part of the next request: neither its time nor, if
            // that reads the same page, its pieces.
            let _ = back.read_end();
        }
        result
    }

    pub(super) fn info(&mut self, request: &Request<'_>) -> ReqInfo {
        self.requests += 1;
        ReqInfo {
            id: self.requests,
            offset: request.lba.bytes(),
            len: request.sectors.bytes(),
            app: request.hint.app,
            hint: request.hint.stream,
        }
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
        P::around(|| self.submit(ftl, host, request))
    }
    fn on_hybrid(
        &mut self,
        ftl: &mut HybridFtl,
        host: Host<'_>,
        request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        P::around(|| self.submit(ftl, host, request))
    }
    fn settle(&mut self, ftl: &mut PageFtl, host: &Host<'_>, page: u32) -> Result<(), DeviceError> {
        self.settle_page(ftl, host, page)
    }
    fn outdated(&mut self, page: u32) {
        self.drop_page(page);
    }
    fn touch(&mut self, nothing: &mut Nothing, accesses: &[super::HitAccess]) {
        P::around(|| self.touch_all(nothing, accesses));
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
