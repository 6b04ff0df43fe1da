//! SPC-1 trace file (used by the UMass Financial and WebSearch traces):
//! `ASU,LBA,Size,Opcode,Timestamp[,..]`: sectors, bytes, r or w in any case, seconds.
//!
//! Each application storage unit is its own address space. Blanks around fields and optional
//! fields behind the fifth are allowed, as the SPC document says.

use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

pub(crate) struct Spc;

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Spc, Order::Promised(0), None, o)))
}

impl LineFormat for Spc {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let asu = cols.cell(b',', "an ASU number")?.trim();
        asu.u64("an ASU number")?;
        let lba = cols.cell(b',', "a sector number")?.trim();
        let offset = lba.scaled(512, "a sector number below 2^55")?;
        let len = cols.cell(b',', "a size in bytes")?.trim().u64("a size in bytes")?;
        let code = cols.cell(b',', "r or w")?.trim();
        let op = match code.bytes {
            b"r" | b"R" => TraceOp::Read,
            b"w" | b"W" => TraceOp::Write,
            _ => return Err(code.bad("r or w")),
        };
        let time = cols.cell(b',', "a time in seconds")?.trim();
        let at = time.time(TimeUnit::S.ps(), "a time in seconds")?;
        let app = app_of(&mut stage.apps, asu)?;
        Ok(Item::One(Raw { app, ..Raw::new(at, op, offset, len) }))
    }
}
