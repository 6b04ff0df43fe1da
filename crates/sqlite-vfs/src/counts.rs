//! What an application's SQLite asks of its files, counted: the base of `varve sqlite measure`.
//!
//! Invariant: the *page floor* counts, per transaction that was kept, every distinct database page
//! once. No journal, log or cache can do with less as long as whole pages are written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{Api, RegisterError};
use crate::event::{Call, Event, Observer};
use crate::passthrough::register_observed;
use crate::vfs::Kind;

/// Calls to the files of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KindCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Files deleted.
    pub deletes: u64,
    /// Truncations.
    pub truncates: u64,
}

/// Everything counted since the start or the last reset.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// By kind of file; a kind that was not used is absent.
    pub kinds: BTreeMap<Kind, KindCounts>,
    /// Transactions that were kept and wrote something, one for each file they wrote.
    pub transactions: u64,
    /// Distinct pages, summed over the transactions.
    pub floor_pages: u64,
    /// The same in bytes.
    pub floor_bytes: u64,
    /// BATCH_ATOMIC: begun.
    pub batch_begins: u64,
    /// BATCH_ATOMIC: committed.
    pub batch_commits: u64,
    /// BATCH_ATOMIC: rolled back.
    pub batch_rollbacks: u64,
    /// Checkpoints of a write-ahead log.
    pub checkpoints: u64,
    /// Files opened: 0 says that no SQLite came through here.
    pub opens: u64,
}

impl Counts {
    /// What was asked of all files of a kind.
    pub fn of(&self, kind: Kind) -> KindCounts {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }

    /// What was asked of all files but temporary ones.
    pub fn total(&self) -> KindCounts {
        let mut sum = KindCounts::default();
        for (_, one) in self.kinds.iter().filter(|(kind, _)| **kind != Kind::Temp) {
            sum.reads += one.reads;
            sum.read_bytes += one.read_bytes;
            sum.writes += one.writes;
            sum.bytes += one.bytes;
            sum.syncs += one.syncs;
            sum.deletes += one.deletes;
            sum.truncates += one.truncates;
        }
        sum
    }
}

/// The open transaction of one database.
#[derive(Default)]
struct Running {
    /// Length of each page written, by page number.
    pages: BTreeMap<u64, u64>,
    /// Inside a checkpoint pages are copied, not changed.
    checkpoint: bool,
    /// The page whose frame header was written last.
    frame: u64,
    /// The journal is finalised: what follows without a commit is another transaction.
    over: bool,
}

#[derive(Default)]
struct State {
    counts: Counts,
    running: BTreeMap<String, Running>,
}

/// Counts of one registered VFS; clones share them.
#[derive(Clone, Default)]
pub struct Counter(Arc<Mutex<State>>);

impl Counter {
    /// Registers a pass-through VFS that counts. `batch`: see [`crate::passthrough`].
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        api: &Api,
        name: &str,
        default: bool,
        batch: bool,
    ) -> Result<Counter, RegisterError> {
        let counter = Counter::default();
        register_observed(api, name, default, batch, Arc::new(counter.clone()))?;
        Ok(counter)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counts.clone()
    }

    /// Begins again at zero. Open transactions go on.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counts = Counts::default();
    }
}

const FRAME_HEADER: usize = 24;
const ZEROED: usize = 28;

impl State {
    fn page(&mut self, name: &str, page: u64, bytes: u64) {
        let running = self.running.entry(name.to_string()).or_default();
        if std::mem::take(&mut running.over) {
            running.pages.clear();
        }
        running.pages.insert(page, bytes);
    }

    fn commit(&mut self, name: &str) {
        let Some(running) = self.running.get_mut(name) else { return };
        running.over = false;
        if running.pages.is_empty() {
            return;
        }
        self.counts.transactions += 1;
        self.counts.floor_pages += running.pages.len() as u64;
        self.counts.floor_bytes += running.pages.values().sum::<u64>();
        running.pages.clear();
    }

    fn written(&mut self, kind: Kind, name: &str, at: u64, data: &[u8]) {
        let bytes = data.len() as u64;
        match kind {
            Kind::Database => {
                let copied = self.running.get(name).is_some_and(|r| r.checkpoint);
                if !copied && bytes > 0 {
                    self.page(name, at / bytes + 1, bytes);
                }
            }
            Kind::Wal => {
                let database = name.strip_suffix("-wal").unwrap_or(name).to_string();
                let running = self.running.entry(database.clone()).or_default();
                if data.len() == FRAME_HEADER {
                    running.frame =
                        u64::from(u32::from_be_bytes([data[0], data[1], data[2], data[3]]));
                } else if bytes >= 512 {
                    let page = running.frame;
                    self.page(&database, page, bytes);
                }
            }
            Kind::Journal if at == 0 && data.len() == ZEROED && data.iter().all(|b| *b == 0) => {
                self.finalised(name);
            }
            _ => {}
        }
    }

    fn finalised(&mut self, journal: &str) {
        let database = journal.strip_suffix("-journal").unwrap_or(journal);
        if let Some(running) = self.running.get_mut(database) {
            running.over = true;
        }
    }
}

impl Observer for Counter {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let (kind, name) = (event.kind, event.name);
        let one = state.counts.kinds.entry(kind).or_default();
        match &event.call {
            Call::Open => state.counts.opens += 1,
            Call::Close | Call::SyncWish => {}
            Call::Read { bytes, .. } => {
                one.reads += 1;
                one.read_bytes += bytes;
            }
            Call::Write { at, data } => {
                one.writes += 1;
                one.bytes += data.len() as u64;
                state.written(kind, name, *at, data);
            }
            Call::Truncate(size) => {
                one.truncates += 1;
                if kind == Kind::Journal && *size == 0 {
                    state.finalised(name);
                }
            }
            Call::Sync => one.syncs += 1,
            Call::Delete(_) => {
                one.deletes += 1;
                if kind == Kind::Journal {
                    state.finalised(name);
                }
            }
            Call::Commit => state.commit(name),
            Call::Unlock => {
                if let Some(running) = state.running.get_mut(name) {
                    running.pages.clear();
                }
            }
            Call::BatchBegin => state.counts.batch_begins += 1,
            Call::BatchCommit => state.counts.batch_commits += 1,
            Call::BatchRollback => state.counts.batch_rollbacks += 1,
            Call::CheckpointStart => {
                state.counts.checkpoints += 1;
                state.running.entry(name.to_string()).or_default().checkpoint = true;
            }
            Call::CheckpointDone => {
                state.running.entry(name.to_string()).or_default().checkpoint = false;
            }
        }
    }
}
