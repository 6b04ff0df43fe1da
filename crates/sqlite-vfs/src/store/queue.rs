//! Commits that wait for the log: those of a moment share one write of it.
//!
//! Invariants:
//! * commits have numbers in the order of their records; those up to `durable` are durable, by their records or, when
//!   their group is on the device, by their pages;
//! * what waits has room in the log and gets its place when it is written: all of it behind each other, by one at a
//!   time, without the store's lock where the log has a sink; nobody is told of more than that write has brought;
//! * after a write that failed nothing that waited for it is called durable, and nothing is written until the next
//!   mount.

use std::sync::{Arc, Condvar};

use block::{DeviceError, LogSink, TxError};

use super::Bug;
use super::core::{Core, Done};
use super::record::Draft;

#[derive(Default)]
pub(super) struct Queue {
    /// Number of the last commit that has a record.
    issued: u64,
    /// Number of the last one that is durable.
    durable: u64,
    /// Records that wait.
    waiting: Vec<Draft>,
    /// Somebody writes.
    writing: bool,
    failed: Option<TxError>,
    /// The log beside the device.
    sink: Option<Arc<dyn LogSink>>,
    /// Told of all that changes here.
    changed: Arc<Condvar>,
}

/// What one write brings.
pub(super) struct Batch {
    at: u64,
    bytes: Vec<u8>,
    upto: u64,
}

/// What somebody who waits for a commit has to do.
pub(super) enum Turn {
    Over(Done<()>),
    Wait(Arc<Condvar>),
    /// Write, then say so to [`Core::written`].
    Write(Batch, Option<Arc<dyn LogSink>>),
}

impl Batch {
    /// The last commit in it.
    pub(super) fn upto(&self) -> u64 {
        self.upto
    }

    /// Writes it to the log beside the device.
    pub(super) fn write_to(&self, sink: &dyn LogSink) -> Result<(), DeviceError> {
        sink.append(self.at, &self.bytes)
    }
}

impl Queue {
    pub(super) fn set_sink(&mut self, sink: Option<Arc<dyn LogSink>>) {
        self.sink = sink;
    }

    pub(super) fn is_durable(&self, number: u64) -> bool {
        self.durable >= number
    }

    /// Whether everybody sees what nobody knows to be durable.
    pub(super) fn is_owing(&self) -> bool {
        self.durable < self.issued
    }

    /// Whether somebody writes to the log.
    pub(super) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Told of all that changes here.
    pub(super) fn changed(&self) -> Arc<Condvar> {
        Arc::clone(&self.changed)
    }

    /// The pages of all commits are on the device: their records are void.
    pub(super) fn void(&mut self) {
        self.waiting.clear();
        self.durable = self.issued;
        self.changed.notify_all();
    }
}

impl Core {
    /// Lets a record wait for the next write; answers the commit's number.
    pub(super) fn enqueue(&mut self, draft: Draft) -> u64 {
        if let Some(ring) = &mut self.ring {
            ring.reserve(&draft);
        }
        self.stats.log_bytes += draft.takes();
        self.queue.waiting.push(draft);
        self.queue.issued += 1;
        self.queue.issued
    }

    /// What is to be done for commit `number` to be durable.
    pub(super) fn turn(&mut self, number: u64) -> Turn {
        if self.queue.is_durable(number) {
            return Turn::Over(Ok(()));
        }
        if self.has_bug(Bug::LogErrorSwallowed) && self.queue.failed.is_some() {
            return Turn::Over(Ok(()));
        }
        if let Some(error) = &self.queue.failed {
            return Turn::Over(Err(error.clone()));
        }
        if let Err(error) = self.usable() {
            return Turn::Over(Err(error));
        }
        if self.queue.writing {
            return Turn::Wait(Arc::clone(&self.queue.changed));
        }
        let batch = self.batch();
        self.queue.writing = true;
        Turn::Write(batch, self.queue.sink.clone())
    }

    /// Gives all that waits its place. Everything before it is durable.
    fn batch(&mut self) -> Batch {
        let own = self.has_bug(Bug::SettledUnwritten);
        let waiting = std::mem::take(&mut self.queue.waiting);
        let mut batch = Batch { at: 0, bytes: Vec::new(), upto: self.queue.issued };
        let Some(ring) = &mut self.ring else { return batch };
        let settled = ring.records();
        for draft in waiting {
            let (at, bytes) = ring.append(draft, if own { ring.records() } else { settled });
            if batch.bytes.is_empty() {
                batch = Batch { at, bytes, ..batch };
            } else {
                batch.bytes.extend(bytes);
            }
        }
        batch
    }

    /// Writes a batch to a log that is the device's alone.
    pub(super) fn write_in_turn(&mut self, batch: &Batch) -> Result<(), DeviceError> {
        let now = self.now;
        self.now = self.log(|log| log.log_append(now, batch.at, &batch.bytes))?;
        Ok(())
    }

    /// What is up to a commit was written, or was not.
    pub(super) fn written(&mut self, upto: u64, done: Result<(), DeviceError>) {
        self.queue.writing = false;
        match done {
            Ok(()) => {
                let all = self.has_bug(Bug::DurableUnwritten);
                let upto = if all { self.queue.issued } else { upto };
                self.queue.durable = self.queue.durable.max(upto);
                self.stats.log_writes += 1;
            }
            Err(error) => {
                let error = TxError::from(error);
                self.break_off(&error);
                self.queue.failed = Some(error);
            }
        }
        self.queue.changed.notify_all();
    }
}
