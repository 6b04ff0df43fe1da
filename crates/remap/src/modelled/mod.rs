//! The host log as a device in virtual time.
//!
//! Every request is decided and done at once; what happens below is submitted at the request's time
//! and its completion is when the device says. House is kept behind each request and in the pauses
//! between them, by what [`Engine::next`] says. One rule of the live shell has no place here, because an
//! answer is due before later requests are known: what gathers behind log writes in flight is not merged
//! (with `ack = device` each request is a write of its own; what leaves the buffer of `ack = buffer` is
//! merged, and a write that makes something leave waits while more than `inflight` of these are under way).
//!
//! Payloads: with `payload = stored` headers, map pages and roots are bytes on the device below,
//! and each record's data is bytes, stamps or nothing, as the request carried it: the device must
//! keep bytes and stamps beside each other if stamps are used (`ssd::Drive` with whole records
//! does; a RAM device refuses stamps). Blocks written without payload have no contents to speak of.
//! With `payload = none` nothing is stored, requests with payload are refused and the log cannot be
//! opened again: traces.

mod below;
mod buffer;
mod checkpoint;
mod clean;
mod gather;
mod house;
mod io;

use std::collections::VecDeque;

use block::{BlockDevice, Data, DeviceError, Lpn, Op, Plant, Request, SECTOR_BYTES, Sectors, Time};

use crate::check::{ImageReport, check_store};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::error::LogError;
use crate::geometry::{BLOCK, Seg};
use crate::options::LogOptions;
use crate::planted::Planted;
use crate::recovery::{Summary, format_store, recover};
use below::{Below, Payload};
use buffer::Contents;
use clean::Cleaner;
use gather::{Feed, Gather, Names};

const SECTORS: u64 = BLOCK as u64 / SECTOR_BYTES;
/// Blocks of a trim that are admitted at a time: 64 MiB.
const TRIM_BLOCKS: u64 = 16_384;

/// A host log over a device.
pub struct HostLog<D> {
    engine: Engine,
    below: Below<D>,
    gather: Gather,
    contents: Contents,
    cleaner: Cleaner,
    reverse: Option<Vec<u32>>,
    summary: Summary,
    /// Flushes under way: when each is done, and the last record it covers.
    flushing: VecDeque<(Time, u64)>,
    /// When the flush of the checkpoint under way ends.
    root_flush: Option<Time>,
    /// The error after which nothing is written any more.
    failed: Option<DeviceError>,
    last_at: Time,
    /// Blocks that requests have written.
    admitted: u64,
    scratch: Vec<u8>,
    /// A buffer for what a checkpoint writes.
    body: Vec<u8>,
    freed: Vec<Seg>,
}

impl<D: BlockDevice> HostLog<D> {
    /// Makes a log on `device`; what it held is gone.
    ///
    /// # Errors
    /// The device does not fit the options, or fails.
    pub fn format(device: D, options: &LogOptions) -> Result<HostLog<D>, LogError> {
        HostLog::format_at(device, Time::ZERO, options)
    }

    /// The same on a device that was asked for something until `at`.
    ///
    /// # Errors
    /// As [`HostLog::format`].
    pub fn format_at(device: D, at: Time, options: &LogOptions) -> Result<HostLog<D>, LogError> {
        HostLog::make(Below::new(device, at, options.payload), options, Plant::default())
    }

    #[doc(hidden)]
    pub fn format_with(
        device: D,
        options: &LogOptions,
        planted: Plant<Planted>,
    ) -> Result<HostLog<D>, LogError> {
        HostLog::make(Below::new(device, Time::ZERO, options.payload), options, planted)
    }

    fn make(
        mut below: Below<D>,
        options: &LogOptions,
        planted: Plant<Planted>,
    ) -> Result<HostLog<D>, LogError> {
        let engine = format_store(&mut below, options, planted)?;
        Ok(HostLog::start(engine, below, Summary::default()))
    }

    /// Opens the log on `device` at `at`: recovery. [`HostLog::now`] says when it was over.
    ///
    /// What was flushed and is damaged makes the log read-only; [`HostLog::read_only`] says so.
    ///
    /// # Errors
    /// There is no log, it cannot be opened at all, or the device fails.
    pub fn open(device: D, at: Time, options: &LogOptions) -> Result<HostLog<D>, LogError> {
        HostLog::open_with(device, at, options, Plant::default())
    }

    #[doc(hidden)]
    pub fn open_with(
        device: D,
        at: Time,
        options: &LogOptions,
        planted: Plant<Planted>,
    ) -> Result<HostLog<D>, LogError> {
        if !options.payload {
            return Err(LogError::NotALog("a log without payload is not stored".to_string()));
        }
        let mut below = Below::new(device, at, true);
        let recovered = recover(&mut below, options, true, planted)?;
        below.written = 0;
        let mut log = HostLog::start(recovered.engine, below, recovered.summary);
        log.below.written = log.engine.counters().written();
        Ok(log)
    }

    fn start(mut engine: Engine, mut below: Below<D>, summary: Summary) -> HostLog<D> {
        below.in_turn = false;
        engine.set_now(below.clock.as_ns());
        let g = *engine.geometry();
        let places = g.segments as usize * g.segment as usize;
        HostLog {
            contents: Contents::new(engine.buffer_size()),
            reverse: (!below.payload).then(|| vec![0; places]),
            engine,
            last_at: below.clock,
            below,
            gather: Gather::default(),
            cleaner: Cleaner::default(),
            summary,
            flushing: VecDeque::new(),
            root_flush: None,
            failed: None,
            admitted: 0,
            scratch: Vec::new(),
            body: Vec::new(),
            freed: Vec::new(),
        }
    }

    /// The engine: tables and decisions.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Tells what is known of the client's blocks, see [`Engine::know`].
    pub fn know(&mut self, known: Box<dyn crate::engine::Known>) {
        self.engine.know(known);
    }

    /// What opening the log found and did.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What was written, by cause.
    pub fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    /// Blocks written to and read from the device below.
    pub fn traffic(&self) -> (u64, u64) {
        (self.below.written, self.below.read)
    }

    /// The moment up to which the log has worked.
    pub fn now(&self) -> Time {
        self.below.clock
    }

    /// Why nothing may be written, if so.
    pub fn read_only(&self) -> Option<&str> {
        self.engine.read_only()
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.below.device
    }

    /// The device below, to let it fail.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.below.device
    }

    /// Lets go of the device as it is: nothing is sealed or written.
    pub fn into_device(self) -> D {
        self.below.device
    }

    /// A clean stop: everything is durable and the next opening has nothing to replay. Returns the
    /// device, and when it was done.
    ///
    /// # Errors
    /// The device fails.
    pub fn close(mut self, at: Time) -> Result<(D, Time), LogError> {
        let done = self.stop(at)?;
        Ok((self.below.device, done))
    }

    /// The same of a log that something else has; nothing is asked of it after that.
    ///
    /// # Errors
    /// As [`HostLog::close`].
    pub fn stop(&mut self, at: Time) -> Result<Time, LogError> {
        self.enter(at)?;
        if self.engine.read_only().is_none() {
            let done = self.last_checkpoint()?;
            self.below.clock = self.below.clock.max(done);
        }
        Ok(self.below.clock)
    }

    /// Checks the tables, and the accounting: blocks written = user + header + gc + meta + root,
    /// and those of the user are those that requests wrote.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), LogError> {
        self.engine.check()?;
        self.check_counts()
    }

    /// Blocks that are counted and not sent to the device yet.
    pub fn unsent(&self) -> u64 {
        self.engine.checkpoint_owed() + u64::from(self.gather.blocks())
    }

    /// The accounting alone.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_counts(&self) -> Result<(), LogError> {
        let counters = self.engine.counters();
        if self.failed.is_none() && counters.written() != self.below.written + self.unsent() {
            let what = format!("{} blocks written, {counters:?}", self.below.written);
            return Err(LogError::Broken(what));
        }
        if self.engine.taken() != self.admitted {
            let what = format!("requests wrote {} blocks, {counters:?}", self.admitted);
            return Err(LogError::Broken(what));
        }
        Ok(())
    }

    /// Flushes, then compares the map with what recovery would build from the device (I7), and
    /// checks the CRC of every live block. Changes nothing.
    ///
    /// # Errors
    /// The maps differ, or the device fails.
    pub fn check_media(&mut self) -> Result<ImageReport, LogError> {
        self.sync()?;
        let (written, clock) = (self.below.written, self.below.clock);
        let options = LogOptions { map_memory: block::Bytes(0), ..self.engine.options().clone() };
        let rebuilt = recover(&mut self.below, &options, false, Plant::default())?;
        let report = check_store(&mut self.below, &options)?;
        (self.below.written, self.below.clock) = (written, clock);
        if let Some(why) = rebuilt.engine.read_only() {
            return Err(LogError::Corrupt(why.to_string()));
        }
        for lpn in (0..self.engine.geometry().logical).map(Lpn) {
            self.load_pages(lpn, 1)?;
            let (here, there) = (self.engine.lookup(lpn), rebuilt.engine.lookup(lpn));
            if here != there || self.engine.crc(lpn) != rebuilt.engine.crc(lpn) {
                let what = format!("block {lpn}: {here:?} in memory, {there:?} on the device");
                return Err(LogError::Broken(what));
            }
        }
        Ok(report)
    }

    /// Takes the time of a request.
    fn enter(&mut self, at: Time) -> Result<(), DeviceError> {
        if at < self.last_at {
            return Err(DeviceError::TimeReversed { at, last: self.last_at });
        }
        self.last_at = at;
        let writes = |log: &HostLog<D>| log.failed.is_none() && log.engine.read_only().is_none();
        // An error of house-keeping stops what writes, and is told to whoever writes next: a read goes on.
        if writes(self) {
            let kept = self.keep_house_until(at);
            self.stop_on(kept).ok();
        }
        self.below.clock = self.below.clock.max(at);
        self.engine.set_now(self.below.clock.as_ns());
        self.settle()?;
        if writes(self) {
            let kept = self.keep_house();
            self.stop_on(kept).ok();
        }
        Ok(())
    }

    /// Books the flushes that are done by now: only then is anything durable, and what they free can
    /// be used again.
    fn settle(&mut self) -> Result<(), DeviceError> {
        while let Some((done, seq)) = self.flushing.front().copied()
            && done <= self.below.clock
            && self.failed.is_none()
        {
            self.flushing.pop_front();
            self.engine.flush_end(seq, &mut self.freed);
        }
        if self.failed.is_none()
            && self.root_flush.take_if(|ready| *ready <= self.below.clock).is_some()
        {
            self.engine.root_flush_end(&mut self.freed);
        }
        self.discard_freed()
    }

    /// When the first flush under way ends.
    fn next_end(&self) -> Option<Time> {
        self.flushing.front().map(|(done, _)| *done).into_iter().chain(self.root_flush).min()
    }

    fn may_write(&self) -> Result<(), DeviceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.engine.read_only() {
            Some(_) => Err(DeviceError::ReadOnly("what was flushed is damaged: run a check")),
            None => Ok(()),
        }
    }

    /// After an error of a write or a flush nothing is written any more: what was not durable then
    /// may or may not be there.
    fn stop_on<T>(&mut self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(error) = &result
            && self.failed.is_none()
        {
            self.failed = Some(error.clone());
        }
        result
    }

    /// Sends what is gathered.
    fn issue(&mut self) -> Result<Time, DeviceError> {
        let done = self.gather.issue(&mut self.below);
        self.stop_on(done)
    }

    /// A sink for headers alone.
    fn feed<'a>(
        gather: &'a mut Gather,
        reverse: &'a mut Option<Vec<u32>>,
        engine: &Engine,
    ) -> Feed<'a> {
        Feed {
            gather,
            payload: Payload::Nothing,
            reverse: reverse.as_mut(),
            names: Names::From(Lpn(0)),
            geometry: *engine.geometry(),
        }
    }

    /// Empties the buffer, seals, sends and flushes: everything admitted is durable at the time returned.
    fn sync(&mut self) -> Result<Time, DeviceError> {
        self.may_write()?;
        self.end_batch()?;
        self.sync_log()
    }

    /// The same for what is in the log: what of it has no mark is durable, and counts for nothing yet.
    fn sync_log(&mut self) -> Result<Time, DeviceError> {
        self.may_write()?;
        let clock = self.below.clock;
        // The copy of a root's header needs no flush of its own, but nothing stays behind a flush.
        if !self.engine.dirty() && self.gather.blocks() == 0 && !self.below.unflushed {
            return Ok(clock);
        }
        if let Some((done, covered)) = self.flushing.back()
            && *covered == self.engine.seqs().0
            && !self.engine.has_open_records()
            && self.gather.blocks() == 0
            && !self.below.unflushed
        {
            // The flush under way covers everything.
            return Ok(*done);
        }
        let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
        let seq = self.engine.flush_begin(&mut feed);
        let mut done = self.issue()?;
        if !self.engine.has(Planted::AckBeforeFlush) {
            let flushed = self.below.flush_device();
            done = done.max(self.stop_on(flushed)?);
        }
        // Flushes end in the order in which they began.
        done = done.max(self.flushing.back().map_or(done, |(before, _)| *before));
        self.flushing.push_back((done, seq));
        self.settle()?;
        Ok(done)
    }

    /// Tells the device below which segments it may forget.
    fn discard_freed(&mut self) -> Result<(), DeviceError> {
        let g = *self.engine.geometry();
        while let Some(seg) = self.freed.pop() {
            if self.engine.options().discard {
                let result = self.below.discard(g.base(seg), g.segment);
                self.stop_on(result)?;
            }
        }
        Ok(())
    }

    /// Reads the map pages of these blocks that are not in memory.
    #[inline]
    fn load_pages(&mut self, lpn: Lpn, count: u32) -> Result<(), DeviceError> {
        if self.engine.holds_map() {
            return Ok(());
        }
        self.load_missing(lpn, count)
    }

    fn load_missing(&mut self, lpn: Lpn, count: u32) -> Result<(), DeviceError> {
        while let Some((page, pba)) = self.engine.missing(lpn, count) {
            self.scratch.resize(BLOCK, 0);
            let into = Data::Read(&mut self.scratch[..BLOCK]);
            // A miss is waited for: nothing can be decided without it.
            let done = self.below.get(pba, 1, into)?;
            self.below.clock = self.below.clock.max(done);
            self.engine.install(page, &self.scratch[..BLOCK]);
            self.engine.counters_mut().map_misses += 1;
        }
        self.engine.trim_memory(lpn, count);
        if self.engine.damaged_map(lpn, count) {
            let lba = block::Lba(u64::from(lpn.0) * SECTORS);
            return Err(DeviceError::Unreadable(lba));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Time, DeviceError> {
        self.sync()
    }

    fn trim(&mut self, request: &Request<'_>) -> Result<Time, DeviceError> {
        self.may_write()?;
        // Whole blocks inside the range.
        let mut from = request.lba.0.div_ceil(SECTORS);
        let to = (request.lba.0 + request.sectors.0) / SECTORS;
        while from < to {
            let count = (to - from).min(TRIM_BLOCKS) as u32;
            let lpn = Lpn(from as u32);
            self.load_and_make_room(lpn, count, 1)?;
            let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
            self.engine.trim(lpn, count, &mut feed);
            self.issue()?;
            self.keep_house()?;
            from += u64::from(count);
        }
        let clock = self.below.clock;
        if request.fua { self.sync() } else { Ok(clock) }
    }
}

impl<D: BlockDevice> BlockDevice for HostLog<D> {
    fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.engine.geometry().logical) * SECTORS)
    }
    /// A block of the log is one version or another, whatever the device below tears.
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(block::UNIT_BYTES)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        self.enter(at)?;
        match request.op {
            Op::Read => self.read(request),
            Op::Write => self.write(request),
            Op::Flush => self.flush(),
            Op::Discard => self.trim(&request),
        }
    }
}
