//! A log of commits on pages of a namespace, appended to by a queue of its own: whoever waits for it holds up nobody.
//!
//! Invariant: an append is durable when it returns. Its writes are all answered before the flush leaves, for a flush
//! covers no more than that.

use std::sync::{Arc, Mutex, PoisonError};

use block::{DeviceError, Lba, LogSink, Lpn, SECTOR_BYTES, UNIT_BYTES};

use super::codec::{Sqe, io};
use super::drive::Wire;
use super::initiator::{InitiatorError, Line, Told, blocks};

/// Writes under way at a time: fewer than the queue holds.
const TOGETHER: usize = 32;

/// The queue.
#[derive(Debug)]
pub(super) struct PageLog {
    wire: Arc<Wire>,
    line: Arc<Mutex<Line>>,
    of: Told,
    /// Bytes of one command.
    transfer: u64,
    /// The page at which the log begins.
    first: u64,
}

impl PageLog {
    pub(super) fn new(wire: Arc<Wire>, line: Line, of: Told, transfer: u64) -> PageLog {
        PageLog { wire, line: Arc::new(Mutex::new(line)), of, transfer, first: 0 }
    }

    /// The same of a log that begins at this page.
    pub(super) fn beginning_at(&self, first: Lpn) -> PageLog {
        let (wire, line) = (Arc::clone(&self.wire), Arc::clone(&self.line));
        PageLog { wire, line, first: u64::from(first.0), ..*self }
    }

    fn write(&self, first: u64, bytes: &[u8]) -> Result<(), InitiatorError> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let step = self.transfer / UNIT_BYTES;
        let pieces: Vec<&[u8]> = bytes.chunks(self.transfer as usize).collect();
        let mut at = first;
        for together in pieces.chunks(TOGETHER) {
            for piece in together {
                let count = piece.len() as u64 / UNIT_BYTES;
                line.send(blocks(io::WRITE, self.of, at, count), piece, 0)?;
                at += step;
            }
            let mut failed = None;
            // All answers are taken, or a later command would get them.
            for _ in together {
                let cqe = line.receive()?.cqe;
                if cqe.status.0 != 0 {
                    let (opcode, status, result) = (io::WRITE, cqe.status, cqe.result);
                    failed = failed.or(Some(InitiatorError::Failed { opcode, status, result }));
                }
            }
            failed.map_or(Ok(()), Err)?;
        }
        line.done(Sqe::new(io::FLUSH, self.of.nsid), &[], 0).map(drop)
    }
}

impl LogSink for PageLog {
    fn append(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        if !offset.is_multiple_of(UNIT_BYTES) || !(bytes.len() as u64).is_multiple_of(UNIT_BYTES) {
            return Err(DeviceError::Unsupported("a part of a page of a log, over a wire"));
        }
        self.wire.check()?;
        self.wire.touch();
        let first = self.first + offset / UNIT_BYTES;
        let lba = Lba(first * (UNIT_BYTES / SECTOR_BYTES));
        self.write(first, bytes).map_err(|error| self.wire.error(error, lba))
    }
}
