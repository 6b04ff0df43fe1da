//! Vendor commands: all of [`block::tx`], with a status for each of its errors.
//!
//! Invariants: a transaction is its host's that began it, whichever queue it uses: to everybody else its
//! number is unknown. It ends with its host. Pages are logical blocks of 4 KiB.

use block::{Lpn, TxError, TxId, TxLimits};
use stack::disk::{Ask, DiskError, Done, Told, TransactError};

use super::codec::{Sqe, vendor};
use super::io::{Span, named, writable};
use super::namespace::{Namespace, PAGE};
use super::pdu::u64_at;
use super::planted::Bug;
use super::status::{Failure, Status};
use super::work::{Outcome, Reply, Work};
use crate::stream::Transport;

/// Transactions that are committed together, and pairs that are remapped together.
pub(super) const TOGETHER: usize = 256;

/// Transactions of a host, with those that it has not heard of since a power cut.
const MOST_OPEN: usize = 4096;

/// The page at a place.
fn page(at: u64) -> Result<Lpn, Failure> {
    u32::try_from(at / PAGE).map(Lpn).map_err(|_| Status::LBA_RANGE.into())
}

fn pages(span: Span) -> u32 {
    (span.bytes / PAGE) as u32
}

impl<T: Transport> Work<'_, T> {
    /// A vendor command of an I/O queue.
    pub(super) fn vendor(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        let (index, namespace) = self.namespace(sqe)?;
        let known = [
            vendor::BEGIN,
            vendor::WRITE,
            vendor::READ,
            vendor::COMMIT,
            vendor::COMMIT_SET,
            vendor::ABORT,
            vendor::REMAP,
            vendor::TRIM,
        ];
        if !known.contains(&sqe.opcode()) {
            return Err(Status::INVALID_OPCODE.into());
        }
        limits(namespace)?;
        writable(namespace)?;
        let tid = TxId(sqe.qword(14));
        match sqe.opcode() {
            vendor::BEGIN => self.begin(index),
            vendor::COMMIT => self.commit(index, &[tid]),
            vendor::COMMIT_SET => {
                let tids: Vec<TxId> = words(sqe, data, 1)?.into_iter().map(TxId).collect();
                self.commit(index, &tids)
            }
            vendor::ABORT => self.abort(index, tid),
            vendor::WRITE => {
                let span = self.moved(namespace, sqe)?;
                if self.shared.options.bug.has(Bug::WriteOutside) {
                    namespace.stack.disk.write(span.at, data, false)?.wait()?;
                    return Ok(Reply::OK);
                }
                let ask = Ask::Write(tid, page(span.at)?, data);
                self.counts.writes += 1;
                self.counts.write_bytes += span.bytes;
                self.of(index, tid, ask)
            }
            vendor::READ => {
                let span = self.moved(namespace, sqe)?;
                self.tx_read(sqe, index, tid, span)
            }
            vendor::TRIM => {
                let span = named(namespace, sqe)?;
                self.of(index, tid, Ask::Trim(tid, page(span.at)?, pages(span)))
            }
            _ => self.remap(namespace, sqe, data),
        }
    }

    fn begin(&mut self, index: usize) -> Outcome {
        let disk = &self.shared.namespaces[index].stack.disk;
        let begun = self.owned(|open| {
            // Those that a power cut ended stay on the list until somebody asks for them.
            if open.len() >= MOST_OPEN {
                return Err(Failure { result: MOST_OPEN as u64, ..Status::TX_TOO_MANY.into() });
            }
            let Told::Begun(tid) = disk.transact(Ask::Begin)? else {
                return Err(Status::INTERNAL.into());
            };
            open.insert((index, tid));
            Ok(tid)
        })?;
        self.counts.transactions += 1;
        Ok(Reply::Done(begun.0, Done::NOW))
    }

    /// Works with the transactions of this host.
    fn owned<R>(
        &self,
        work: impl FnOnce(&mut std::collections::BTreeSet<(usize, TxId)>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE.into()) };
        let worked = self.shared.transactions(&queue.association, work);
        worked.unwrap_or(Err(Status::TX_UNKNOWN.into()))
    }

    /// Asks for something in a transaction of this host.
    fn of(&self, index: usize, tid: TxId, ask: Ask<'_>) -> Outcome {
        let disk = &self.shared.namespaces[index].stack.disk;
        self.owned(|open| {
            if !open.contains(&(index, tid)) && !self.shared.options.bug.has(Bug::Foreign) {
                return Err(Status::TX_UNKNOWN.into());
            }
            let told = disk.transact(ask);
            if matches!(&told, Err(TransactError::Refused(TxError::Unknown(_)))) {
                open.remove(&(index, tid));
            }
            done(told).map(|done| Reply::Done(0, done))
        })
    }

    fn tx_read(&mut self, sqe: &Sqe, index: usize, tid: TxId, span: Span) -> Outcome {
        let (first, disk) = (page(span.at)?, &self.shared.namespaces[index].stack.disk);
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE.into()) };
        let association = std::sync::Arc::clone(&queue.association);
        self.counts.reads += 1;
        self.counts.read_bytes += span.bytes;
        let shared = std::sync::Arc::clone(self.shared);
        self.give(sqe, span, |into| {
            let unknown = || Err(Status::TX_UNKNOWN.into());
            let read =
                shared.transactions(&association, |open| match open.contains(&(index, tid)) {
                    true => done(disk.transact(Ask::Read(tid, first, into))),
                    false => unknown(),
                });
            read.unwrap_or_else(unknown)
        })
    }

    /// What was committed, or lost with the power, is not open any more; nothing else ends one here.
    fn commit(&mut self, index: usize, tids: &[TxId]) -> Outcome {
        let disk = &self.shared.namespaces[index].stack.disk;
        let done = self.owned(|open| {
            let mut once = std::collections::BTreeSet::new();
            for tid in tids {
                if !open.contains(&(index, *tid)) {
                    return Err(Status::TX_UNKNOWN.into());
                }
                if !once.insert(*tid) {
                    return Err(Status::INVALID_FIELD.into());
                }
            }
            if self.shared.options.bug.has(Bug::CommitOneByOne) {
                for tid in tids {
                    done(disk.transact(Ask::Commit(&[*tid])))?.wait()?;
                    open.remove(&(index, *tid));
                }
                return Ok(Done::NOW);
            }
            let told = disk.transact(Ask::Commit(tids));
            if let Err(TransactError::Refused(TxError::Unknown(tid))) = &told {
                open.remove(&(index, *tid));
            }
            let done = done(told)?;
            open.retain(|one| one.0 != index || !once.contains(&one.1));
            Ok(done)
        })?;
        self.counts.commits += tids.len() as u64;
        Ok(Reply::Done(0, done))
    }

    /// Of a number that is not open: no error.
    fn abort(&mut self, index: usize, tid: TxId) -> Outcome {
        let disk = &self.shared.namespaces[index].stack.disk;
        let done = self.owned(|open| match open.remove(&(index, tid)) {
            true => done(disk.transact(Ask::Abort(tid))),
            false => Ok(Done::NOW),
        })?;
        self.counts.aborts += 1;
        Ok(Reply::Done(0, done))
    }

    fn remap(&mut self, of: &Namespace, sqe: &Sqe, data: &[u8]) -> Outcome {
        let words = words(sqe, data, 2)?;
        let mut seen = std::collections::BTreeSet::new();
        let mut pairs = Vec::with_capacity(words.len() / 2);
        for pair in words.chunks(2) {
            for place in pair {
                if *place >= of.blocks {
                    return Err(Status::LBA_RANGE.into());
                }
                // A page is moved once, and is moved or overwritten, not both.
                if !seen.insert(*place) {
                    return Err(Status::INVALID_FIELD.into());
                }
            }
            pairs.push((page(pair[0] * PAGE)?, page(pair[1] * PAGE)?));
        }
        let done = done(of.stack.disk.transact(Ask::Remap(&pairs)))?;
        Ok(Reply::Done(0, done))
    }
}

fn done(told: Result<Told, TransactError>) -> Result<Done, Failure> {
    match told {
        Ok(Told::Done(done)) => Ok(done),
        Ok(_) => Err(Status::INTERNAL.into()),
        Err(error) => Err(error.into()),
    }
}

/// Whether there are transactions at all.
fn limits(of: &Namespace) -> Result<TxLimits, Failure> {
    let small = of.block() != PAGE;
    match of.stack.disk.transact(Ask::Limits) {
        Ok(Told::Limits(limits)) if !small => Ok(limits),
        Err(TransactError::Disk(DiskError::PowerOff)) => Err(DiskError::PowerOff.into()),
        _ => Err(Status::INVALID_OPCODE.into()),
    }
}

/// What a command that names several things brings: as many words for each as `each` says.
fn words(sqe: &Sqe, data: &[u8], each: usize) -> Result<Vec<u64>, Failure> {
    let count = sqe.dword(10) as usize;
    if count >= TOGETHER {
        return Err(Status::INVALID_FIELD.into());
    }
    let bytes = (count + 1) * each * 8;
    // As with Dataset Management, more may come than is looked at.
    let named = data.get(..bytes).ok_or(Failure::from(Status::DATA_LENGTH))?;
    Ok(named.chunks(8).map(|word| u64_at(word, 0)).collect())
}
