//! Alibaba block traces 2020 (github.com/alibaba/block-traces): `device_id,opcode,offset,length,
//! timestamp`: R or W, bytes, bytes, microseconds since the epoch. No header.
//!
//! All devices stand in one file of 751 GB; read one with the option `app`.

use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

pub(crate) struct Alibaba;

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Alibaba, Order::Promised(0), None, o)))
}

impl LineFormat for Alibaba {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let device = cols.cell(b',', "a device number")?;
        device.u64("a device number")?;
        let kind = cols.cell(b',', "R or W")?;
        let op = match kind.bytes {
            b"R" => TraceOp::Read,
            b"W" => TraceOp::Write,
            _ => return Err(kind.bad("R or W")),
        };
        let offset = cols.number(b',', "an offset in bytes")?;
        let len = cols.number(b',', "a length in bytes")?;
        let micros = cols.number(b',', "a time in microseconds")?;
        cols.finish()?;
        let app = app_of(&mut stage.apps, device)?;
        let at = u128::from(micros) * u128::from(TimeUnit::Us.ps());
        Ok(Item::One(Raw { app, ..Raw::new(at, op, offset, len) }))
    }
}
