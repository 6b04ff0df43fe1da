//! A modelled drive as a disk, its latencies emulated in real time or ignored.
//!
//! The drive does a request at once, under a lock, and says at what virtual time it is done. With
//! [`Timing::Model`] one second of virtual time is one second of the clock, and an answer is due
//! when the drive says; with [`Timing::Off`] virtual time runs from request to request.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Request, SECTOR_BYTES, Sectors, Time, TxError,
};
use ssd::BlocksNow;

use super::{
    Ask, Blocks, Capabilities, Disk, DiskError, Done, Extent, Lives, Told, TransactError,
    Transactor, inside,
};

/// Bytes of a page of a transaction.
const PAGE: usize = block::UNIT_BYTES as usize;
/// Zeroes written at a time.
const ZEROES: u64 = 256 << 10;

/// When answers leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// When the work is done.
    Off,
    /// When the modelled drive would have done it.
    Model,
}

/// A block device that a [`ModelDisk`] serves.
pub trait Modelled: BlockDevice + Debug + Send + 'static {
    /// Bytes that are old or new after a power cut, and are trimmed together; a power of two.
    fn unit(&self) -> u32;
    /// Bytes that requests must be multiples of, in place and length.
    fn grain(&self) -> u64 {
        SECTOR_BYTES
    }
    /// The latest virtual time anything happened at.
    fn now(&self) -> Time;
    /// A clean stop.
    ///
    /// # Errors
    /// As a flush.
    fn stop(&mut self) -> Result<(), DeviceError>;
    /// What it counts.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// Every block of its flash; `None` without any, if they are more than `most`, or with the power off.
    fn blocks(&self, most: u32) -> Option<BlocksNow> {
        let _ = most;
        None
    }
    /// How often its power has gone; `None`: it does not go.
    fn cuts(&self) -> Option<u64> {
        None
    }
    /// Its transactions, if it has any.
    fn transactor(&mut self) -> Option<&mut dyn Transactor> {
        None
    }
}

#[derive(Debug)]
struct State<D> {
    drive: D,
    /// When virtual time was `epoch`.
    start: Instant,
    epoch: Time,
    /// Of the last request: submitted, and done.
    last: Time,
    done: Time,
}

/// A [`Modelled`] device as a disk.
#[derive(Debug)]
pub struct ModelDisk<D> {
    timing: Timing,
    size: u64,
    unit: u32,
    state: Arc<Mutex<State<D>>>,
}

impl From<DeviceError> for DiskError {
    fn from(error: DeviceError) -> DiskError {
        match error {
            DeviceError::NoSpace(why) => DiskError::NoSpace(why.to_string()),
            DeviceError::ReadOnly(why) => DiskError::Stopped(why.to_string().into()),
            DeviceError::Unreadable(lba) => DiskError::Damaged(format!("sector {lba}")),
            DeviceError::PowerOff => DiskError::PowerOff,
            DeviceError::InTransaction(lba) => DiskError::InTransaction(lba),
            other => DiskError::Io(std::io::Error::other(other)),
        }
    }
}

impl<D: Modelled> State<D> {
    /// The virtual time of a request that comes now.
    fn now(&self, timing: Timing) -> Time {
        match timing {
            Timing::Off => self.done,
            Timing::Model => {
                let real = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                Time::from_ns(self.epoch.as_ns().saturating_add(real)).max(self.last)
            }
        }
    }

    fn submit(&mut self, timing: Timing, request: Request<'_>) -> Result<Done, DiskError> {
        let at = self.now(timing);
        let done = self.drive.submit(at, request)?;
        Ok(self.booked(timing, at, done))
    }

    /// What was asked at `at` is done at `done`.
    fn booked(&mut self, timing: Timing, at: Time, done: Time) -> Done {
        (self.last, self.done) = (at, self.done.max(done));
        match timing {
            Timing::Off => Done::NOW,
            Timing::Model => {
                // Never before it is done: what a cut at that moment takes back was not answered.
                let ahead = done.as_ps().div_ceil(1000).saturating_sub(self.epoch.as_ns());
                Done::at(self.start + Duration::from_nanos(ahead))
            }
        }
    }

    /// Pages one after the other, each asked when the one before was; the last time.
    fn transact(&mut self, timing: Timing, ask: Ask<'_>) -> Result<Told, TransactError> {
        let at = self.now(timing);
        let drive = self.drive.transactor().ok_or(TransactError::NotOffered)?;
        if drive.tx_limits().max_open == 0 {
            // What is off cannot say what it has.
            return Err(match drive.tx_abort(at, block::TxId(0)) {
                Err(TxError::Device(DeviceError::PowerOff)) => DiskError::PowerOff.into(),
                _ => TransactError::NotOffered,
            });
        }
        let done = match ask {
            Ask::Limits => return Ok(Told::Limits(drive.tx_limits())),
            Ask::Begin => return Ok(Told::Begun(drive.tx_begin()?)),
            Ask::Write(tid, first, from) => {
                let mut done = at;
                for (page, bytes) in (first.0..).zip(from.chunks(PAGE)) {
                    done = done.max(drive.tx_write(at, tid, Lpn(page), Data::Write(bytes))?);
                }
                done
            }
            Ask::Read(tid, first, into) => {
                let mut done = at;
                for (page, bytes) in (first.0..).zip(into.chunks_mut(PAGE)) {
                    done = done.max(drive.tx_read(at, tid, Lpn(page), Data::Read(bytes))?);
                }
                done
            }
            Ask::Trim(tid, first, count) => drive.tx_trim(at, tid, first, count)?,
            Ask::Commit(tids) => drive.tx_commit(at, tids)?,
            Ask::Abort(tid) => drive.tx_abort(at, tid)?,
            Ask::Remap(pairs) => drive.remap(at, pairs)?,
        };
        Ok(Told::Done(self.booked(timing, at, done)))
    }

    fn read(&mut self, timing: Timing, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        let (lba, sectors) = place(at, into.len() as u64);
        self.submit(timing, Request::read(lba, sectors).with(Data::Read(into)))
    }

    fn write(&mut self, t: Timing, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        let (lba, sectors) = place(at, from.len() as u64);
        let mut request = Request::write(lba, sectors).with(Data::Write(from));
        request.fua = fua;
        self.submit(t, request)
    }
}

/// A power cut takes its moment while it has the drive: whoever was due before has asked by then, or asks after it.
impl<D: Modelled> Lives for Mutex<State<D>> {
    fn life(&self) -> u64 {
        self.lock().unwrap_or_else(PoisonError::into_inner).drive.cuts().unwrap_or(0)
    }
}

fn place(at: u64, bytes: u64) -> (Lba, Sectors) {
    (Lba(at / SECTOR_BYTES), Sectors(bytes / SECTOR_BYTES))
}

/// What is `grain` large as a whole around a range.
fn around(at: u64, bytes: usize, grain: u64) -> (u64, usize) {
    let start = at / grain * grain;
    (start, ((at + bytes as u64).next_multiple_of(grain) - start) as usize)
}

fn whole(at: u64, bytes: usize, grain: u64) -> bool {
    at.is_multiple_of(grain) && (bytes as u64).is_multiple_of(grain)
}

impl<D: Modelled> ModelDisk<D> {
    /// Serves `drive`.
    pub fn new(drive: D, timing: Timing) -> ModelDisk<D> {
        let size = drive.capacity().bytes().0;
        let (unit, epoch) = (drive.unit(), drive.now());
        let start = Instant::now();
        let state = State { drive, start, epoch, last: epoch, done: epoch };
        ModelDisk { timing, size, unit, state: Arc::new(Mutex::new(state)) }
    }

    /// Works with the drive itself, at this moment of virtual time. If that moves the drive in time
    /// (power-on begins a time of its own), the clock goes on from there.
    pub fn with<R>(&self, work: impl FnOnce(&mut D, Time) -> R) -> R {
        let mut s = self.lock();
        let (now, before) = (s.now(self.timing), s.drive.now());
        let result = work(&mut s.drive, now);
        let after = s.drive.now();
        if after != before {
            (s.start, s.epoch, s.last, s.done) = (Instant::now(), after, after, after);
        }
        result
    }

    /// Asks the drive. What it answers later is true as long as its power stays on.
    fn ask(
        &self,
        ask: impl FnOnce(&mut State<D>) -> Result<Done, DiskError>,
    ) -> Result<Done, DiskError> {
        let mut s = self.lock();
        let done = ask(&mut s)?;
        Ok(self.living(&s, done))
    }

    fn living(&self, s: &State<D>, done: Done) -> Done {
        match s.drive.cuts().filter(|_| done.due().is_some()) {
            Some(cuts) => done.within(Arc::clone(&self.state) as _, cuts),
            None => done,
        }
    }

    /// A panic in the drive is a broken rule: whoever comes next sees it again.
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn zeroes(&self, s: &mut State<D>, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        let (mut done, mut next) = (Done::NOW, at);
        while next < at + bytes {
            // Pieces end where grains do: only the first and the last may cut one.
            let stop = (next + ZEROES).next_multiple_of(ZEROES).min(at + bytes);
            done = done.and(self.put(s, next, &vec![0; (stop - next) as usize], fua)?);
            next = stop;
        }
        Ok(done)
    }

    fn put(&self, s: &mut State<D>, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        if whole(at, from.len(), s.drive.grain()) {
            return s.write(self.timing, at, from, fua);
        }
        let (start, length) = around(at, from.len(), s.drive.grain());
        let mut bytes = vec![0; length];
        let read = s.read(self.timing, start, &mut bytes)?;
        bytes[(at - start) as usize..][..from.len()].copy_from_slice(from);
        Ok(read.and(s.write(self.timing, start, &bytes, fua)?))
    }

    fn discard(&self, s: &mut State<D>, start: u64, end: u64) -> Result<Done, DiskError> {
        let (lba, sectors) = place(start, end - start);
        s.submit(self.timing, Request::discard(lba, sectors))
    }

    fn units(&self, at: u64, bytes: u64) -> (u64, u64) {
        let unit = u64::from(self.unit);
        (at.next_multiple_of(unit), (at + bytes) / unit * unit)
    }
}

impl<D: Modelled> Blocks for ModelDisk<D> {
    fn blocks(&self, most: u32) -> Option<BlocksNow> {
        self.lock().drive.blocks(most)
    }
}

impl<D: Modelled> Disk for ModelDisk<D> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: self.size,
            block: self.unit,
            atomic: self.unit.min(4096),
            volatile: true,
            trim: true,
            read_only: false,
        }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        inside(at, into.len() as u64, self.size)?;
        if into.is_empty() {
            return Ok(Done::NOW);
        }
        self.ask(|s| {
            if whole(at, into.len(), s.drive.grain()) {
                return s.read(self.timing, at, into);
            }
            let (start, length) = around(at, into.len(), s.drive.grain());
            let mut bytes = vec![0; length];
            let done = s.read(self.timing, start, &mut bytes)?;
            into.copy_from_slice(&bytes[(at - start) as usize..][..into.len()]);
            Ok(done)
        })
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        inside(at, from.len() as u64, self.size)?;
        if from.is_empty() {
            return Ok(Done::NOW);
        }
        self.ask(|s| self.put(s, at, from, fua))
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.ask(|s| s.submit(self.timing, Request::flush()))
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        inside(at, bytes, self.size)?;
        let (start, end) = self.units(at, bytes);
        if start >= end {
            return Ok(Done::NOW);
        }
        self.ask(|s| {
            let done = self.discard(s, start, end)?;
            Ok(if fua { done.and(s.submit(self.timing, Request::flush())?) } else { done })
        })
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        inside(at, bytes, self.size)?;
        if bytes == 0 {
            return Ok(Done::NOW);
        }
        let (first, last) = self.units(at, bytes);
        self.ask(|s| {
            if keep || first >= last {
                return self.zeroes(s, at, bytes, fua);
            }
            let mut done = self.zeroes(s, at, first - at, false)?;
            done = done.and(self.discard(s, first, last)?);
            done = done.and(self.zeroes(s, last, at + bytes - last, false)?);
            Ok(if fua { done.and(s.submit(self.timing, Request::flush())?) } else { done })
        })
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        let unit = u64::from(self.unit);
        !keep && at.is_multiple_of(unit) && bytes.is_multiple_of(unit)
    }
    /// A drive does not say what it has mapped.
    fn extents(&self, at: u64, bytes: u64, _most: usize) -> Result<Vec<Extent>, DiskError> {
        inside(at, bytes, self.size)?;
        Ok(vec![Extent { bytes, hole: false }])
    }
    fn transact(&self, ask: Ask<'_>) -> Result<Told, TransactError> {
        let mut s = self.lock();
        Ok(match s.transact(self.timing, ask)? {
            Told::Done(done) => Told::Done(self.living(&s, done)),
            other => other,
        })
    }
    fn close(&self) -> Result<(), DiskError> {
        Ok(self.lock().drive.stop()?)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let s = self.lock();
        let mut all = vec![("virtual_us", s.done.as_ns() / 1000)];
        all.extend(s.drive.counters());
        all
    }
}
