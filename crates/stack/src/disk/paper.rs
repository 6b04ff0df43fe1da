//! Paper 1's own log over a medium, served for comparison: it loses what its paper loses.
//!
//! One request at a time, each done when it returns; time is the clock's, because a transaction of
//! the paper also ends by age.

use std::sync::Arc;

use block::Medium;
use block::{BlockDevice, Data, DeviceError, Op, Request, SECTOR_BYTES, Sectors, Time};
use remap::paper::{PaperLog, PaperOptions, TrimRule};

use super::model::{ModelDisk, Modelled, Timing};
use crate::description::Keys;

/// What a place of the paper's table holds, in bytes.
const BLOCK: u64 = 4096;

/// A medium as a device of virtual time that takes none.
#[derive(Clone, Debug)]
pub struct MediumDevice {
    medium: Arc<dyn Medium>,
    size: u64,
    /// Why a sync failed: a later one says nothing of what was written before.
    failed: Option<DeviceError>,
}

impl MediumDevice {
    fn sync(&mut self) -> Result<(), DeviceError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.medium.sync().map_err(|error| self.failed.insert(io(error)).clone())
    }
}

fn io(error: std::io::Error) -> DeviceError {
    DeviceError::Io(error.to_string())
}

impl BlockDevice for MediumDevice {
    fn capacity(&self) -> Sectors {
        Sectors(self.size / SECTOR_BYTES)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (first, bytes) = (request.lba.0 * SECTOR_BYTES, request.sectors.bytes().0);
        match (request.op, request.data) {
            (Op::Read, Data::Read(into)) => self.medium.read(first, into).map_err(io)?,
            (Op::Write, Data::Write(from)) => self.medium.write(first, from).map_err(io)?,
            (Op::Discard, _) => self.medium.discard(first, bytes).map_err(io)?,
            (Op::Flush, _) => self.sync()?,
            _ => return Err(DeviceError::Unsupported("a medium reads and writes bytes")),
        }
        if request.fua {
            self.sync()?;
        }
        Ok(at)
    }
}

/// The paper's log over a medium.
pub type PaperDisk = ModelDisk<PaperLog<MediumDevice>>;

impl Modelled for PaperLog<MediumDevice> {
    fn unit(&self) -> u32 {
        BLOCK as u32
    }
    fn grain(&self) -> u64 {
        BLOCK
    }
    fn now(&self) -> Time {
        self.clock()
    }
    fn stop(&mut self) -> Result<(), DeviceError> {
        PaperLog::stop(self, self.clock()).map(drop)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let s = self.stats();
        vec![
            ("backing_blocks", s.backing),
            ("user_blocks", s.user),
            ("log_blocks", s.log),
            ("table_blocks", s.tables),
            ("moved_blocks", s.moved),
            ("commits", s.commits),
            ("cleanings", s.turns),
            ("idle_cleanings", s.idle_turns),
        ]
    }
}

impl PaperDisk {
    /// Opens the log on a medium; one that begins with zeroes gets a new one, which offers four
    /// fifths of its data area. Discards make table entries invalid: a client that asks for zeroes
    /// must get them while the power is on.
    ///
    /// # Errors
    /// There is something else on it, or what the medium says.
    pub fn open_or_format(medium: Arc<dyn Medium>, keys: &Keys) -> Result<PaperDisk, DeviceError> {
        let size = medium.size().map_err(io)? / BLOCK * BLOCK;
        let mut first = vec![0; size.min(1 << 20) as usize];
        medium.read(0, &mut first).map_err(io)?;
        let device = MediumDevice { medium, size, failed: None };
        let options = PaperOptions { trim: TrimRule::Invalidate, ..PaperOptions::default() };
        let mut options = keys.paper(options).map_err(|e| DeviceError::Io(e.to_string()))?;
        let log = if first.iter().any(|b| *b != 0) {
            PaperLog::open(device, &options)?
        } else {
            if keys.get("blocks").is_none() {
                let all = options.data_blocks(size / BLOCK)?;
                options.blocks = (all - all / 5).max(1);
            }
            PaperLog::format(device, &options)?
        };
        Ok(ModelDisk::new(log, Timing::Model))
    }
}
