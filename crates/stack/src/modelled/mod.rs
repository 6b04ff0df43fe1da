//! A stack in virtual time: a modelled drive, or memory, alone or below layers.
//!
//! Invariants: the counters of the host are those of requests made to the top of the stack, all
//! others are the drive's; every block a host log writes is counted by kind, and the kinds sum to
//! what it wrote below, or the run has no result.

mod above;
mod amplification;
mod client;
mod device;
mod memory;
mod recorded;

use block::{Bytes, DeviceError, Forward, Sectors, Time};
use remap::paper::{PaperLog, PaperOptions};
use remap::{HostLog, LogOptions};
use ssd::{Drive, Params, Stats};

pub use above::LayerCounts;
pub use amplification::Amplification;
pub use device::Device;

use crate::StackError;
use crate::description::Layer;
use above::Above;
use memory::Memory;
use recorded::Recorded;

/// How the layers of a stack begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// New, below a trace that is played: requests carry no payload, and logs count what they would
    /// write.
    Trace,
    /// New, and they keep what requests carry.
    New,
    /// From what lies below: recovery.
    Again,
}

/// A device in virtual time, whatever it is made of.
pub struct Modelled(Box<dyn Device + Send>);

impl std::fmt::Debug for Modelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Modelled").finish_non_exhaustive()
    }
}

impl Modelled {
    /// A fresh drive.
    ///
    /// # Errors
    /// A drive that cannot be.
    pub fn drive(params: &Params) -> Result<Modelled, StackError> {
        Ok(Modelled(Box::new(Drive::new(params)?)))
    }

    /// Memory of whole sectors.
    pub fn ram(size: Bytes) -> Modelled {
        Modelled(Box::new(Memory::new(Sectors(size.0 / block::SECTOR_BYTES))))
    }

    /// A device of somebody else's.
    pub fn over(device: impl Device + Send + 'static) -> Modelled {
        Modelled(Box::new(device))
    }

    /// The same below layers, the lowest first; `name` says what a trace is of. A trace that is played
    /// carries no payload: logs count what they would write.
    ///
    /// # Errors
    /// A layer that cannot be, or has no place in virtual time.
    pub fn below(self, layers: &[Layer], name: &str) -> Result<Modelled, StackError> {
        self.start(layers, name, Start::Trace)
    }

    /// The same below layers that begin as `start` says.
    ///
    /// # Errors
    /// As [`Modelled::below`]; what lies below holds no such layer, or one that has lost what was
    /// flushed.
    pub fn start(self, layers: &[Layer], name: &str, start: Start) -> Result<Modelled, StackError> {
        layers.iter().try_fold(self, |below, layer| below.below_one(layer, name, start))
    }

    fn below_one(self, layer: &Layer, name: &str, start: Start) -> Result<Modelled, StackError> {
        let failed =
            |e: &dyn std::fmt::Display| StackError::Options(format!("{}: {e}", layer.name()));
        // Making a layer takes time, and the next one begins when it is over.
        let at = self.now();
        Ok(Modelled(match layer {
            Layer::Log(keys) => {
                let mut options = keys.log(LogOptions::default())?;
                options.payload &= start != Start::Trace;
                let log = match start {
                    Start::Again => HostLog::open(self, at, &options),
                    Start::Trace | Start::New => HostLog::format_at(self, at, &options),
                };
                let log = log.map_err(|e| failed(&e))?;
                if let Some(why) = log.read_only() {
                    return Err(failed(&why));
                }
                Box::new(Above::new(log))
            }
            Layer::PaperLog(keys) => {
                let payload = start != Start::Trace;
                let options = keys.paper(PaperOptions { payload, ..PaperOptions::default() })?;
                let log = match start {
                    Start::Again => PaperLog::open_at(self, at, &options),
                    Start::Trace | Start::New => PaperLog::format_at(self, at, &options),
                };
                Box::new(Above::new(log.map_err(|e| failed(&e))?))
            }
            Layer::Record(path) if path.extension().is_some_and(|end| end == "vlog") => {
                return Err(failed(&"with data (.vlog): a run in virtual time has none"));
            }
            Layer::Record(path) => Box::new(Recorded::new(self, path, name)?),
            Layer::Lfs(_) | Layer::Cut { .. } | Layer::ReadOnly | Layer::RealTime => {
                return Err(failed(&"no device in virtual time"));
            }
        }))
    }
}

impl Forward for Modelled {
    type To = dyn Device + Send;
    fn look<R>(&self, look: impl FnOnce(&Self::To) -> R) -> R {
        look(&*self.0)
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Self::To) -> R) -> R {
        ask(&mut *self.0)
    }
}

impl Device for Modelled {
    fn stats(&self) -> Stats {
        self.0.stats()
    }
    fn layers(&self) -> Vec<LayerCounts> {
        self.0.layers()
    }
    fn reset_stats(&mut self) {
        self.0.reset_stats();
    }
    fn set_timing(&mut self, on: bool) {
        self.0.set_timing(on);
    }
    fn check(&self) -> Result<(), StackError> {
        self.0.check()
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        self.0.cool_buffer()
    }
    fn slots_per_page(&self) -> u32 {
        self.0.slots_per_page()
    }
    fn now(&self) -> Time {
        self.0.now()
    }
    fn drive_mut(&mut self) -> Option<&mut Drive> {
        self.0.drive_mut()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.0.stop(at)
    }
    fn end(&mut self) -> Result<(), StackError> {
        self.0.end()
    }
}
