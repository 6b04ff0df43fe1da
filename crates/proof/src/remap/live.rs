//! The live shell of a host log over a disk whose power can be cut: the code that ships, by threads that
//! take turns.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use block::{
    BlockDevice, Data, DeviceError, Lba, Medium, Op, Request, SECTOR_BYTES, Sectors, Time,
};
use remap::live::{Around, LiveError, Turns};
use remap::{LiveLog, LogError, LogOptions, MediumStore, check_store, recover};

use crate::remap::turns::Table;
use crate::shared::SharedDisk;

/// A disk that many threads reach, in the time of a table.
#[derive(Debug)]
struct Reached {
    disk: SharedDisk,
    table: Arc<Table>,
}

fn failed(error: DeviceError) -> io::Error {
    io::Error::other(error.to_string())
}

impl Reached {
    fn submit(&self, request: Request<'_>) -> io::Result<Time> {
        self.disk.get().submit(self.table.clock(), request).map_err(failed)
    }
}

fn place(at: u64, bytes: u64) -> (Lba, Sectors) {
    (Lba(at / SECTOR_BYTES), Sectors(bytes / SECTOR_BYTES))
}

impl Medium for Reached {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let (lba, sectors) = place(at, out.len() as u64);
        let done = self.submit(Request::read(lba, sectors).with(Data::Read(out)))?;
        self.table.waits_for(done, 8);
        Ok(())
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (lba, sectors) = place(at, bytes.len() as u64);
        let done = self.submit(Request::write(lba, sectors).with(Data::Write(bytes)))?;
        self.table.waits_for(done, 1);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        let done = self.submit(Request::flush())?;
        self.table.waits_for(done, 1);
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.get().capacity().0 * SECTOR_BYTES)
    }
    /// Nobody waits for it, and it is asked for with a lock held: no turn passes.
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        let (lba, sectors) = place(at, bytes);
        self.submit(Request::discard(lba, sectors)).map(|_| ())
    }
    fn discard_is_fast(&self) -> bool {
        true
    }
}

/// A live log with its keeper.
pub(crate) struct LiveStack {
    log: Arc<LiveLog>,
    medium: Arc<Reached>,
    table: Arc<Table>,
    keeper: Option<JoinHandle<Result<(), String>>>,
    options: LogOptions,
    /// Blocks that the log had counted when it was started less those that the disk had got (C8).
    before: i64,
    /// Blocks that the client's requests wrote since; `None` after one that failed.
    admitted: Option<u64>,
    /// Those that were counted before.
    user: u64,
}

/// Blocks of 4 KiB that an access touches.
fn touched(at: u64, bytes: u64) -> u64 {
    (at + bytes).div_ceil(block::UNIT_BYTES) - at / block::UNIT_BYTES
}

impl LiveStack {
    /// Starts a log that `make` formats or opens.
    pub fn start(
        disk: SharedDisk,
        options: &LogOptions,
        seed: u64,
        make: impl FnOnce(Arc<dyn Medium>, Around) -> Result<LiveLog, LogError>,
    ) -> Result<LiveStack, LogError> {
        let table = Table::new(seed);
        let medium = Arc::new(Reached { disk, table: table.clone() });
        let turns: Arc<dyn Turns> = table.clone();
        let log = Arc::new(make(medium.clone(), Around { say: |_| (), turns: Some(turns) })?);
        let keeper = (!log.is_read_only()).then(|| table.keep(&log));
        let (counted, user) = log.with_engine(|e| (e.counters().written(), e.taken()));
        let got = medium.disk.get().written().0 * SECTOR_BYTES / block::UNIT_BYTES;
        let (before, admitted, options) = (counted as i64 - got as i64, Some(0), options.clone());
        Ok(LiveStack { log, medium, table, keeper, options, before, admitted, user })
    }

    /// Runs several clients beside each other. What they write is not counted.
    pub fn several<R: Send>(&mut self, programs: Vec<impl FnOnce(&LiveLog) -> R + Send>) -> Vec<R> {
        self.admitted = None;
        let log: &LiveLog = &self.log;
        self.table.several(programs.into_iter().map(|program| move || program(log)).collect())
    }

    pub fn read_only(&self) -> Option<String> {
        self.log.with_engine(|engine| engine.read_only().map(str::to_string))
    }

    pub fn now(&self) -> Time {
        self.table.clock()
    }

    /// One request of the client, and some turns of the keeper after it.
    pub fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.table.late(at);
        let (lba, op) = (request.lba, request.op);
        let blocks = touched(lba.0 * SECTOR_BYTES, request.sectors.0 * SECTOR_BYTES);
        let answer = self.request(request);
        if op != Op::Read {
            let blocks = if op == Op::Write { blocks } else { 0 };
            self.admitted = self.admitted.filter(|_| answer.is_ok()).map(|n| n + blocks);
        }
        let done = self.table.clock();
        self.table.pause();
        answer.map(|()| done).map_err(|error| match error {
            LiveError::NoSpace(_) => DeviceError::NoSpace("cleaning the log gains nothing"),
            LiveError::Damaged(_) => DeviceError::Unreadable(lba),
            other => DeviceError::Io(other.to_string()),
        })
    }

    fn request(&self, request: Request<'_>) -> Result<(), LiveError> {
        let (at, bytes) = (request.lba.0 * SECTOR_BYTES, request.sectors.0 * SECTOR_BYTES);
        let read_only = self.log.is_read_only();
        match (request.op, request.data) {
            (Op::Read, Data::Read(out)) => return self.log.read(at, out),
            (Op::Read, _) => return self.log.read(at, &mut vec![0; bytes as usize]),
            _ if read_only => return Err(io::Error::other("read-only").into()),
            (Op::Write, Data::Write(bytes)) => self.log.write(at, bytes)?,
            (Op::Write, _) => self.log.write(at, &vec![0; bytes as usize])?,
            (Op::Discard, _) => self.log.trim(at, bytes)?,
            (Op::Flush, _) => return self.log.flush(),
        }
        if request.fua { self.log.flush() } else { Ok(()) }
    }

    pub fn check(&self) -> Result<(), LogError> {
        if self.keeper.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err(LogError::Broken("the keeper of the log died".to_string()));
        }
        self.log.check()?;
        self.check_counts()
    }

    /// What the log counts is what the disk got, and what of it is the user's is what was asked for (C8).
    fn check_counts(&self) -> Result<(), LogError> {
        let Some(unsent) = self.log.unsent() else { return Ok(()) };
        let (counters, taken) = self.log.with_engine(|e| (*e.counters(), e.taken()));
        let got = self.medium.disk.get().written().0 * SECTOR_BYTES / block::UNIT_BYTES;
        if counters.written() as i64 - self.before != (got + unsent) as i64 {
            return Err(LogError::Broken(format!(
                "{got} blocks written, {unsent} unsent, {counters:?}"
            )));
        }
        match self.admitted.map(|blocks| self.user + blocks) {
            Some(user) if user != taken => {
                Err(LogError::Broken(format!("requests wrote {user} blocks, {counters:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Flushes, then compares the map with what recovery would build (I7), and checks every CRC.
    /// `None` if the keeper could not be kept quiet for so long.
    pub fn check_media(&mut self) -> Option<Result<(), String>> {
        self.table.let_alone(true);
        let flushed = self.log.flush();
        // It may have had to wait for the keeper.
        self.table.let_alone(true);
        let quiet = self.log.with_engine(|engine| !engine.dirty());
        let found = (flushed.is_ok() && quiet).then(|| self.compare());
        self.table.let_alone(false);
        found
    }

    fn compare(&self) -> Result<(), String> {
        let text = |error: LogError| error.to_string();
        let options = LogOptions { map_memory: block::Bytes(0), ..self.options.clone() };
        let mut store = MediumStore(self.medium.clone());
        let rebuilt =
            recover(&mut store, &options, false, block::Plant::default()).map_err(text)?;
        let report = check_store(&mut store, &options).map_err(text)?;
        if !report.damaged.is_empty() {
            return Err(format!("damaged blocks {:?}", report.damaged));
        }
        if self.options.map_memory.0 != 0 {
            // What of the map is in memory is part of it.
            return Ok(());
        }
        self.log.with_engine(|engine| {
            for lpn in (0..engine.geometry().logical).map(block::Lpn) {
                let (here, there) = (engine.lookup(lpn), rebuilt.engine.lookup(lpn));
                if here != there || engine.crc(lpn) != rebuilt.engine.crc(lpn) {
                    return Err(format!(
                        "block {lpn}: {here:?} in memory, {there:?} on the device"
                    ));
                }
            }
            Ok(())
        })
    }

    /// A clean stop.
    pub fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.table.late(at);
        self.end_keeper().map_err(DeviceError::Io)?;
        self.log.close().map_err(|error| DeviceError::Io(error.to_string()))?;
        Ok(self.table.clock())
    }

    fn end_keeper(&mut self) -> Result<(), String> {
        self.log.stop();
        self.table.see_off();
        match self.keeper.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(what))) => Err(what),
            Some(Err(_)) => Err("the keeper of the log died".to_string()),
        }
    }
}

impl Drop for LiveStack {
    fn drop(&mut self) {
        // What it said was asked for by who wanted to know.
        let _ended = self.end_keeper();
    }
}
