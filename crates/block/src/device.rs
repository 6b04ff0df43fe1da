//! One request type and one device trait: every stack is composed of these.

use crate::{AppId, Bytes, DeviceError, Lba, SECTOR_BYTES, Sectors, StreamId, Time};

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// Read sectors.
    Read = 0,
    /// Write sectors.
    Write = 1,
    /// Make everything acknowledged before durable (contract C1).
    Flush = 2,
    /// Forget sectors: afterwards they read as zeroes (contract C5).
    Discard = 3,
}

/// What the host knows about a request. A device may use it or not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hint {
    /// The application (tenant) it belongs to; results are split by it.
    pub app: AppId,
    /// The stream of a write, so that a layer below need not guess what dies together.
    pub stream: StreamId,
}

/// The payload of a request. A trace has none; a program has.
#[derive(Debug, Default)]
pub enum Data<'a> {
    /// The caller has no data and wants none: only maps are kept.
    #[default]
    None,
    /// Bytes to write: exactly the request's length.
    Write(&'a [u8]),
    /// Where read bytes go: exactly the request's length.
    Read(&'a mut [u8]),
    /// Stamps to write, one 64-bit token for each 4 KiB unit: it stands for a page of
    /// self-describing payload where a harness would otherwise move the whole 4 KiB.
    WriteStamps(&'a [u64]),
    /// Where the stamps of the units read go; 0 = never written.
    ReadStamps(&'a mut [u64]),
}

/// One request to a device.
#[derive(Debug)]
pub struct Request<'a> {
    /// What to do.
    pub op: Op,
    /// First sector (0 for a flush).
    pub lba: Lba,
    /// Number of sectors (0 for a flush).
    pub sectors: Sectors,
    /// Force unit access: a write is durable before it is answered.
    pub fua: bool,
    /// What the host knows.
    pub hint: Hint,
    /// The payload, if any.
    pub data: Data<'a>,
}

impl<'a> Request<'a> {
    fn plain(op: Op, lba: Lba, sectors: Sectors) -> Request<'a> {
        Request { op, lba, sectors, fua: false, hint: Hint::default(), data: Data::None }
    }
    /// A read without data.
    pub fn read(lba: Lba, sectors: Sectors) -> Request<'a> {
        Request::plain(Op::Read, lba, sectors)
    }
    /// A write without data.
    pub fn write(lba: Lba, sectors: Sectors) -> Request<'a> {
        Request::plain(Op::Write, lba, sectors)
    }
    /// A discard.
    pub fn discard(lba: Lba, sectors: Sectors) -> Request<'a> {
        Request::plain(Op::Discard, lba, sectors)
    }
    /// A flush.
    pub fn flush() -> Request<'a> {
        Request::plain(Op::Flush, Lba(0), Sectors(0))
    }
    /// The same request for application `app`.
    pub fn for_app(mut self, app: AppId) -> Request<'a> {
        self.hint.app = app;
        self
    }
    /// The same request of stream `stream`.
    pub fn of_stream(mut self, stream: StreamId) -> Request<'a> {
        self.hint.stream = stream;
        self
    }
    /// The same request with a payload.
    pub fn with(mut self, data: Data<'a>) -> Request<'a> {
        self.data = data;
        self
    }
    /// The same request with force unit access.
    pub fn with_fua(mut self) -> Request<'a> {
        self.fua = true;
        self
    }
}

/// A block device in virtual or real time.
///
/// The caller owes non-decreasing `at`. The device owes the contract (`docs/contract.md`): the
/// returned time is when the request is done, and is never before `at`.
pub trait BlockDevice {
    /// Size of the device.
    fn capacity(&self) -> Sectors;

    /// Bytes that a loss of power leaves whole or not at all: each piece of this size, at a multiple
    /// of it, holds what it held before or what was written last. A power of two. A device that says
    /// nothing keeps sectors whole, and no more.
    fn atomic_unit(&self) -> Bytes {
        Bytes(SECTOR_BYTES)
    }

    /// Whether a flush covers all that was submitted before it. NVMe promises only what was answered
    /// before the flush was submitted: on a device that promises no more, who flushes waits first.
    fn flush_covers_submitted(&self) -> bool {
        true
    }

    /// Performs one request submitted at `at` and returns when it is done.
    ///
    /// # Errors
    /// A [`DeviceError`]; what was acknowledged before stays as promised.
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError>;
}
