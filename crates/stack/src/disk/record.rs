//! What comes in at one place, written down as a trace.
//!
//! Invariants: records lie in the file in the order of their times, which are those of arrival; a trace
//! that could not be written whole says so when it is ended, and never as a success. The disk goes on
//! without it: a trace is not worth an error to whoever reads and writes.

use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use block::{AppId, Bytes, Time};
use workload::read::{Carries, VtrHeader, VtrTotals, VtrWriter};
use workload::{Flags, Record, TraceOp};

use super::{Capabilities, Disk, DiskError, Done, Extent, Piece};

/// A trace that is being written.
pub struct Recorder {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// None once it is ended, or could not be written.
    out: Option<VtrWriter<BufWriter<File>>>,
    /// Arrival of the first record.
    first: Option<Instant>,
    failed: Option<io::Error>,
}

impl Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts a trace at `path` (`docs/formats.md`, section 2). `source` says what is recorded.
    ///
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn create(path: &Path, source: &str) -> io::Result<Recorder> {
        let file = File::create_new(path)?;
        let header = VtrHeader {
            source: source.to_string(),
            format: "recorded by the server".to_string(),
            shared: true,
            carries: Carries { time: true, op: true, response: false, flush: true },
            ..VtrHeader::default()
        };
        let out = Some(VtrWriter::new(BufWriter::new(file), &header)?);
        let state = Mutex::new(State { out, first: None, failed: None });
        Ok(Recorder { path: path.to_path_buf(), state })
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what arrives now.
    fn push(&self, op: TraceOp, at: u64, bytes: u64, fua: bool) {
        let mut state = self.lock();
        // The clock is read inside the lock, so that times do not go back.
        let now = Instant::now();
        let first = *state.first.get_or_insert(now);
        let Some(out) = &mut state.out else { return };
        let ns = u64::try_from((now - first).as_nanos()).unwrap_or(u64::MAX);
        let record = Record {
            at: Time::from_ps(ns.saturating_mul(1000)),
            offset: Bytes(at),
            len: Bytes(bytes),
            response: None,
            app: AppId(0),
            op,
            flags: if fua { Flags::FUA } else { Flags::default() },
            hint: 0,
        };
        if let Err(error) = out.push(&record) {
            (state.out, state.failed) = (None, Some(error));
        }
    }

    /// Ends the trace; what arrives later is not in it. Says nothing if it was ended before.
    ///
    /// # Errors
    /// Why it is not whole.
    pub fn finish(&self) -> io::Result<Option<VtrTotals>> {
        let mut state = self.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        let Some(out) = state.out.take() else { return Ok(None) };
        let (file, totals) = out.finish(&[])?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(Some(totals))
    }
}

/// A disk whose requests are written down as they arrive, whatever becomes of them.
#[derive(Debug)]
pub struct Recorded {
    below: Arc<dyn Disk>,
    to: Arc<Recorder>,
}

impl Recorded {
    /// Writes down what is asked of `below`.
    pub fn new(below: Arc<dyn Disk>, to: Arc<Recorder>) -> Recorded {
        Recorded { below, to }
    }
}

impl Disk for Recorded {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.to.push(TraceOp::Read, at, into.len() as u64, false);
        self.below.read(at, into)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.to.push(TraceOp::Write, at, from.len() as u64, fua);
        self.below.write(at, from, fua)
    }
    fn joins_writes(&self) -> bool {
        self.below.joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        for piece in pieces {
            self.to.push(TraceOp::Write, piece.at, piece.bytes.len() as u64, false);
        }
        self.below.write_each(pieces, ended);
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.to.push(TraceOp::Flush, 0, 0, false);
        self.below.flush()
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.to.push(TraceOp::Discard, at, bytes, fua);
        self.below.trim(at, bytes, fua)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.to.push(TraceOp::Zero, at, bytes, fua);
        self.below.zero(at, bytes, keep, fua)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.below.extents(at, bytes, most)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.below.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.below.counters()
    }
}
