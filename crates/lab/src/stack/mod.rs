//! A stack under test: a modelled drive, alone or below a host log (paper 1).
//!
//! Invariants: the counters of the host are those of requests made to the top of the stack, all
//! others are the drive's; every block a host log writes is counted by kind, and the kinds sum to
//! what it wrote to the drive, or the run has no result.

mod above;
mod amplification;
mod config;

use block::{BlockDevice, DeviceError, Request, Sectors, Time};
use remap::paper::PaperLog;
use remap::{HostLog, Options};
use ssd::{Drive, Params, Stats};

pub use above::LayerCounts;
pub use amplification::Amplification;
pub use config::{RemapMode, StackConfig};

use crate::{Device, LabError};
use above::Above;

/// A drive, alone or below a host log.
pub enum Stack {
    /// The drive alone: pass-through, the baseline.
    Bare(Box<Drive>),
    /// Below the host log.
    Log(Box<Above<HostLog<Drive>>>),
    /// Below the host log as the paper has it.
    Paper(Box<Above<PaperLog<Drive>>>),
}

impl Stack {
    /// Makes a fresh drive and what is above it.
    ///
    /// # Errors
    /// A configuration that cannot be.
    pub fn new(params: &Params, config: &StackConfig) -> Result<Stack, LabError> {
        let drive = Drive::new(params)?;
        let failed = |what: String| LabError::Input(format!("remap: {what}"));
        Ok(match config.mode {
            RemapMode::Off => Stack::Bare(Box::new(drive)),
            RemapMode::Varve => {
                let options = Options { payload: false, ..config.log.clone() };
                let log = HostLog::format(drive, &options).map_err(|e| failed(e.to_string()))?;
                Stack::Log(Box::new(Above::new(log)))
            }
            RemapMode::Paper => {
                let log =
                    PaperLog::format(drive, &config.paper).map_err(|e| failed(e.to_string()))?;
                Stack::Paper(Box::new(Above::new(log)))
            }
        })
    }

    fn top(&mut self) -> &mut dyn Device {
        match self {
            Stack::Bare(drive) => &mut **drive,
            Stack::Log(log) => &mut **log,
            Stack::Paper(log) => &mut **log,
        }
    }

    fn top_ref(&self) -> &dyn Device {
        match self {
            Stack::Bare(drive) => &**drive,
            Stack::Log(log) => &**log,
            Stack::Paper(log) => &**log,
        }
    }
}

impl BlockDevice for Stack {
    fn capacity(&self) -> Sectors {
        self.top_ref().capacity()
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.top_ref().atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.top_ref().flush_covers_submitted()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match self {
            Stack::Bare(drive) => drive.submit(at, request),
            Stack::Log(log) => log.submit(at, request),
            Stack::Paper(log) => log.submit(at, request),
        }
    }
}

impl Device for Stack {
    fn stats(&self) -> Stats {
        self.top_ref().stats()
    }
    fn layers(&self) -> Vec<LayerCounts> {
        self.top_ref().layers()
    }
    fn reset_stats(&mut self) {
        self.top().reset_stats();
    }
    fn set_timing(&mut self, on: bool) {
        self.top().set_timing(on);
    }
    fn check(&self) -> Result<(), LabError> {
        self.top_ref().check()
    }
    fn cool_buffer(&mut self) {
        self.top().cool_buffer();
    }
    fn slots_per_page(&self) -> u32 {
        self.top_ref().slots_per_page()
    }
    fn now(&self) -> Time {
        self.top_ref().now()
    }
}
