//! What the buffer needs of what lies below it: an FTL, or nothing at all (hit ratios only).

use block::{DeviceError, Time};
use nand::{Payload, ReadCause};

use crate::ftl::{PageFtl, SlotData, Writer};

/// Below the buffer.
pub(crate) trait Backend {
    /// Whether the caller must take care of time, data and discards at all.
    const REAL: bool;
    /// 4 KiB pages in a mapping unit.
    fn unit_pages(&self) -> u32;
    /// Why new writes are refused, if they are. What was admitted before is still written.
    fn read_only(&self) -> Option<&'static str>;
    /// Whether a 4 KiB page holds data.
    fn mapped(&self, page: u32) -> bool;
    /// Adds a 4 KiB page to the read being gathered.
    fn read(&mut self, at: Time, page: u32, cause: ReadCause) -> Result<(), DeviceError>;
    /// When everything gathered has been read.
    fn read_end(&mut self) -> Result<Time, DeviceError>;
    /// What a page holds.
    fn data(&self, page: u32) -> SlotData;
    /// A page that is about to be written takes along what flash holds: it may not be there
    /// before that is certain to stay.
    fn takes_along(&mut self) {}
    /// Writes pages of one mapping unit: `mask` bit i = page i of the unit.
    fn write(
        &mut self,
        ready: Time,
        unit: u32,
        mask: u32,
        pieces: &[Payload],
        writer: Writer,
    ) -> Result<(), DeviceError>;
    /// Forgets whole mapping units.
    fn discard(&mut self, first_unit: u32, units: u32) -> Result<(), DeviceError>;
    /// Programs what is being assembled of host data; when all of it that this request waits
    /// for is on flash.
    fn sync(&mut self) -> Result<Time, DeviceError>;
    /// Programs what this request has written; when that is on flash.
    fn through(&mut self) -> Result<Time, DeviceError>;
    /// Waits until at most `limit` pages of write-back are in flight; when that is.
    fn back_pressure(&mut self, limit: u32) -> Time;
    /// The same for a request that does not wait.
    fn press_nobody(&mut self, limit: u32) {
        self.back_pressure(limit);
    }
}

impl Backend for PageFtl {
    const REAL: bool = true;

    fn unit_pages(&self) -> u32 {
        self.p.unit_pages
    }
    fn read_only(&self) -> Option<&'static str> {
        self.read_only
    }
    fn mapped(&self, page: u32) -> bool {
        PageFtl::mapped(self, page)
    }
    fn read(&mut self, at: Time, page: u32, cause: ReadCause) -> Result<(), DeviceError> {
        let slot = page / (self.g.slot_bytes / 4096);
        self.read_push(at, slot, 1, cause)
    }
    fn read_end(&mut self) -> Result<Time, DeviceError> {
        self.read_finish()
    }
    fn data(&self, page: u32) -> SlotData {
        self.page_data(page)
    }
    fn takes_along(&mut self) {
        self.tx_taken_along();
    }
    fn write(
        &mut self,
        ready: Time,
        unit: u32,
        mask: u32,
        pieces: &[Payload],
        writer: Writer,
    ) -> Result<(), DeviceError> {
        self.write_unit(ready, unit, mask, pieces, writer)
    }
    fn discard(&mut self, first_unit: u32, units: u32) -> Result<(), DeviceError> {
        let per_unit = self.p.unit_pages / (self.g.slot_bytes / 4096).min(self.p.unit_pages);
        let first = first_unit * per_unit;
        let last = (first + units * per_unit).min(self.slots());
        PageFtl::discard(self, first, last - first)
    }
    fn sync(&mut self) -> Result<Time, DeviceError> {
        PageFtl::sync(self)
    }
    fn through(&mut self) -> Result<Time, DeviceError> {
        PageFtl::write_through(self)
    }
    fn back_pressure(&mut self, limit: u32) -> Time {
        PageFtl::back_pressure(self, limit)
    }
    fn press_nobody(&mut self, limit: u32) {
        PageFtl::press_nobody(self, limit);
    }
}

/// Nothing below: counts hits and remembers which pages were written.
#[derive(Clone, Debug)]
pub(crate) struct Nothing {
    written: Vec<u64>,
}

impl Nothing {
    pub fn new(pages: u32) -> Nothing {
        Nothing { written: vec![0; (pages as usize).div_ceil(64)] }
    }
}

impl Backend for Nothing {
    const REAL: bool = false;

    fn unit_pages(&self) -> u32 {
        1
    }
    fn read_only(&self) -> Option<&'static str> {
        None
    }
    fn mapped(&self, page: u32) -> bool {
        self.written[page as usize / 64] >> (page % 64) & 1 == 1
    }
    fn read(&mut self, _: Time, _: u32, _: ReadCause) -> Result<(), DeviceError> {
        Ok(())
    }
    fn read_end(&mut self) -> Result<Time, DeviceError> {
        Ok(Time::ZERO)
    }
    fn data(&self, _: u32) -> SlotData {
        SlotData::Untracked
    }
    fn write(
        &mut self,
        _: Time,
        unit: u32,
        _: u32,
        _: &[Payload],
        _: Writer,
    ) -> Result<(), DeviceError> {
        self.written[unit as usize / 64] |= 1 << (unit % 64);
        Ok(())
    }
    fn discard(&mut self, first_unit: u32, units: u32) -> Result<(), DeviceError> {
        for unit in first_unit..first_unit + units {
            self.written[unit as usize / 64] &= !(1 << (unit % 64));
        }
        Ok(())
    }
    fn sync(&mut self) -> Result<Time, DeviceError> {
        Ok(Time::ZERO)
    }
    fn through(&mut self) -> Result<Time, DeviceError> {
        Ok(Time::ZERO)
    }
    fn back_pressure(&mut self, _: u32) -> Time {
        Time::ZERO
    }
}
