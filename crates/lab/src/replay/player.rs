//! Submits one record after the other and notes what came of it.

use block::{AppId, Lba, Op, Request, SECTOR_BYTES, Sectors, Span, StreamId, Time};
use workload::{Flags, Record, TraceOp};

use super::flight::InFlight;
use super::frames::Frames;
use super::series::Series;
use super::tally::{Served, Tally};
use super::{MOST_BLOCKS, MeasureAfter, Mode, Outcome, ReplayPlan, Watch};
use crate::explain::{Over, Probe};
use crate::{Device, LabError};

/// Requests between two looks at whether to stop.
const TICK: u64 = 8192;

pub(super) struct Player<'a, D: Device> {
    device: &'a mut D,
    watch: Watch<'a>,
    flight: InFlight,
    tally: Tally,
    series: Series,
    frames: Frames,
    /// Virtual time at which the workload's clock is 0.
    base: Time,
    last: Time,
    requests: u64,
    warm_up: Option<MeasureAfter>,
    flush_every: Option<u64>,
    writes_since_flush: u64,
    slots_per_page: u64,
    /// Looks at every request, if somebody asked.
    probe: Option<Probe>,
}

/// Sectors of a record: outwards for reads and writes, inwards for discards.
fn sectors(record: &Record, op: Op) -> Option<(Lba, Sectors)> {
    let end = record.offset.0.checked_add(record.len.0)?;
    let (first, last) = match op {
        Op::Discard => (record.offset.0.div_ceil(SECTOR_BYTES), end / SECTOR_BYTES),
        _ => (record.offset.0 / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES)),
    };
    Some((Lba(first), Sectors(last.saturating_sub(first))))
}

impl<'a, D: Device> Player<'a, D> {
    pub(super) fn new(
        device: &'a mut D,
        plan: &ReplayPlan,
        watch: Watch<'a>,
        mut probe: Option<Probe>,
    ) -> Self {
        device.reset_stats();
        let (base, stats) = (device.now(), device.stats());
        let slots_per_page = u64::from(device.slots_per_page());
        if let Some(probe) = &mut probe {
            probe.begin(device, base, plan.measure_after.is_some());
        }
        Player {
            flight: InFlight::new(plan.queue_depth),
            tally: Tally::new(base, plan.mode != Mode::Untimed),
            series: Series::new(base, &stats),
            frames: Frames::new(erases(device)),
            base,
            last: base,
            requests: 0,
            warm_up: plan.measure_after,
            flush_every: plan.flush_every,
            writes_since_flush: 0,
            slots_per_page,
            probe,
            device,
            watch,
        }
    }

    /// Virtual time at which the workload's clock is 0.
    pub(super) fn base(&self) -> Time {
        self.base
    }

    /// The first moment from `at` on at which the drive takes a request.
    pub(super) fn free_at(&self, at: Time) -> Time {
        self.flight.free_at(at.max(self.last))
    }

    /// Submits the request of a record that arrives at `arrival`; returns its end.
    pub(super) fn play(&mut self, arrival: Time, record: &Record) -> Result<Time, LabError> {
        if self.warm_up.is_some() {
            self.end_warm_up(arrival)?;
        }
        self.requests += 1;
        if self.requests.is_multiple_of(TICK) {
            self.watch.tick(TICK)?;
        }
        let op = match record.op {
            TraceOp::Read => Op::Read,
            TraceOp::Write | TraceOp::Zero => Op::Write,
            TraceOp::Flush => Op::Flush,
            TraceOp::Discard => Op::Discard,
        };
        if op == Op::Flush {
            return self.flush(arrival, record.app);
        }
        let beyond = || {
            LabError::Input(format!(
                "request {}: {} bytes at byte {} end beyond 2^64",
                self.requests, record.len, record.offset
            ))
        };
        let (lba, len) = sectors(record, op).ok_or_else(beyond)?;
        if len.0 == 0 {
            if op == Op::Discard {
                self.tally.empty_discards += 1;
                return Ok(arrival);
            }
            return Err(LabError::Input(format!(
                "request {}: a {op:?} of length 0 at byte {}",
                self.requests, record.offset
            )));
        }
        let mut end = arrival;
        if record.flags.has(Flags::PREFLUSH) {
            self.tally.added_flushes += 1;
            end = self.flush(arrival, record.app)?;
        }
        let mut request = match op {
            Op::Read => Request::read(lba, len),
            Op::Write => Request::write(lba, len),
            Op::Flush | Op::Discard => Request::discard(lba, len),
        };
        request.hint.stream = StreamId(record.hint);
        request.fua = op == Op::Write && record.flags.has(Flags::FUA);
        end = end.max(self.submit(arrival, request.for_app(record.app))?);
        if op == Op::Write {
            self.writes_since_flush += 1;
            if self.flush_every.is_some_and(|n| self.writes_since_flush >= n) {
                self.tally.added_flushes += 1;
                self.flush(arrival, record.app)?;
            }
        }
        Ok(end)
    }

    fn flush(&mut self, arrival: Time, app: AppId) -> Result<Time, LabError> {
        self.writes_since_flush = 0;
        self.submit(arrival, Request::flush().for_app(app))
    }

    fn submit(&mut self, arrival: Time, request: Request<'_>) -> Result<Time, LabError> {
        let (op, app) = (request.op, request.hint.app);
        let (offset, bytes) = (request.lba.bytes().0, request.sectors.bytes().0);
        // Times never fall: behind a request that waited for a place, all wait.
        let arrival_here = arrival.max(self.base);
        let at = self.free_at(arrival_here);
        if let Some(probe) = &mut self.probe {
            probe.submits(self.device, at);
        }
        let end = self.device.submit(at, request).map_err(|source| LabError::Device {
            request: self.requests,
            at,
            source,
        })?;
        self.last = at;
        if self.tally.timed {
            self.flight.take(end);
        }
        self.tally.add(Served { app, op, arrival: arrival_here, at, end });
        if let Some(probe) = &mut self.probe {
            let over = Over { app, op, offset, bytes, arrival: arrival_here, at, end };
            probe.served(self.device, over)?;
        }
        if self.series.add(op, end.since(arrival_here)) {
            self.series.close(at, &self.device.stats());
        }
        if self.frames.add()
            && let Some(counts) = erases(self.device)
        {
            self.frames.keep(counts);
        }
        Ok(end)
    }

    /// The measured part begins with the request that arrives now, if it is time.
    fn end_warm_up(&mut self, arrival: Time) -> Result<(), LabError> {
        let over = match self.warm_up {
            None => false,
            Some(MeasureAfter::Requests(n)) => self.requests >= n,
            Some(MeasureAfter::Time(span)) => arrival.since(self.base) >= span,
        };
        if !over {
            return Ok(());
        }
        self.warm_up = None;
        // The identities hold for both parts.
        self.tally.check(&self.device.stats(), self.slots_per_page)?;
        self.device.reset_stats();
        let start = arrival.max(self.last);
        self.tally = Tally::new(start, self.tally.timed);
        self.series = Series::new(start, &self.device.stats());
        self.frames = Frames::new(erases(self.device));
        if let Some(probe) = &mut self.probe {
            probe.measure(self.device, start);
        }
        Ok(())
    }

    /// A last flush, so that every queue drains; then the checks of the end of a run.
    pub(super) fn finish(mut self) -> Result<Outcome, LabError> {
        if let Some(after) = self.warm_up {
            return Err(LabError::Input(format!(
                "the workload ends after {} requests, before the measured part begins ({after})",
                self.requests
            )));
        }
        if self.requests == 0 {
            return Err(LabError::Input("the workload has no requests".to_string()));
        }
        let end = self.tally.end;
        self.watch.tick(self.requests % TICK)?;
        self.series.end(end, &self.device.stats());
        self.device
            .submit(end.max(self.last), Request::flush())
            .map_err(|source| LabError::Device { request: self.requests + 1, at: end, source })?;
        // The last flush is the laboratory's, not the workload's: it is served, but its time is
        // no part of the run.
        self.tally.submitted[Op::Flush as usize] += 1;
        self.tally.added_flushes += 1;
        if self.device.stats().buffer.dirty != 0
            && let Some(drive) = self.device.drive_mut()
        {
            // A flush leaves a protected buffer as it is. What is in it is programmed sometime, and counted
            // here, as that of every other drive is.
            drive.drain().map_err(|source| LabError::Device {
                request: self.requests + 1,
                at: end,
                source,
            })?;
        }
        let stats = self.device.stats();
        if stats.buffer.dirty != 0 {
            return Err(LabError::Check {
                contract: "served".to_string(),
                what: format!("{} pages are dirty after the last flush", stats.buffer.dirty),
            });
        }
        self.series.drained(&stats);
        self.tally.check(&stats, self.slots_per_page)?;
        self.device.check()?;
        let (layers, tally) = (self.device.layers(), self.tally);
        let (series, frames, requests) = (self.series, self.frames, self.requests);
        let probe = self.probe.map(|probe| probe.finish(self.device));
        let (causes, unwritten) = probe.unwrap_or_default();
        let blocks = self.device.drive_mut().and_then(|drive| drive.blocks(MOST_BLOCKS));
        Ok(Outcome { stats, layers, tally, series, requests, blocks, frames, causes, unwritten })
    }
}

/// How often each block was erased until now, of a drive with few enough to be listed.
fn erases<D: Device>(device: &mut D) -> Option<Vec<u32>> {
    device.drive_mut()?.erases(MOST_BLOCKS)
}

/// The span from the start of the workload's clock.
pub(super) fn on_clock(record: &Record) -> Span {
    record.at.since(Time::ZERO)
}
