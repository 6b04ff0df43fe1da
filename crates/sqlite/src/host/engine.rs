//! The compared systems: SQLite's calls in, requests to the device out.
//!
//! Invariants:
//! * virtual time never falls, and a call that SQLite waits for ends when the device has answered;
//! * a plain page reaches the device when its file is synced, once however often it was written:
//!   the host's page cache; what is cut off before that never does;
//! * a page of a transaction is written under its number and committed at
//!   `SQLITE_FCNTL_COMMIT_PHASETWO`; grouped ones are gathered, one copy a page, in whole
//!   transactions.
//!
//! Data is not moved: the files' bytes are SQLite's own, the device keeps maps and times.

use std::collections::BTreeSet;

use block::{Data, DeviceError, Lba, Lpn, Request, Sectors, Span, StreamId, Time, TxError, TxId};
use varve_sqlite_vfs::vfs::Kind;

use super::Below;
use super::log::parts;
use crate::files::Heard;

const PAGE: u64 = 4096;
const SECTORS: u64 = 8;

/// How SQLite's files reach the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// As files of a file system: Base-WAL, and the rollback journal.
    Files,
    /// SW-WAL: page images aligned in the log, a checkpoint moves them by changing the map. With
    /// `headers` the frames' headers are pages of their own, else they cost nothing.
    Remapped {
        /// Whether headers are written.
        headers: bool,
    },
    /// Transactions of the device, no log; with a number, gathered until so many page writes.
    Transactions(Option<u64>),
}

/// Where the files lie on the device, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// First page of the database.
    pub database: u32,
    /// Pages it may have.
    pub pages: u32,
    /// Pages behind it for the log or the journal, as many again for the log's headers.
    pub log: u32,
}

impl Layout {
    /// Pages of the whole.
    pub const fn total(&self) -> u32 {
        self.database + self.pages + 2 * self.log
    }
}

/// What a run has cost.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Pages of the database written.
    pub data: u64,
    /// Pages of the log or journal written.
    pub log: u64,
    /// Pages of the log's headers written.
    pub headers: u64,
    /// Pages moved by changing the map.
    pub remapped: u64,
    /// Pages read.
    pub reads: u64,
    /// Transactions of the device.
    pub commits: u64,
    /// Flushes.
    pub flushes: u64,
    /// Until the log's pages were written, and until they were durable.
    pub log_write: Span,
    /// See `log_write`.
    pub log_sync: Span,
    /// Until the database's pages were written, a checkpoint's reads among it, and until they
    /// were durable.
    pub data_write: Span,
    /// See `data_write`.
    pub data_sync: Span,
    /// Reads outside checkpoints.
    pub read: Span,
    /// How long each operation took, in its order.
    pub operations: Vec<Span>,
    /// How long all took.
    pub total: Span,
}

impl Tally {
    /// Pages written for the host.
    pub fn pages(&self) -> u64 {
        self.data + self.log + self.headers
    }
}

/// A host over a device.
pub struct Engine {
    device: Box<dyn Below>,
    system: System,
    layout: Layout,
    /// Whether the host's page cache holds all files: else SQLite's reads reach the device, a
    /// checkpoint's of the log among them.
    cached: bool,
    /// Host time of an operation.
    cpu: Span,
    now: Time,
    since: Time,
    started: Time,
    dirty: [BTreeSet<u32>; 3],
    tid: Option<TxId>,
    gathered: BTreeSet<u32>,
    writes: u64,
    /// Inside a checkpoint: the frame read last, and the pairs found so far.
    checkpoint: Option<Option<u32>>,
    pairs: Vec<(Lpn, Lpn)>,
    /// Why a call was refused.
    tally: Tally,
}

/// Areas of the layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    Database = 0,
    Log = 1,
    Headers = 2,
}

impl Area {
    /// What its writes are hinted to be: a log dies at the next checkpoint.
    fn stream(self) -> StreamId {
        StreamId(match self {
            Area::Database => 1,
            Area::Log | Area::Headers => 2,
        })
    }
}

impl Engine {
    /// A host over `device` that takes `cpu` for each operation.
    pub fn new(device: Box<dyn Below>, system: System, layout: Layout, cpu: Span) -> Engine {
        Engine {
            device,
            system,
            layout,
            cached: true,
            cpu,
            now: Time::ZERO,
            since: Time::ZERO,
            started: Time::ZERO,
            dirty: Default::default(),
            tid: None,
            gathered: BTreeSet::new(),
            writes: 0,
            checkpoint: None,
            pairs: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// The same host at a later time: a drive that has been used has a clock of its own.
    pub fn at(mut self, now: Time) -> Engine {
        self.now = now;
        self.start();
        self
    }

    /// The same host without a page cache: every read of SQLite's is the device's.
    pub fn uncached(mut self) -> Engine {
        self.cached = false;
        self
    }

    /// What SQLite has done since the last time, in its order.
    ///
    /// # Errors
    /// The device's; the run is worth nothing then.
    pub fn hear(&mut self, calls: &[(Kind, Heard)]) -> Result<(), TxError> {
        calls.iter().try_for_each(|(kind, call)| self.serve(*kind, *call))
    }

    /// An operation is over: the host's own time passes.
    pub fn operation(&mut self) {
        self.now += self.cpu;
        self.tally.operations.push(self.now.since(self.since));
        self.since = self.now;
    }

    /// Starts measuring here.
    pub fn start(&mut self) {
        self.device.reset();
        self.tally = Tally::default();
        self.started = self.now;
        self.since = self.now;
    }

    /// Sends down what the host still holds.
    ///
    /// # Errors
    /// The device's.
    pub fn finish(&mut self) -> Result<(), TxError> {
        self.sync_log()?;
        self.write_back(Area::Database)?;
        self.end_group()?;
        self.tally.total = self.now.since(self.started);
        Ok(())
    }

    /// What it has cost since the start.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The device.
    pub fn device(&self) -> &dyn Below {
        &*self.device
    }

    fn place(&self, area: Area, page: u64) -> Result<Lpn, DeviceError> {
        let (first, pages) = match area {
            Area::Database => (self.layout.database, self.layout.pages),
            Area::Log => (self.layout.database + self.layout.pages, self.layout.log),
            Area::Headers => {
                (self.layout.database + self.layout.pages + self.layout.log, self.layout.log)
            }
        };
        match page < u64::from(pages) {
            true => Ok(Lpn(first + page as u32)),
            false => Err(DeviceError::NoSpace("a file is larger than its area")),
        }
    }

    /// Marks pages of a file as written in the host's cache.
    fn dirty(&mut self, area: Area, first: u64, last: u64) -> Result<(), DeviceError> {
        for page in first..=last {
            let page = self.place(area, page)?;
            self.dirty[area as usize].insert(page.0);
        }
        Ok(())
    }

    /// Writes an area's dirty pages, then flushes.
    fn write_back(&mut self, area: Area) -> Result<(), TxError> {
        let dirty = std::mem::take(&mut self.dirty[area as usize]);
        if dirty.is_empty() && self.pairs.is_empty() {
            return Ok(());
        }
        let start = self.now;
        let mut written = start;
        for page in &dirty {
            let request = Request::write(Lba(u64::from(*page) * SECTORS), Sectors(SECTORS));
            let request = request.of_stream(area.stream());
            written = written.max(self.device.submit(start, request)?);
        }
        if area == Area::Database && !self.pairs.is_empty() {
            let pairs = std::mem::take(&mut self.pairs);
            written = written.max(self.device.remap(written, &pairs)?);
            self.tally.remapped += pairs.len() as u64;
        }
        let synced = self.device.submit(written, Request::flush())?.max(written);
        self.tally.flushes += 1;
        let count = dirty.len() as u64;
        let (write, sync) = (written.since(start), synced.since(written));
        match area {
            Area::Database => {
                self.tally.data += count;
                self.tally.data_write += write;
                self.tally.data_sync += sync;
            }
            Area::Log | Area::Headers => {
                match area {
                    Area::Log => self.tally.log += count,
                    _ => self.tally.headers += count,
                }
                self.tally.log_write += write;
                self.tally.log_sync += sync;
            }
        }
        self.now = synced;
        Ok(())
    }

    /// A log of aligned images and headers apart is made durable by one flush.
    fn sync_log(&mut self) -> Result<(), TxError> {
        let headers = std::mem::take(&mut self.dirty[Area::Headers as usize]);
        let count = headers.len() as u64;
        self.dirty[Area::Log as usize].extend(headers);
        self.write_back(Area::Log)?;
        self.tally.headers += count;
        self.tally.log -= count;
        Ok(())
    }

    fn write(&mut self, kind: Kind, at: u64, bytes: u64) -> Result<(), TxError> {
        let (first, last) = (at / PAGE, (at + bytes - 1) / PAGE);
        match (kind, self.system) {
            (Kind::Database, System::Transactions(None)) => self.write_transaction(first, last)?,
            (Kind::Database, System::Transactions(Some(_))) => {
                for page in first..=last {
                    let page = self.place(Area::Database, page)?;
                    self.gathered.insert(page.0);
                    self.writes += 1;
                }
            }
            (Kind::Database, System::Remapped { .. }) if bytes == PAGE => {
                match self.checkpoint.as_mut().and_then(Option::take) {
                    Some(frame) => {
                        let from = self.place(Area::Log, u64::from(frame))?;
                        self.pairs.push((self.place(Area::Database, first)?, from));
                    }
                    None => self.dirty(Area::Database, first, last)?,
                }
            }
            (Kind::Database, _) => self.dirty(Area::Database, first, last)?,
            (Kind::Wal, System::Remapped { headers }) => {
                let parts = parts(at, bytes);
                if let Some(pages) = parts.headers.filter(|_| headers) {
                    self.dirty(Area::Headers, *pages.start(), *pages.end())?;
                }
                if let Some(frames) = parts.images {
                    self.dirty(Area::Log, *frames.start(), *frames.end())?;
                }
            }
            (Kind::Wal | Kind::Journal, _) => self.dirty(Area::Log, first, last)?,
            (Kind::Super | Kind::Temp, _) => {}
        }
        Ok(())
    }

    fn write_transaction(&mut self, first: u64, last: u64) -> Result<(), TxError> {
        let tid = match self.tid {
            Some(tid) => tid,
            None => *self.tid.insert(self.device.tx_begin()?),
        };
        let start = self.now;
        for page in first..=last {
            let page = self.place(Area::Database, page)?;
            let end = self.device.tx_write(start, tid, page, Data::None)?;
            self.now = self.now.max(end);
            self.tally.data += 1;
        }
        self.tally.data_write += self.now.since(start);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), TxError> {
        match self.system {
            System::Transactions(None) => match self.tid.take() {
                Some(tid) => self.commit_now(tid),
                None => Ok(()),
            },
            System::Transactions(Some(group)) if self.writes >= group => self.end_group(),
            _ => Ok(()),
        }
    }

    fn commit_now(&mut self, tid: TxId) -> Result<(), TxError> {
        let start = self.now;
        self.now = self.device.tx_commit(start, &[tid])?.max(start);
        self.tally.data_sync += self.now.since(start);
        self.tally.commits += 1;
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), TxError> {
        self.writes = 0;
        let pages = std::mem::take(&mut self.gathered);
        if pages.is_empty() {
            return Ok(());
        }
        let tid = self.device.tx_begin()?;
        let start = self.now;
        let mut written = start;
        for page in &pages {
            let end = self.device.tx_write(start, tid, Lpn(*page), Data::None)?;
            written = written.max(end);
        }
        self.tally.data += pages.len() as u64;
        self.tally.data_write += written.since(start);
        self.now = written;
        self.commit_now(tid)
    }

    fn read(&mut self, kind: Kind, at: u64, bytes: u64) -> Result<(), TxError> {
        let remapped = matches!(self.system, System::Remapped { .. });
        if let Some(frame) = self.checkpoint.as_mut()
            && kind == Kind::Wal
            && bytes == PAGE
            && remapped
        {
            // The map is changed instead: nothing is read.
            *frame = parts(at, bytes).images.map(|frames| *frames.end() as u32);
            return Ok(());
        }
        let area = match kind {
            Kind::Database => Area::Database,
            Kind::Wal | Kind::Journal => Area::Log,
            Kind::Super | Kind::Temp => return Ok(()),
        };
        if self.cached {
            return Ok(());
        }
        let first = if remapped && area == Area::Log {
            parts(at, bytes).images.map_or(0, |frames| *frames.start())
        } else {
            at / PAGE
        };
        let page = self.place(area, first)?;
        let start = self.now;
        let request = Request::read(Lba(u64::from(page.0) * SECTORS), Sectors(SECTORS));
        self.now = self.device.submit(start, request)?.max(start);
        self.tally.reads += 1;
        let span = self.now.since(start);
        match self.checkpoint {
            Some(_) => self.tally.data_write += span,
            None => self.tally.read += span,
        }
        Ok(())
    }

    /// Pages that were cut off never reach the device.
    fn cut(&mut self, kind: Kind, size: u64) {
        let (area, first) = match kind {
            Kind::Database => (Area::Database, self.layout.database),
            Kind::Wal | Kind::Journal => (Area::Log, self.layout.database + self.layout.pages),
            Kind::Super | Kind::Temp => return,
        };
        let remapped = matches!(self.system, System::Remapped { .. });
        let keep = match (area, remapped) {
            (Area::Log, true) => parts(0, size.max(1)).images.map_or(0, |frames| frames.end() + 1),
            _ => size.div_ceil(PAGE),
        };
        self.dirty[area as usize].split_off(&(first + keep as u32));
        if area == Area::Log && size == 0 {
            self.dirty[Area::Headers as usize].clear();
        }
    }

    fn serve(&mut self, kind: Kind, call: Heard) -> Result<(), TxError> {
        match call {
            Heard::Read(at, bytes) => self.read(kind, at, bytes)?,
            Heard::Write(at, bytes) => self.write(kind, at, bytes)?,
            Heard::Cut(size) => self.cut(kind, size),
            Heard::Sync => match (kind, self.system) {
                (Kind::Database, System::Transactions(_)) => {}
                (Kind::Database, _) => self.write_back(Area::Database)?,
                (Kind::Wal, System::Remapped { .. }) => self.sync_log()?,
                (Kind::Wal | Kind::Journal, _) => self.write_back(Area::Log)?,
                (Kind::Super | Kind::Temp, _) => {}
            },
            Heard::Commit => self.commit()?,
            Heard::CheckpointStart => self.checkpoint = Some(None),
            Heard::CheckpointDone => self.checkpoint = None,
        }
        Ok(())
    }
}
