//! The ground every layer of varve stands on: units that are types, one request type, one device
//! trait, pinned random numbers and checksums.
//!
//! Invariants of this crate:
//! * a bare integer never crosses a public interface where a unit exists;
//! * time is an argument: nothing here reads a clock;
//! * random numbers come from [`Rng`], a pinned generator with named child streams, so that the
//!   same seed gives the same bytes on every machine (contract C9).

mod convert;
mod crc;
mod device;
mod disk;
mod div;
mod error;
mod forward;
mod hash;
mod medium;
mod overlay;
mod plant;
mod ram;
mod rng;
mod time;
mod tx;
mod units;

pub use convert::{ParseUnitError, parse_rate, parse_size, parse_switch, parse_time, switch_text};
pub use crc::crc32c;
pub use device::{BlockDevice, Data, Hint, Op, Request};
pub use disk::{CutDevice, DiskCut, DiskFault, DiskImage, Fate};
pub use div::Divider;
pub use error::DeviceError;
pub use forward::Forward;
pub use hash::EventHash;
pub use medium::{Medium, write_zeroes};
pub use overlay::Overlay;
pub use plant::{PLANTED, Plant};
pub use ram::RamDevice;
pub use rng::Rng;
pub use time::{Span, Time};
pub use tx::{CommitLog, Growth, LogSink, Remap, Transactional, TxError, TxLimits};
pub use units::{
    AppId, BlockId, Bytes, Lba, Lpn, Ppn, SECTOR_BYTES, Sectors, StreamId, TxId, UNIT_BYTES,
};
