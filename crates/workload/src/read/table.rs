//! The five-column ASCII tables of disk and SSD simulators. They look alike and differ in units:
//! none is ever guessed from another.
//!
//! * `disksim`: `ms device sector sectors flags`, flag bit 0 set = read;
//! * `ssdsim` (also MQSim): `time device sector sectors op`, 0 = write, 1 = read, unit of the time
//!   differs by file;
//! * `flashsim`: `ms device sector size op`, 1 = read, unit of the size differs by file.

use super::field::{Bad, Cols, Field};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

pub(crate) struct Table {
    time_ps: u64,
    size_bytes: u64,
    op: fn(Field<'_>) -> Result<TraceOp, Bad>,
}

/// DiskSim: a word of flags, of which only bit 0 says something about the request.
fn op_by_bit(field: Field<'_>) -> Result<TraceOp, Bad> {
    let flags = match field.bytes {
        [b'0', b'x' | b'X', hex @ ..] => Field { at: field.at, bytes: hex }.hex("flags")?,
        _ => field.u64("flags, bit 0 set for a read")?,
    };
    Ok(if flags & 1 == 1 { TraceOp::Read } else { TraceOp::Write })
}

fn op_by_number(field: Field<'_>) -> Result<TraceOp, Bad> {
    match field.bytes {
        b"0" => Ok(TraceOp::Write),
        b"1" => Ok(TraceOp::Read),
        _ => Err(field.bad("0 for a write or 1 for a read")),
    }
}

impl Table {
    fn new(time_ps: u64, size_bytes: u64, op: fn(Field<'_>) -> Result<TraceOp, Bad>) -> Table {
        Table { time_ps, size_bytes, op }
    }
    /// For detection, where units do not matter.
    pub fn probe_flags() -> Table {
        Table::new(1, 512, op_by_bit)
    }
    /// For detection, where units do not matter.
    pub fn probe_number() -> Table {
        Table::new(1, 512, op_by_number)
    }
    fn source(self, input: Input, o: &ReadOptions) -> Box<dyn TraceSource> {
        Box::new(TextSource::new(input, self, Order::Promised(0), None, o))
    }
}

/// DiskSim ASCII.
pub(crate) fn disksim(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Table::new(TimeUnit::Ms.ps(), 512, op_by_bit).source(input, o))
}

/// SSDsim and MQSim ASCII.
pub(crate) fn ssdsim(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let Some(unit) = o.time_unit else {
        return Err(input.unusable(
            "format `ssdsim` does not fix the unit of its times (MQSim: ns; others: us or ms); \
             expected the option `--time-unit ns|us|ms|s`",
        ));
    };
    Ok(Table::new(unit.ps(), 512, op_by_number).source(input, o))
}

/// FlashSim ASCII.
pub(crate) fn flashsim(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let Some(unit) = o.size_unit else {
        return Err(input.unusable(
            "format `flashsim` does not fix the unit of its sizes (4 KiB pages in some files, sectors in \
             others); expected the option `--size-unit page|sector`",
        ));
    };
    Ok(Table::new(TimeUnit::Ms.ps(), unit.bytes(), op_by_number).source(input, o))
}

impl LineFormat for Table {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let at = cols.word("a time")?.time(self.time_ps, "a time")?;
        let device = cols.word("a device number")?;
        device.u64("a device number")?;
        let offset = cols.word("a sector number")?.scaled(512, "a sector number below 2^55")?;
        let len = cols.word("a size")?.scaled(self.size_bytes, "a size")?;
        let op = (self.op)(cols.word("an operation")?)?;
        cols.finish()?;
        let app = app_of(&mut stage.apps, device)?;
        Ok(Item::One(Raw { app, ..Raw::new(at, op, offset, len) }))
    }
}
