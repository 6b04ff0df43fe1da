//! The device below a log, in virtual time: the one place every block passes.

use block::{BlockDevice, Data, DeviceError, Lba, Request, SECTOR_BYTES, Sectors, StreamId, Time};

use crate::engine::HeadKind;
use crate::geometry::{BLOCK, Pba};
use crate::store::Store;

const SECTORS: u64 = BLOCK as u64 / SECTOR_BYTES;

/// What goes with blocks that are written.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Nothing,
    Bytes(&'a [u8]),
    Stamps(&'a [u64]),
}

pub(super) struct Below<D> {
    pub device: D,
    /// When the next operation is submitted.
    pub clock: Time,
    /// When the last of the operations so far is done.
    pub done: Time,
    /// Each operation waits for the one before: opening and formatting.
    pub in_turn: bool,
    /// What is written is kept; else only counted.
    pub payload: bool,
    /// Blocks written.
    pub written: u64,
    /// Blocks read.
    pub read: u64,
    /// Something was written since a flush was last submitted.
    pub unflushed: bool,
}

fn lba(at: Pba) -> Lba {
    Lba(u64::from(at.0) * SECTORS)
}

impl<D: BlockDevice> Below<D> {
    pub fn new(device: D, clock: Time, payload: bool) -> Below<D> {
        Below {
            device,
            clock,
            done: clock,
            in_turn: true,
            payload,
            written: 0,
            read: 0,
            unflushed: false,
        }
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Time, DeviceError> {
        let done = self.device.submit(self.clock, request)?;
        self.done = self.done.max(done);
        if self.in_turn {
            self.clock = self.clock.max(done);
        }
        Ok(done)
    }

    /// Writes `count` blocks, with a hint of what dies together.
    pub fn put(
        &mut self,
        at: Pba,
        count: u32,
        what: Payload<'_>,
        stream: StreamId,
    ) -> Result<Time, DeviceError> {
        let data = match what {
            Payload::Bytes(bytes) if self.payload => Data::Write(bytes),
            Payload::Stamps(stamps) if self.payload => Data::WriteStamps(stamps),
            _ => Data::None,
        };
        let sectors = Sectors(u64::from(count) * SECTORS);
        self.written += u64::from(count);
        self.unflushed = true;
        self.submit(Request::write(lba(at), sectors).of_stream(stream).with(data))
    }

    /// Reads `count` blocks.
    pub fn get(&mut self, at: Pba, count: u32, into: Data<'_>) -> Result<Time, DeviceError> {
        let sectors = Sectors(u64::from(count) * SECTORS);
        self.read += u64::from(count);
        self.submit(Request::read(lba(at), sectors).with(into))
    }

    /// Flushes what was written so far: if need be when all of it has been answered, and until then time
    /// passes.
    pub fn flush_device(&mut self) -> Result<Time, DeviceError> {
        if !self.device.flush_covers_submitted() {
            self.clock = self.clock.max(self.done);
        }
        self.unflushed = false;
        self.submit(Request::flush())
    }

    pub fn discard(&mut self, at: Pba, count: u32) -> Result<(), DeviceError> {
        let sectors = Sectors(u64::from(count) * SECTORS);
        // Nothing waits for a discard.
        self.device.submit(self.clock, Request::discard(lba(at), sectors)).map(|_| ())
    }
}

impl<D: BlockDevice> Store for Below<D> {
    fn blocks(&self) -> u64 {
        self.device.capacity().0 / SECTORS
    }
    fn read(&mut self, at: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        let count = (out.len() / BLOCK) as u32;
        self.get(at, count, Data::Read(out)).map(|_| ())
    }
    fn read_stamps(&mut self, at: Pba, out: &mut [u64]) -> Result<(), DeviceError> {
        let count = out.len() as u32;
        self.get(at, count, Data::ReadStamps(out)).map(|_| ())
    }
    fn write(&mut self, at: Pba, bytes: &[u8]) -> Result<(), DeviceError> {
        let count = (bytes.len() / BLOCK) as u32;
        self.put(at, count, Payload::Bytes(bytes), HeadKind::Meta.stream()).map(|_| ())
    }
    /// Waits: what a checkpoint writes next relies on what it wrote before.
    fn flush(&mut self) -> Result<(), DeviceError> {
        let done = self.flush_device()?;
        self.clock = self.clock.max(done);
        Ok(())
    }
}
