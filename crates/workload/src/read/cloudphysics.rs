//! CloudPhysics CSV: header, then `version,time,op,size,lbn`: seconds, SCSI operation code in
//! hexadecimal, bytes, sectors.
//!
//! Partitions of these disks start on an odd sector, so next to no request is aligned on 4 KiB;
//! `align_shift` moves them.

use super::field::{Bad, Cols, Field};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

#[derive(Default)]
pub(crate) struct CloudPhysics {
    begun: bool,
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, CloudPhysics::default(), Order::Promised(0), None, o)))
}

/// READ and WRITE of 6, 10, 12 and 16 bytes, and SYNCHRONIZE CACHE (SCSI block commands).
fn op_of(field: Field<'_>) -> Result<TraceOp, Bad> {
    match field.hex("a SCSI operation code in hexadecimal")? {
        0x08 | 0x28 | 0xA8 | 0x88 => Ok(TraceOp::Read),
        0x0A | 0x2A | 0xAA | 0x8A => Ok(TraceOp::Write),
        0x35 | 0x91 => Ok(TraceOp::Flush),
        _ => Err(field.bad("a SCSI read (8, 28, 88, a8), write (a, 2a, 8a, aa) or flush (35, 91)")),
    }
}

impl LineFormat for CloudPhysics {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let first = !std::mem::replace(&mut self.begun, true);
        if first && line.starts_with(b"version,") {
            return Ok(Item::NotRequest);
        }
        let mut cols = Cols::new(line);
        let version = cols.cell(b',', "a version")?;
        version.u64("a version")?;
        let time = cols.cell(b',', "a time in seconds")?;
        let at = time.time(TimeUnit::S.ps(), "a time in seconds")?;
        let op = op_of(cols.cell(b',', "a SCSI operation code")?)?;
        let len = cols.number(b',', "a size in bytes")?;
        let lbn = cols.cell(b',', "a sector number")?;
        let offset = lbn.scaled(512, "a sector number below 2^55")?;
        cols.finish()?;
        stage.apps.id(b"disk").map_err(|e| Bad::line(line, e))?;
        Ok(Item::One(Raw::new(at, op, offset, len)))
    }
}
