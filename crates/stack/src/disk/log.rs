//! A live host log as a disk.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use block::{DeviceError, Lpn, Medium, Plant};
use remap::live::Around;
use remap::{BLOCK, LiveLog, LogError, LogOptions, Planted, Summary};

use super::{Capabilities, Disk, DiskError, Done, Extent, Piece, inside};
use crate::description::Keys;
use crate::notice::say;

/// A host log over a medium, as a disk.
#[derive(Debug)]
pub struct LogDisk {
    log: LiveLog,
}

fn around() -> Around {
    Around { say, turns: None }
}

impl LogDisk {
    /// Makes a log on a medium; what it held is gone.
    ///
    /// # Errors
    /// As [`LiveLog::format`].
    pub fn format(medium: Arc<dyn Medium>, options: &LogOptions) -> Result<LogDisk, LogError> {
        LogDisk::format_with(medium, options, Plant::default())
    }

    #[doc(hidden)]
    pub fn format_with(
        medium: Arc<dyn Medium>,
        options: &LogOptions,
        planted: Plant<Planted>,
    ) -> Result<LogDisk, LogError> {
        Ok(LogDisk { log: LiveLog::format_with(medium, options, around(), planted)? })
    }

    /// Opens the log on a medium: recovery.
    ///
    /// # Errors
    /// As [`LiveLog::open`].
    pub fn open(medium: Arc<dyn Medium>, options: &LogOptions) -> Result<LogDisk, LogError> {
        Ok(LogDisk { log: LiveLog::open(medium, options, around())? })
    }

    /// Opens the log on a medium, or makes one where the first mebibyte is all zeroes: nothing that
    /// might be somebody's is overwritten. Every block that is read is compared with its CRC, and a log
    /// that has lost what was flushed is refused, unless `verify=clean`: then such a log is read-only,
    /// and what is read may be older than what was flushed. One that is made keeps the CRCs in any
    /// case.
    ///
    /// # Errors
    /// As [`LogDisk::open`] and [`LogDisk::format`].
    pub fn open_or_format(medium: Arc<dyn Medium>, keys: &Keys) -> Result<LogDisk, LogError> {
        let size = medium.size().map_err(|e| DeviceError::Io(e.to_string()))?;
        let mut first = vec![0; (1 << 20).min(size as usize)];
        medium.read(0, &mut first).map_err(|e| DeviceError::Io(e.to_string()))?;
        // Some hundred segments, of 2 MiB if there is room for that many. Two logs never have the same
        // number: what one left behind must not look like the other's.
        let segment = (size / 256).max(1).next_power_of_two().clamp(64 << 10, 2 << 20);
        let mut options = LogOptions {
            verify: true,
            segment: block::Bytes(segment),
            seed: RandomState::new().build_hasher().finish(),
            ..LogOptions::default()
        };
        for (key, value) in keys.pairs() {
            options.set(key, value)?;
        }
        if first.iter().any(|b| *b != 0) {
            return LogDisk::open(medium, &options);
        }
        let verify = std::mem::replace(&mut options.verify, true);
        let disk = LogDisk::format(medium, &options)?;
        disk.verify_reads(verify);
        Ok(disk)
    }

    /// Switches the check of what is read on, where the log keeps CRCs, or off.
    pub fn verify_reads(&self, on: bool) {
        self.log.verify_reads(on);
    }

    /// What opening found and did.
    pub fn summary(&self) -> &Summary {
        self.log.summary()
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), LogError> {
        self.log.check()
    }

    /// The first of these as far as they are whole blocks that can be admitted together.
    fn whole<'b>(&self, pieces: &[Piece<'b>]) -> Vec<(Lpn, &'b [u8])> {
        let mut left = self.log.joined_blocks() as usize;
        let (block, mut found) = (BLOCK as u64, Vec::with_capacity(pieces.len()));
        for piece in pieces {
            let bytes = piece.bytes.len();
            let fits = bytes > 0
                && bytes.is_multiple_of(BLOCK)
                && piece.at.is_multiple_of(block)
                && bytes / BLOCK <= left
                && self.may_write(piece.at, bytes as u64).is_ok();
            if !fits {
                break;
            }
            left -= bytes / BLOCK;
            found.push((Lpn((piece.at / block) as u32), piece.bytes));
        }
        found
    }

    fn may_write(&self, at: u64, bytes: u64) -> Result<(), DiskError> {
        inside(at, bytes, self.capabilities().size)?;
        if self.log.is_read_only() { Err(DiskError::ReadOnly) } else { Ok(()) }
    }

    fn done(&self, fua: bool) -> Result<Done, DiskError> {
        if fua { self.flush() } else { Ok(Done::NOW) }
    }
}

impl Disk for LogDisk {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: u64::from(self.log.blocks()) * BLOCK as u64,
            block: BLOCK as u32,
            atomic: self.log.atomic_blocks() * BLOCK as u32,
            volatile: true,
            trim: true,
            read_only: self.log.is_read_only(),
        }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        inside(at, into.len() as u64, self.capabilities().size)?;
        self.log.read(at, into)?;
        Ok(Done::NOW)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.may_write(at, from.len() as u64)?;
        self.log.write(at, from)?;
        self.done(fua && !from.is_empty())
    }
    fn joins_writes(&self) -> bool {
        true
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        let mut next = 0;
        while next < pieces.len() {
            let requests = self.whole(&pieces[next..]);
            let all = next..next + requests.len().max(1);
            next = all.end;
            let together = match all.len() {
                1 => None,
                _ => Some(self.log.write_together(&requests).map_err(DiskError::from)),
            };
            for i in all {
                ended(
                    i,
                    match &together {
                        Some(Ok(())) => Ok(Done::NOW),
                        Some(Err(DiskError::Stopped(why))) => Err(DiskError::Stopped(why.clone())),
                        // None of them was admitted: each fails, or not, by itself.
                        _ => self.write(pieces[i].at, pieces[i].bytes, false),
                    },
                );
            }
        }
    }
    fn flush(&self) -> Result<Done, DiskError> {
        if !self.log.is_read_only() {
            self.log.flush()?;
        }
        Ok(Done::NOW)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.may_write(at, bytes)?;
        self.log.trim(at, bytes)?;
        self.done(fua && bytes > 0)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.may_write(at, bytes)?;
        self.log.zero(at, bytes, keep)?;
        self.done(fua && bytes > 0)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        let block = BLOCK as u64;
        !keep && at.is_multiple_of(block) && bytes.is_multiple_of(block)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        inside(at, bytes, self.capabilities().size)?;
        Ok(self.log.extents(at, bytes, most)?)
    }
    fn close(&self) -> Result<(), DiskError> {
        Ok(self.log.close()?)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.log.counters()
    }
}
