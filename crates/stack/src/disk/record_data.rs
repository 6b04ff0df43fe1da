//! What changes a disk, written down with its data as a log (`.vlog`).
//!
//! Invariants: records lie in the log in the order in which they were answered, and writes that overlap in
//! the order in which they took effect: one change at a time passes, because order is what the log is
//! for. A flush is written down when it begins and when it was answered: what was answered before it began
//! is durable then. A log that could not be written whole says so when it is ended, and the disk then
//! refuses what would change it: a state built from half a log would be a lie.

use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Capabilities, Disk, DiskError, Done, Extent, Piece, inside};
use crate::datalog::{LONGEST, Op, SECTOR, TEXT, Writer};

type Out = Box<dyn Write + Send>;

/// A disk that is recorded.
pub struct DataRecorded {
    below: Arc<dyn Disk>,
    size: u64,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    /// None once it is ended, or could not be written.
    out: Option<Writer<Out>>,
    failed: Option<String>,
    bytes: u64,
}

impl Debug for DataRecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataRecorded").field("below", &self.below).finish_non_exhaustive()
    }
}

/// What happened, without its data.
#[derive(Clone, Copy)]
struct Event {
    op: Op,
    fua: bool,
    ours: bool,
    at: u64,
    bytes: u64,
}

const fn event(op: Op, at: u64, bytes: u64, fua: bool) -> Event {
    Event { op, fua, ours: false, at, bytes }
}

impl DataRecorded {
    /// Records `below` in a new file. What is on it already stands at the beginning, as writes.
    ///
    /// # Errors
    /// The file is there already or cannot be written, or the disk cannot be read.
    pub fn create(
        below: Arc<dyn Disk>,
        path: &Path,
        source: &str,
    ) -> Result<DataRecorded, DiskError> {
        let file = File::create_new(path)?;
        DataRecorded::new(below, Box::new(BufWriter::with_capacity(1 << 20, file)), source)
    }

    /// The same to any writer.
    ///
    /// # Errors
    /// As [`DataRecorded::create`].
    pub fn new(below: Arc<dyn Disk>, out: Out, source: &str) -> Result<DataRecorded, DiskError> {
        let size = below.capabilities().size / SECTOR * SECTOR;
        let out = Some(Writer::new(out, size, source)?);
        let state = Mutex::new(State { out, failed: None, bytes: 0 });
        let recorded = DataRecorded { below, size, began: Instant::now(), state };
        recorded.what_is_there()?;
        Ok(recorded)
    }

    fn what_is_there(&self) -> Result<(), DiskError> {
        let (mut at, mut any) = (0, false);
        let mut state = self.lock();
        while at < self.size {
            let found = self.below.extents(at, self.size - at, 1024)?;
            let before = at;
            for extent in found {
                let mut left = extent.bytes.min(self.size - at);
                while left > 0 && !extent.hole {
                    let count = left.min(1 << 20);
                    let mut bytes = vec![0; count as usize];
                    self.below.read(at, &mut bytes)?.wait()?;
                    self.push(&mut state, event(Op::Write, at, count, false), &bytes)?;
                    (at, left, any) = (at + count, left - count, true);
                }
                at += left;
            }
            if at == before {
                return Err(io::Error::other("the disk does not say what is on it").into());
            }
        }
        drop(state);
        if any { self.flush().and_then(Done::wait) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number the record has.
    fn push(&self, state: &mut State, event: Event, data: &[u8]) -> Result<u64, DiskError> {
        let ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Event { op, fua, ours, at, bytes } = event;
        let entry = crate::datalog::Entry { op, fua, ours, ns, at, bytes, data };
        let Some(out) = &mut state.out else { return Err(over(state)) };
        let number = out.records();
        if let Err(error) = out.push(&entry) {
            (state.out, state.failed) = (None, Some(error.to_string()));
            return Err(over(state));
        }
        state.bytes += data.len() as u64;
        Ok(number)
    }

    /// Writes down a mark; it is in the log when this returns.
    ///
    /// # Errors
    /// A text for people: it is too long, or the log is ended.
    pub fn mark(&self, text: &str, ours: bool) -> Result<(), String> {
        if text.len() > TEXT {
            return Err(format!("a mark of {} bytes: {TEXT} at most", text.len()));
        }
        let mark = Event { ours, ..event(Op::Mark, 0, 0, false) };
        let mut state = self.lock();
        self.push(&mut state, mark, text.as_bytes()).map(drop).map_err(|error| error.to_string())
    }

    /// Ends the log: its index. What changes the disk from now on is refused. Says nothing if it was ended
    /// before.
    ///
    /// # Errors
    /// Why it is not whole.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(why) = &state.failed {
            return Err(io::Error::other(why.clone()));
        }
        state.out.take().map_or(Ok(()), |out| out.finish().map(drop))
    }

    /// Does one change and writes it down; in whole sectors, which the log keeps to.
    fn change(
        &self,
        event: Event,
        data: Option<&[u8]>,
        change: impl FnOnce() -> Result<Done, DiskError>,
    ) -> Result<Done, DiskError> {
        inside(event.at, event.bytes, self.size)?;
        if event.bytes == 0 {
            return change();
        }
        let mut state = self.lock();
        if state.out.is_none() {
            return Err(over(&state));
        }
        let done = change()?;
        let (start, end) =
            (event.at / SECTOR * SECTOR, (event.at + event.bytes).next_multiple_of(SECTOR));
        let exact = (start, end) == (event.at, event.at + event.bytes);
        match data {
            Some(data) if exact => {
                for (i, piece) in data.chunks(LONGEST as usize).enumerate() {
                    let at = event.at + i as u64 * LONGEST;
                    self.push(&mut state, Event { at, bytes: piece.len() as u64, ..event }, piece)?;
                }
            }
            None if exact => drop(self.push(&mut state, event, &[])?),
            // What the sectors hold now, whatever made it so.
            _ => {
                let mut at = start;
                while at < end {
                    let mut piece = vec![0; (end - at).min(1 << 20) as usize];
                    self.below.read(at, &mut piece)?.wait()?;
                    let bytes = piece.len() as u64;
                    let written = Event { op: Op::Write, at, bytes, ..event };
                    self.push(&mut state, written, &piece)?;
                    at += bytes;
                }
            }
        }
        Ok(done)
    }
}

fn over(state: &State) -> DiskError {
    let why = state.failed.clone();
    io::Error::other(why.unwrap_or_else(|| "the log of this disk is ended".to_string())).into()
}

impl Drop for DataRecorded {
    fn drop(&mut self) {
        // Whoever wants to know whether it is whole has asked before.
        let _ = self.finish();
    }
}

impl Disk for DataRecorded {
    fn capabilities(&self) -> Capabilities {
        Capabilities { size: self.size, volatile: true, ..self.below.capabilities() }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.below.read(at, into)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        let written = event(Op::Write, at, from.len() as u64, fua);
        self.change(written, Some(from), || self.below.write(at, from, fua))
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        for (i, piece) in pieces.iter().enumerate() {
            ended(i, self.write(piece.at, piece.bytes, false));
        }
    }
    fn flush(&self) -> Result<Done, DiskError> {
        let began = self.push(&mut self.lock(), event(Op::FlushBegin, 0, 0, false), &[])?;
        let done = self.below.flush()?;
        self.push(&mut self.lock(), event(Op::FlushEnd, began, 0, false), &[])?;
        Ok(done)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        // Whole blocks inside the range, and those alone: what is written down is what is forgotten, also where the disk would
        // forget more than that.
        let block = u64::from(self.below.capabilities().block.max(4096));
        inside(at, bytes, self.size)?;
        let (start, end) = (at.next_multiple_of(block), (at + bytes) / block * block);
        let (start, inner) = (start.min(self.size), end.saturating_sub(start));
        let trimmed = event(Op::Trim, start, inner, fua);
        self.change(trimmed, None, || self.below.trim(start, inner, fua))
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        let zeroed = event(Op::Zero, at, bytes, fua);
        self.change(zeroed, None, || self.below.zero(at, bytes, keep, fua))
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.below.extents(at, bytes, most)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.flush()?.wait()?;
        self.finish()?;
        self.below.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.below.counters();
        all.push(("recorded_bytes", self.lock().bytes));
        all
    }
}
