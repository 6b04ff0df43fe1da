//! A namespace with transactions as a device of this process alone.
//!
//! Invariants:
//! * the namespace is claimed as long as the drive is there: nobody else changes anything of it, and after a power cut
//!   nothing is read, written or flushed by what was believed before it;
//! * a connection that failed is never made again: every call from then on is an error, and of a commit that was not
//!   answered it says that nobody knows;
//! * one command is under way at a time, so each was answered before the next one leaves.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use block::{
    BlockDevice, Bytes, Data, DeviceError, Lba, LogSink, Lpn, Op, Remap, Request, SECTOR_BYTES,
    Sectors, Time, Transactional, TxError, TxId, TxLimits, UNIT_BYTES,
};

use super::codec::{Sqe, admin};
use super::initiator::{Initiator, InitiatorError, Told, Wish};
use super::log::PageLog;
use super::pdu::Digests;
use super::place::Place;
use super::status::Status;

/// Sectors of a page.
const PAGE: u64 = UNIT_BYTES / SECTOR_BYTES;
/// Transactions that are committed together, and pairs that are remapped together, at most: what a command carries. No drive
/// of ours has more transactions open.
const TOGETHER: usize = 256;
/// Milliseconds after which a controller gives up a host that is not heard of.
const ALIVE: u32 = 30_000;
/// Pages that are read together while a store is opened.
const AHEAD: u64 = 32;
/// Blocks of one range that is deallocated.
const RANGE: u64 = 1 << 31;

const NO_TRANSACTIONS: &str =
    "it has no transactions (a drive of varve has them with tx.mode=nolog and nand.oob=full)";

/// Why a namespace cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Another host has claimed it.
    #[error("{place}: claimed by another host (controller {cntlid})")]
    InUse {
        /// Which namespace.
        place: Place,
        /// The other host's controller.
        cntlid: u64,
    },
    /// It lacks something.
    #[error("{place}: {what}")]
    Unfit {
        /// Which namespace.
        place: Place,
        /// What.
        what: &'static str,
    },
    /// The controller, or the way to it.
    #[error("{place}: {error}")]
    Host {
        /// Which namespace.
        place: Place,
        /// Why.
        error: InitiatorError,
    },
}

/// A host, and whether its connection has failed.
#[derive(Debug)]
pub(super) struct Wire {
    place: Place,
    lost: Mutex<Option<String>>,
    /// Nothing was changed since the namespace was claimed.
    fresh: AtomicBool,
}

impl Wire {
    /// Whether commands may still be sent.
    pub(super) fn check(&self) -> Result<(), DeviceError> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let why = lost.as_ref().map(|why| format!("{}: lost before: {why}", self.place));
        why.map_or(Ok(()), |why| Err(DeviceError::Io(why)))
    }

    /// Something is about to be changed.
    pub(super) fn touch(&self) {
        self.fresh.store(false, Ordering::Relaxed);
    }

    fn is_fresh(&self) -> bool {
        self.fresh.load(Ordering::Relaxed)
    }

    fn lose(&self, why: &InitiatorError) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get_or_insert_with(|| why.to_string());
    }

    /// A device's error for what came of a command at `lba`. What is no status ends the connection.
    pub(super) fn error(&self, error: InitiatorError, lba: Lba) -> DeviceError {
        let InitiatorError::Failed { status, .. } = error else {
            self.lose(&error);
            return DeviceError::Io(format!("{}: {error}", self.place));
        };
        match status {
            Status::CAPACITY => DeviceError::NoSpace("the drive behind the wire has none left"),
            Status::WRITE_PROTECTED => DeviceError::ReadOnly("the namespace is write protected"),
            Status::UNREADABLE => DeviceError::Unreadable(lba),
            Status::TX_CONFLICT => DeviceError::InTransaction(lba),
            Status::RESERVED => {
                DeviceError::Io(format!("{}: another host has claimed it", self.place))
            }
            Status::CLAIM_VOID => {
                DeviceError::Io(format!("{}: its power went; it must be opened anew", self.place))
            }
            _ => DeviceError::Io(format!("{}: {error}", self.place)),
        }
    }
}

/// Tells the controller that the host lives, while nobody asks for anything.
#[derive(Debug)]
struct KeepAlive {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAlive {
    fn start(host: Arc<Mutex<Initiator>>, wire: Arc<Wire>) -> std::io::Result<KeepAlive> {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let ends = Arc::clone(&over);
        let body = move || {
            let every = Duration::from_millis(u64::from(ALIVE / 3));
            loop {
                let ended = ends.0.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = ends.1.wait_timeout_while(ended, every, |ended| !*ended);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 || wire.check().is_err() {
                    return;
                }
                let asked = lock(&host).admin.done(Sqe::new(admin::KEEP_ALIVE, 0), &[], 0);
                if let Err(error) = asked {
                    wire.lose(&error);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("nvme-keep-alive".to_string()).spawn(body)?;
        Ok(KeepAlive { over, thread: Some(thread) })
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say but that it ended.
            let _ = thread.join();
        }
    }
}

fn lock(host: &Mutex<Initiator>) -> MutexGuard<'_, Initiator> {
    host.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module.
#[derive(Debug)]
pub struct Drive {
    wire: Arc<Wire>,
    host: Arc<Mutex<Initiator>>,
    of: Told,
    limits: (u32, u32, u64),
    /// Transactions that are open.
    open: BTreeSet<TxId>,
    next: TxId,
    log: Option<Arc<PageLog>>,
    /// Pages that were read ahead, and the first of them: who opens a store reads its table and its log page by page.
    ahead: (u64, Vec<u8>),
    _alive: KeepAlive,
}

impl Drive {
    /// Connects, and claims the namespace.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn connect(place: &Place) -> Result<Drive, DriveError> {
        let failed = |error| DriveError::Host { place: place.clone(), error };
        let unfit = |what| DriveError::Unfit { place: place.clone(), what };
        let mut host = host(place).map_err(failed)?;
        let of = host.namespaces.iter().find(|told| told.nsid == place.nsid).copied();
        let of = of.ok_or_else(|| unfit("the subsystem has no such namespace"))?;
        let limits = of.transactions.filter(|_| 1 << of.shift == UNIT_BYTES);
        let limits = limits.ok_or_else(|| unfit(NO_TRANSACTIONS))?;
        if of.read_only {
            return Err(unfit("it may only be read"));
        }
        if !host.offers_claims() {
            return Err(unfit("it cannot be claimed, so two writers could not be kept apart"));
        }
        match host.claim(of, true) {
            Ok(()) => {}
            Err(InitiatorError::Failed { status: Status::CLAIMED, result, .. }) => {
                return Err(DriveError::InUse { place: place.clone(), cntlid: result });
            }
            Err(InitiatorError::Failed { status: Status::INVALID_OPCODE, .. }) => {
                return Err(unfit(NO_TRANSACTIONS));
            }
            Err(error) => return Err(failed(error)),
        }
        let wire = Arc::new(Wire {
            place: place.clone(),
            lost: Mutex::default(),
            fresh: AtomicBool::new(true),
        });
        let transfer = host.transfer();
        let second = (host.queues.len() > 1).then(|| host.queues.pop()).flatten();
        let log = second.map(|line| Arc::new(PageLog::new(Arc::clone(&wire), line, of, transfer)));
        let host = Arc::new(Mutex::new(host));
        let alive = KeepAlive::start(Arc::clone(&host), Arc::clone(&wire));
        let alive = alive.map_err(|error| failed(error.into()))?;
        let (open, next) = (BTreeSet::new(), TxId(0));
        let ahead = (0, Vec::new());
        Ok(Drive { wire, host, of, limits, open, next, log, ahead, _alive: alive })
    }

    /// Asks for something at `lba`, if the connection lives.
    fn ask<R>(
        &self,
        lba: Lba,
        ask: impl FnOnce(&mut Initiator, Told) -> Result<R, InitiatorError>,
    ) -> Result<R, DeviceError> {
        self.wire.check()?;
        ask(&mut lock(&self.host), self.of).map_err(|error| self.wire.error(error, lba))
    }

    /// Reads one page, and those behind it as long as nothing was changed: then they can wait here.
    fn read_page(&mut self, page: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let lba = Lba(page * PAGE);
        if !self.wire.is_fresh() {
            self.ahead = (0, Vec::new());
            let found = self.ask(lba, |host, of| host.read(of, page, 1))?;
            out.copy_from_slice(&found);
            return Ok(());
        }
        self.wire.check()?;
        let (first, bytes) = (self.ahead.0, self.ahead.1.len() as u64);
        if page < first || page >= first + bytes / UNIT_BYTES {
            let count = AHEAD.min(self.of.blocks - page);
            self.ahead = (page, self.ask(lba, |host, of| host.read(of, page, count))?);
        }
        let at = ((page - self.ahead.0) * UNIT_BYTES) as usize;
        out.copy_from_slice(&self.ahead.1[at..at + UNIT_BYTES as usize]);
        Ok(())
    }

    /// The same in a transaction.
    fn ask_in<R>(
        &mut self,
        tid: TxId,
        page: Lpn,
        ask: impl FnOnce(&mut Initiator, Told) -> Result<R, InitiatorError>,
    ) -> Result<R, TxError> {
        self.wire.check()?;
        self.wire.touch();
        let asked = ask(&mut lock(&self.host), self.of);
        asked.map_err(|error| self.refused(error, tid, page))
    }

    /// What a transaction is told.
    fn refused(&mut self, error: InitiatorError, tid: TxId, page: Lpn) -> TxError {
        if let InitiatorError::Failed { status, result, .. } = &error {
            let result = *result;
            match *status {
                Status::TX_FULL => return TxError::Full(result as u32),
                Status::TX_CONFLICT => return TxError::Conflict { page, owner: TxId(result) },
                Status::TX_TOO_MANY => return TxError::TooManyOpen(result as u32),
                Status::TX_SPAN => {
                    let oldest = self.open.first().copied().unwrap_or(TxId(0));
                    return TxError::Span { oldest, span: result };
                }
                Status::TX_UNKNOWN => {
                    self.open.remove(&tid);
                    return TxError::Unknown(tid);
                }
                _ => {}
            }
        }
        self.wire.error(error, Lba(u64::from(page.0) * PAGE)).into()
    }
}

/// Ends what it has open, and gives the namespace back; of a connection that failed the controller does that by itself.
impl Drop for Drive {
    fn drop(&mut self) {
        let (open, of) = (std::mem::take(&mut self.open), self.of);
        let ended =
            open.into_iter().try_for_each(|tid| self.ask(Lba(0), |h, _| h.tx_abort(of, tid)));
        if ended.is_ok() {
            // Whatever comes of it, the connection ends here.
            let _ = self.ask(Lba(0), |host, of| host.claim(of, false));
        }
    }
}

/// Connects, with digests where the controller has any.
fn host(place: &Place) -> Result<Initiator, InitiatorError> {
    let with = |digests| {
        let wish = Wish { queues: 2, alive: ALIVE, digests, ..Wish::default() };
        place.connect(wish).map(|(host, _)| host)
    };
    match with(Digests::both(true)) {
        Err(InitiatorError::Terminated(..) | InitiatorError::Protocol(_)) => {
            with(Digests::both(false))
        }
        connected => connected,
    }
}

/// Pages of a request.
fn pages(request: &Request<'_>) -> Result<(u64, u64), DeviceError> {
    let (first, count) = (request.lba.0, request.sectors.0);
    if first.is_multiple_of(PAGE) && count.is_multiple_of(PAGE) {
        return Ok((first / PAGE, count / PAGE));
    }
    Err(DeviceError::Unsupported("a part of a page: the namespace has blocks of 4096 bytes"))
}

const NO_BYTES: DeviceError = DeviceError::Unsupported("a request without bytes, over a wire");

impl BlockDevice for Drive {
    fn capacity(&self) -> Sectors {
        Sectors(self.of.blocks * PAGE)
    }

    fn atomic_unit(&self) -> Bytes {
        Bytes(UNIT_BYTES)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        let (first, count) = pages(&request)?;
        let bytes = (count * UNIT_BYTES) as usize;
        if request.op != Op::Read {
            self.wire.touch();
        }
        match (request.op, request.data) {
            (Op::Flush, _) => self.ask(lba, |host, of| host.flush(of))?,
            (Op::Discard, _) => {
                for from in (first..first + count).step_by(RANGE as usize) {
                    let now = RANGE.min(first + count - from) as u32;
                    self.ask(lba, |host, of| host.deallocate(of, from, now))?;
                }
            }
            (Op::Read, Data::Read(out)) if out.len() == bytes && count == 1 => {
                self.read_page(first, out)?;
            }
            (Op::Read, Data::Read(out)) if out.len() == bytes => {
                let found = self.ask(lba, |host, of| host.read(of, first, count))?;
                out.copy_from_slice(&found);
            }
            (Op::Write, Data::Write(data)) if data.len() == bytes => {
                self.ask(lba, |host, of| host.write(of, first, data, request.fua))?;
            }
            _ => return Err(NO_BYTES),
        }
        Ok(at)
    }
}

impl Transactional for Drive {
    fn tx_limits(&self) -> TxLimits {
        let (max_open, pages, span) = self.limits;
        TxLimits { max_open, pages, span, next: self.next }
    }

    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        let tid = self.ask_in(TxId(0), Lpn(0), |host, of| host.tx_begin(of))?;
        self.open.insert(tid);
        self.next = TxId(tid.0 + 1);
        Ok(tid)
    }

    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        let Data::Write(bytes) = data else { return Err(NO_BYTES.into()) };
        self.ask_in(tid, page, |host, of| host.tx_write(of, tid, u64::from(page.0), bytes))?;
        Ok(at)
    }

    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        let end = u64::from(first.0) + u64::from(count);
        for from in (u64::from(first.0)..end).step_by(1 << 16) {
            let now = (end - from).min(1 << 16);
            self.ask_in(tid, first, |host, of| host.tx_trim(of, tid, from, now))?;
        }
        Ok(at)
    }

    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        let Data::Read(out) = data else { return Err(NO_BYTES.into()) };
        let read = |host: &mut Initiator, of| host.tx_read(of, tid, u64::from(page.0), 1);
        let found = self.ask_in(tid, page, read)?;
        if found.len() != out.len() {
            let what = format!("{} bytes of {}", found.len(), out.len());
            let error = InitiatorError::Protocol(what);
            return Err(self.wire.error(error, Lba(u64::from(page.0) * PAGE)).into());
        }
        out.copy_from_slice(&found);
        Ok(at)
    }

    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        let Some(first) = tids.first().copied() else { return Ok(at) };
        if tids.len() > TOGETHER {
            let what = "more than 256 transactions in one commit, over a wire";
            return Err(DeviceError::Unsupported(what).into());
        }
        let asked = self.ask_in(first, Lpn(0), |host, of| host.tx_commit(of, tids));
        asked.map_err(|error| match error {
            // It may have been done, and nobody will ever hear of it.
            TxError::Device(DeviceError::Io(why)) => {
                DeviceError::Io(format!("{why}; nobody knows what came of the commit")).into()
            }
            error => error,
        })?;
        self.open.retain(|tid| !tids.contains(tid));
        Ok(at)
    }

    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.ask_in(tid, Lpn(0), |host, of| host.tx_abort(of, tid))?;
        self.open.remove(&tid);
        Ok(at)
    }

    fn log_on_pages(&self, first: Lpn) -> Option<Arc<dyn LogSink>> {
        let log = self.log.as_ref()?;
        Some(Arc::new(log.beginning_at(first)))
    }
}

impl Remap for Drive {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        let Some((first, _)) = pairs.first().copied() else { return Ok(at) };
        if pairs.len() > TOGETHER {
            // All of them together, or none: they cannot be sent in parts.
            let what = "more than 256 pages in one remapping, over a wire";
            return Err(DeviceError::Unsupported(what).into());
        }
        let pairs: Vec<(u64, u64)> =
            pairs.iter().map(|(to, from)| (u64::from(to.0), u64::from(from.0))).collect();
        self.ask_in(TxId(0), first, |host, of| host.remap(of, &pairs))?;
        Ok(at)
    }

    fn remap_most(&self) -> usize {
        TOGETHER
    }
}
