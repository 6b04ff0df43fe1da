//! One host that is connected: its controller's registers and features, its queues, what it is to hear of,
//! and the transactions that it has open.
//!
//! Invariants: the admin queue owns the association: it ends with it. A transaction belongs to the host
//! that began it: nobody else can use its number, and he cannot when the power has gone since (a drive gives numbers again that left no
//! trace on it). Once the association is over nothing is done for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::TxId;

use super::codec::Sqe;
use super::pdu::put;
use super::status::Status;
use crate::stream::output::PATIENCE;

/// Failed commands that are remembered.
pub const ERRORS: usize = 64;
/// Bytes of one in the log.
pub const ERROR: usize = 64;

/// Who connects, and to what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its qualified name.
    pub nqn: String,
    /// Its number.
    pub id: [u8; 16],
    /// It asks what there is, and no more.
    pub discovery: bool,
    /// For so long it may be silent; zero: for ever.
    pub alive: Duration,
}

/// CC and CSTS.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registers {
    /// Controller Configuration.
    pub configuration: u32,
    /// Controller Status.
    pub status: u32,
}

/// Values of features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Events that the host wants to hear of.
    pub events: u32,
    /// Kelvin from which on it is too warm; it never is.
    pub warm: u32,
}

impl Default for Features {
    fn default() -> Features {
        Features { events: 0, warm: 343 }
    }
}

/// Whether an event was told.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum News {
    #[default]
    None,
    Pending,
    /// Told, and its log not read since.
    Told,
}

/// Ends a queue's connection.
pub type EndQueue = Box<dyn Fn() + Send>;

pub(super) type Open = BTreeSet<(usize, TxId)>;

/// See the module.
pub struct Association {
    /// The controller's number.
    pub cntlid: u16,
    /// Whose it is.
    pub host: Host,
    /// Power cuts that there had been when it began.
    pub born: u64,
    registers: Mutex<Registers>,
    features: Mutex<Features>,
    queues: Mutex<BTreeMap<u16, EndQueue>>,
    changed: Mutex<(News, bool)>,
    errors: Mutex<(u64, VecDeque<[u8; ERROR]>)>,
    /// `None`: the association is over.
    transactions: Mutex<Option<Open>>,
    /// By namespace: the power cuts that it had had when these were looked at last.
    lives: Mutex<BTreeMap<usize, u64>>,
    alive: Mutex<Duration>,
    over: AtomicBool,
    dark: AtomicBool,
    began: Instant,
    /// Milliseconds after it began at which something came.
    heard: AtomicU64,
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Association").field("cntlid", &self.cntlid).finish_non_exhaustive()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Association {
    /// Of a host that connects.
    pub fn new(cntlid: u16, host: Host, born: u64) -> Association {
        let alive = Mutex::new(host.alive);
        Association {
            cntlid,
            host,
            born,
            registers: Mutex::default(),
            features: Mutex::default(),
            queues: Mutex::default(),
            changed: Mutex::default(),
            errors: Mutex::default(),
            transactions: Mutex::new(Some(Open::new())),
            lives: Mutex::default(),
            alive,
            over: AtomicBool::new(false),
            dark: AtomicBool::new(false),
            began: Instant::now(),
            heard: AtomicU64::new(0),
        }
    }

    /// Its registers.
    pub fn registers(&self) -> MutexGuard<'_, Registers> {
        lock(&self.registers)
    }
    /// Its features.
    pub fn features(&self) -> MutexGuard<'_, Features> {
        lock(&self.features)
    }
    /// For how long it may be silent.
    pub fn alive(&self) -> MutexGuard<'_, Duration> {
        lock(&self.alive)
    }
    /// Whether commands other than those of fabrics may come.
    pub fn is_ready(&self) -> bool {
        self.registers().status & 1 != 0
    }

    /// Something came.
    pub fn hear(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(ms, Ordering::Relaxed);
    }
    /// Whether it was silent for too long.
    pub fn is_silent(&self) -> bool {
        let alive = *self.alive();
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        !alive.is_zero() && self.began.elapsed().saturating_sub(heard) > alive
    }

    /// An I/O queue is there; false: there is one of this number, or the association is over.
    pub fn join(&self, qid: u16, end: EndQueue) -> bool {
        let mut queues = lock(&self.queues);
        if self.is_over() || queues.contains_key(&qid) {
            return false;
        }
        queues.insert(qid, end);
        true
    }
    /// Whether there is an I/O queue of this number.
    pub fn has(&self, qid: u16) -> bool {
        lock(&self.queues).contains_key(&qid)
    }
    /// It has left.
    pub fn leave(&self, qid: u16) {
        lock(&self.queues).remove(&qid);
    }
    /// All I/O queues end.
    pub fn end_queues(&self) {
        let queues = lock(&self.queues);
        self.over.store(true, Ordering::SeqCst);
        queues.values().for_each(|end| end());
    }
    /// The controller is reset: all I/O queues end, and what they had begun is over when this returns. What is not
    /// kept elsewhere is as at the beginning.
    pub fn reset_queues(&self) {
        lock(&self.queues).values().for_each(|end| end());
        let since = Instant::now();
        // Each leaves by itself when its last command is done; a drive in real time takes its time.
        while !lock(&self.queues).is_empty() && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        *self.features() = Features::default();
        lock(&self.changed).0 = News::None;
    }
    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
    /// The power went: it ends without a word.
    pub fn vanish(&self) {
        self.dark.store(true, Ordering::SeqCst);
        self.end_queues();
    }
    /// Whether the power went.
    pub fn is_dark(&self) -> bool {
        self.dark.load(Ordering::SeqCst)
    }

    /// The namespaces may hold something else.
    pub fn namespaces_changed(&self) {
        let mut changed = lock(&self.changed);
        changed.1 = true;
        if changed.0 == News::None {
            changed.0 = News::Pending;
        }
    }
    /// The event that is to be told now, as the first word of an answer.
    pub fn next_event(&self) -> Option<u32> {
        /// Attributes of namespaces.
        const NAMESPACES: u32 = 1 << 8;
        let mut changed = lock(&self.changed);
        if changed.0 != News::Pending || self.features().events & NAMESPACES == 0 {
            return None;
        }
        changed.0 = News::Told;
        // A notice (2) that attributes of namespaces changed (0): log 04h says which.
        Some(0x04_00_02)
    }
    /// Whether namespaces changed since that was read last.
    pub fn changed(&self, keep: bool) -> bool {
        let mut changed = lock(&self.changed);
        let found = changed.1;
        if !keep {
            *changed = (News::None, false);
        }
        found
    }

    /// A command failed.
    pub fn note_error(&self, qid: u16, sqe: &Sqe, status: Status) {
        let mut errors = lock(&self.errors);
        errors.0 += 1;
        let mut entry = [0; ERROR];
        put(&mut entry, 0, &errors.0.to_le_bytes());
        put(&mut entry, 8, &qid.to_le_bytes());
        put(&mut entry, 10, &sqe.cid().to_le_bytes());
        put(&mut entry, 12, &(status.0 << 1).to_le_bytes());
        // Which byte of the command it was about is not said.
        put(&mut entry, 14, &[0xff, 0xff]);
        if qid > 0 {
            put(&mut entry, 16, &sqe.qword(10).to_le_bytes());
        }
        put(&mut entry, 24, &sqe.nsid().to_le_bytes());
        entry[29] = 3; // TCP
        if errors.1.len() == ERRORS {
            errors.1.pop_back();
        }
        errors.1.push_front(entry);
    }
    /// Errors so far, and the log of the last ones, the newest first.
    pub fn errors(&self) -> (u64, Vec<u8>) {
        let errors = lock(&self.errors);
        let mut all = errors.1.iter().flatten().copied().collect::<Vec<u8>>();
        all.resize(ERRORS * ERROR, 0);
        (errors.0, all)
    }

    /// Works with the transactions that are open; `None`: the association is over. While it works nobody
    /// else does, so that what ends the association ends all of them.
    pub fn transactions<R>(&self, work: impl FnOnce(&mut Open) -> R) -> Option<R> {
        lock(&self.transactions).as_mut().map(work)
    }
    /// Whether a namespace has lost its power so often when this is asked for the first time.
    pub fn is_new_life(&self, namespace: usize, cuts: u64) -> bool {
        lock(&self.lives).insert(namespace, cuts) != Some(cuts)
    }
    /// Those that were open; others may follow.
    pub fn reset_transactions(&self) -> Open {
        lock(&self.transactions).as_mut().map(std::mem::take).unwrap_or_default()
    }
    /// Those that were open; no others will be.
    pub fn end_transactions(&self) -> Open {
        lock(&self.transactions).take().unwrap_or_default()
    }
}
