//! What is asked of a device in virtual time, written down as a trace.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use block::{BlockDevice, Bytes, DeviceError, Op, Request, Sectors, Time};
use ssd::{Drive, Stats};
use workload::read::{Carries, VtrHeader, VtrWriter};
use workload::{Flags, Record, TraceOp};

use super::{Device, LayerCounts, Modelled};
use crate::StackError;

/// A device whose requests are written down as they are submitted, whatever becomes of them.
pub(super) struct Recorded {
    below: Modelled,
    path: PathBuf,
    /// None once it was ended.
    out: Option<VtrWriter<BufWriter<File>>>,
    failed: Option<io::Error>,
    /// Nothing is written down while time stands still: what prepares a run is no part of it.
    timed: bool,
    first: Option<Time>,
}

impl Recorded {
    /// Starts a trace at `path` (`docs/formats.md`, section 2). `source` says what is recorded.
    pub(super) fn new(below: Modelled, path: &Path, source: &str) -> Result<Recorded, StackError> {
        let io = |error| StackError::Io { path: path.to_path_buf(), error };
        let file = File::create_new(path).map_err(io)?;
        let header = VtrHeader {
            source: source.to_string(),
            format: "recorded in virtual time".to_string(),
            shared: true,
            carries: Carries { time: true, op: true, response: false, flush: true },
            ..VtrHeader::default()
        };
        let out = VtrWriter::new(BufWriter::new(file), &header).map_err(io)?;
        let path = path.to_path_buf();
        Ok(Recorded { below, path, out: Some(out), failed: None, timed: true, first: None })
    }

    fn push(&mut self, at: Time, request: &Request<'_>) {
        let Some(out) = self.out.as_mut().filter(|_| self.timed) else { return };
        let first = *self.first.get_or_insert(at);
        let record = Record {
            at: Time::ZERO + at.since(first),
            offset: Bytes(request.lba.0 * block::SECTOR_BYTES),
            len: request.sectors.bytes(),
            response: None,
            app: request.hint.app,
            op: match request.op {
                Op::Read => TraceOp::Read,
                Op::Write => TraceOp::Write,
                Op::Flush => TraceOp::Flush,
                Op::Discard => TraceOp::Discard,
            },
            flags: if request.fua { Flags::FUA } else { Flags::default() },
            hint: request.hint.stream.0,
        };
        if let Err(error) = out.push(&record) {
            (self.out, self.failed) = (None, Some(error));
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(out) = self.out.take() else { return Ok(()) };
        let (file, _) = out.finish(&[])?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl BlockDevice for Recorded {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn atomic_unit(&self) -> Bytes {
        self.below.atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.below.flush_covers_submitted()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.push(at, &request);
        self.below.submit(at, request)
    }
}

impl Device for Recorded {
    fn stats(&self) -> Stats {
        self.below.stats()
    }
    fn layers(&self) -> Vec<LayerCounts> {
        self.below.layers()
    }
    fn reset_stats(&mut self) {
        self.below.reset_stats();
    }
    fn set_timing(&mut self, on: bool) {
        self.timed = on;
        self.below.set_timing(on);
    }
    fn check(&self) -> Result<(), StackError> {
        self.below.check()
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        self.below.cool_buffer()
    }
    fn slots_per_page(&self) -> u32 {
        self.below.slots_per_page()
    }
    fn now(&self) -> Time {
        self.below.now()
    }
    fn drive_mut(&mut self) -> Option<&mut Drive> {
        self.below.drive_mut()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.below.stop(at)
    }
    fn end(&mut self) -> Result<(), StackError> {
        let path = self.path.clone();
        self.finish().map_err(|error| StackError::Io { path, error })?;
        self.below.end()
    }
}
