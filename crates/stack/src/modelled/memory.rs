//! Memory as a device that counts: no flash, no time.

use block::{BlockDevice, DeviceError, RamDevice, Request, Sectors, Time};
use ssd::Stats;

use super::Device;
use super::client::Client;
use crate::StackError;

/// A RAM disk with the counters of whoever submits to it.
pub(super) struct Memory {
    ram: RamDevice,
    client: Client,
    now: Time,
}

impl Memory {
    pub(super) fn new(sectors: Sectors) -> Memory {
        Memory { ram: RamDevice::new(sectors), client: Client::default(), now: Time::ZERO }
    }
}

impl BlockDevice for Memory {
    fn capacity(&self) -> Sectors {
        self.ram.capacity()
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.ram.atomic_unit()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.client.count(&request);
        self.now = self.now.max(at);
        self.ram.submit(at, request)
    }
}

impl Device for Memory {
    fn stats(&self) -> Stats {
        self.client.instead(Stats::default())
    }
    fn reset_stats(&mut self) {
        self.client = Client::default();
    }
    fn set_timing(&mut self, _: bool) {}
    fn check(&self) -> Result<(), StackError> {
        Ok(())
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn slots_per_page(&self) -> u32 {
        1
    }
    fn now(&self) -> Time {
        self.now
    }
}
