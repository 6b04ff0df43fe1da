//! What an experiment needs of a device.

use block::{RamDevice, Remap, Transactional};

/// Work of the flash, by cause, since the counters were last reset.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flash {
    /// Pages programmed for the host.
    pub host: u64,
    /// Pages programmed to commit, trim and remap.
    pub tx: u64,
    /// Pages copied by cleaning.
    pub gc: u64,
    /// Copies that locked blocks have caused (Fig. 9 of paper 4).
    pub additional: u64,
    /// All other programs: maps, checkpoints, padding.
    pub other: u64,
    /// Blocks erased.
    pub erases: u64,
}

impl Flash {
    /// Pages programmed.
    pub fn programs(&self) -> u64 {
        self.host + self.tx + self.gc + self.other
    }
}

/// A device that can do all that the compared systems ask for, and counts the work of its flash.
pub trait Below: Transactional + Remap {
    /// The work since the last reset; `None` for a device without flash.
    fn flash(&self) -> Option<Flash>;
    /// Starts counting again.
    fn reset(&mut self);
}

impl Below for RamDevice {
    fn flash(&self) -> Option<Flash> {
        None
    }
    fn reset(&mut self) {}
}
