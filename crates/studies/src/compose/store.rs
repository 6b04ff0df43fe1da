//! RocksDB as it was captured, on a part of a drive: a sample of the trace's address space.
//!
//! The traces reach over 2.5 GB. Of that, pieces of 1 MiB are drawn by a hash and moved together; a
//! request is cut to what lies in them, and of the flushes every so many are kept. So files stay
//! files: what was written front to back, read, deleted and written anew still is.

use std::collections::BTreeSet;
use std::path::Path;

use block::{BlockDevice, Lba, Op, Request, Rng, Sectors, Time};
use lab::LabError;
use ssd::Drive;
use workload::read::{ReadOptions, open};
use workload::{Record, TraceOp};

use super::measured::Done;
use crate::port::Port;

/// Pages of a piece: 1 MiB.
const PIECE: u64 = 256;
/// Bytes of a page.
const PAGE: u64 = block::UNIT_BYTES;
/// Requests in flight.
const DEPTH: usize = 8;

/// What is asked of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    op: Op,
    /// First page and pages; of a flush 0.
    first: u64,
    pages: u64,
}

/// The store's requests: those that load it, and those that are measured.
pub(crate) struct Store {
    load: Vec<Step>,
    run: Vec<Step>,
    pages: u32,
}

/// One of so many pieces, and of so many flushes.
#[derive(Clone, Copy)]
struct Sample(u64);

impl Sample {
    fn has(self, piece: u64) -> bool {
        Rng::new(piece).next_u64().is_multiple_of(self.0)
    }

    /// What of a record lies in pieces of the sample.
    fn cut(self, record: &Record, flushes: &mut u64, out: &mut Vec<Step>) {
        let (start, end) = (record.offset.0, record.offset.0 + record.len.0);
        let (op, first, end) = match record.op {
            TraceOp::Flush => {
                *flushes += 1;
                if flushes.is_multiple_of(self.0) {
                    out.push(Step { op: Op::Flush, first: 0, pages: 0 });
                }
                return;
            }
            TraceOp::Read => (Op::Read, start / PAGE, end.div_ceil(PAGE)),
            TraceOp::Write | TraceOp::Zero => (Op::Write, start / PAGE, end.div_ceil(PAGE)),
            TraceOp::Discard => (Op::Discard, start.div_ceil(PAGE), end / PAGE),
        };
        let mut at = first;
        while at < end {
            let piece = at / PIECE;
            let stop = end.min((piece + 1) * PIECE);
            if self.has(piece) {
                out.push(Step { op, first: at, pages: stop - at });
            }
            at = stop;
        }
    }

    fn read(self, path: &Path) -> Result<Vec<Step>, LabError> {
        let mut source = open(path, &ReadOptions::default())?;
        let (mut records, mut steps, mut flushes) = (Vec::new(), Vec::new(), 0);
        loop {
            workload::Source::fill(&mut source, &mut records)?;
            if records.is_empty() {
                return Ok(steps);
            }
            records.iter().for_each(|record| self.cut(record, &mut flushes, &mut steps));
        }
    }
}

impl Store {
    /// One of `sample` pieces of the captured traces in a folder.
    ///
    /// # Errors
    /// A trace that is not there or cannot be read.
    pub(crate) fn new(data: &Path, sample: u64) -> Result<Store, LabError> {
        let sample = Sample(sample);
        let read = |name: &str| sample.read(&data.join(format!("{name}_rocksdb_ext4.csv.zst")));
        Ok(Store::of(read("ycsb_load")?, read("ycsb_a")?))
    }

    fn of(mut load: Vec<Step>, mut run: Vec<Step>) -> Store {
        let touches = |step: &&Step| matches!(step.op, Op::Read | Op::Write);
        let touched: BTreeSet<u64> =
            load.iter().chain(&run).filter(touches).map(|step| step.first / PIECE).collect();
        let pieces: Vec<u64> = touched.into_iter().collect();
        for steps in [&mut load, &mut run] {
            steps.retain_mut(|step| {
                let found = pieces.binary_search(&(step.first / PIECE));
                if let Ok(rank) = found {
                    step.first = rank as u64 * PIECE + step.first % PIECE;
                }
                // What is discarded and never used needs no room.
                step.op == Op::Flush || found.is_ok()
            });
        }
        Store { load, run, pages: (pieces.len() as u64 * PIECE) as u32 }
    }

    /// Pages it needs.
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// Brings a part of a drive to where the measured requests begin.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn prepare(&self, port: &mut Port<Drive>) -> Result<(), LabError> {
        play(&self.load, port, Time::ZERO).map(|_| ())
    }

    /// The measured requests.
    ///
    /// # Errors
    /// The drive's.
    pub(crate) fn run(&self, mut port: Port<Drive>, start: Time) -> Result<Done, LabError> {
        play(&self.run, &mut port, start)
    }
}

/// Asks one thing after the other, [`DEPTH`] of them in flight.
fn play(steps: &[Step], port: &mut Port<Drive>, start: Time) -> Result<Done, LabError> {
    let mut done = Done::default();
    let mut flight = [start; DEPTH];
    let (mut at, mut last) = (start, start);
    for (number, step) in steps.iter().enumerate() {
        let (lba, sectors) = (Lba(step.first * 8), Sectors(step.pages * 8));
        let request = match step.op {
            Op::Read => Request::read(lba, sectors),
            Op::Write => Request::write(lba, sectors),
            Op::Flush => Request::flush(),
            Op::Discard => Request::discard(lba, sectors),
        };
        let slot = (0..DEPTH).min_by_key(|slot| flight[*slot]).unwrap_or(0);
        at = at.max(flight[slot]);
        let request_number = number as u64;
        let end = port.submit(at, request).map_err(|source| LabError::Device {
            request: request_number,
            at,
            source,
        })?;
        flight[slot] = end;
        last = last.max(end);
        match step.op {
            Op::Write => done.user += step.pages,
            Op::Read => done.latency.add(end.since(at)),
            Op::Flush | Op::Discard => {}
        }
    }
    done.elapsed = last.since(start);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use block::{AppId, Bytes};
    use workload::Flags;

    use super::*;

    fn record(op: TraceOp, first: u64, pages: u64) -> Record {
        Record {
            at: Time::ZERO,
            offset: Bytes(first * PAGE),
            len: Bytes(pages * PAGE),
            response: None,
            app: AppId(0),
            op,
            flags: Flags::default(),
            hint: 0,
        }
    }

    #[test]
    fn a_sample_keeps_its_share_of_every_request() {
        let (mut steps, mut flushes) = (Vec::new(), 0);
        Sample(4).cut(&record(TraceOp::Write, 100, 4000 * PIECE), &mut flushes, &mut steps);
        let pages: u64 = steps.iter().map(|step| step.pages).sum();
        assert!((900..1100).contains(&(pages / PIECE)), "{pages}");
        assert!(steps.iter().all(|step| Sample(4).has(step.first / PIECE)));
        steps.clear();
        (0..8).for_each(|_| Sample(4).cut(&record(TraceOp::Flush, 0, 0), &mut flushes, &mut steps));
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn pieces_move_together_and_unused_discards_go() {
        let step = |op, first, pages| Step { op, first, pages };
        let load = vec![step(Op::Write, 10 * PIECE + 3, 5)];
        let run = vec![
            step(Op::Discard, 7 * PIECE, PIECE),
            step(Op::Flush, 0, 0),
            step(Op::Read, 4 * PIECE + 9, 1),
            step(Op::Discard, 10 * PIECE, PIECE),
        ];
        let store = Store::of(load, run);
        assert_eq!(store.pages(), 2 * PIECE as u32);
        assert_eq!(store.load, [step(Op::Write, PIECE + 3, 5)]);
        let expected =
            [step(Op::Flush, 0, 0), step(Op::Read, 9, 1), step(Op::Discard, PIECE, PIECE)];
        assert_eq!(store.run, expected);
    }
}
