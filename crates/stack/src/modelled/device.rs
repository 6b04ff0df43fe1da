//! What the laboratory needs of a stack under test, beside being a block device.

use block::{BlockDevice, DeviceError, Request, Time};
use ssd::{Drive, Stats};

use super::LayerCounts;
use crate::StackError;

/// A modelled device that counts what it does.
pub trait Device: BlockDevice {
    /// Everything it counted since it was made or since [`Device::reset_stats`].
    fn stats(&self) -> Stats;

    /// What the layers above the drive counted in the same time, the highest first.
    fn layers(&self) -> Vec<LayerCounts> {
        Vec::new()
    }

    /// The counters of [`Device::stats`] restart; the state stays.
    fn reset_stats(&mut self);

    /// Off: requests take no virtual time (preconditioning, hit ratios, write amplification).
    fn set_timing(&mut self, on: bool);

    /// Checks that programs add up (C8) and, unless that would take longer than the run did, that
    /// every physical page is in one state (C7: the sweep visits every page of the drive).
    ///
    /// # Errors
    /// [`StackError::Broken`] with what was found.
    fn check(&self) -> Result<(), StackError>;

    /// Empties the drive's buffer, and its policy's memory of what passed it: what is written before a
    /// measured load must not count as hits later, nor as evidence.
    ///
    /// # Errors
    /// The device's.
    fn cool_buffer(&mut self) -> Result<(), DeviceError>;

    /// Slots (mapping units, at most a page) in a NAND page.
    fn slots_per_page(&self) -> u32;

    /// The latest moment anything happened.
    fn now(&self) -> Time;

    /// The drive at the bottom, to be asked what requests wait for; none below memory.
    fn drive_mut(&mut self) -> Option<&mut Drive> {
        None
    }

    /// A clean stop: all is durable, and what comes up from it has nothing to recover.
    ///
    /// # Errors
    /// The device's.
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.submit(at, Request::flush())
    }

    /// Ends what is written beside it: traces.
    ///
    /// # Errors
    /// What kept one from being whole.
    fn end(&mut self) -> Result<(), StackError> {
        Ok(())
    }
}

impl Device for Drive {
    fn stats(&self) -> Stats {
        Drive::stats(self)
    }
    fn reset_stats(&mut self) {
        Drive::reset_stats(self);
    }
    fn set_timing(&mut self, on: bool) {
        Drive::set_timing(self, on);
    }
    fn check(&self) -> Result<(), StackError> {
        let stats = Drive::stats(self);
        let touched: u64 = stats.host.iter().map(|op| op.units).sum();
        let sweep = stats.data_units <= touched.saturating_mul(4);
        if sweep { Drive::check(self) } else { Drive::check_counts(self) }
            .map_err(|v| StackError::Broken { contract: v.contract.to_string(), what: v.what })
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        Drive::cool_buffer(self)
    }
    fn slots_per_page(&self) -> u32 {
        self.params().geometry.slots_per_page
    }
    fn now(&self) -> Time {
        Drive::now(self)
    }
    fn drive_mut(&mut self) -> Option<&mut Drive> {
        Some(self)
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.shutdown(at)
    }
}
