//! Tencent cloud block storage (Zhang et al., "OSCA", ATC 2020):
//! `Timestamp,Offset,Size,IOType,VolumeID`: Unix seconds, sectors, sectors, 0 = read or 1 = write.
//!
//! Whole seconds, and not even those in order: the requests of a second are spread evenly over it,
//! in file order. Volumes are apps.

use block::Span;

use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::window::Spread;
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

/// Seconds a line may come late (1 in the public sample).
const LATE: u64 = 4;

pub(crate) struct Tencent;

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let seconds = |window: Span| window.as_ps().div_ceil(Span::from_us(1_000_000).as_ps());
    let order = Order::Spread(Spread::new(o.sort_window.map_or(LATE, seconds)));
    Ok(Box::new(TextSource::new(input, Tencent, order, None, o)))
}

impl LineFormat for Tencent {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let seconds = cols.number(b',', "a time in whole seconds")?;
        let offset =
            cols.cell(b',', "a sector number")?.scaled(512, "a sector number below 2^55")?;
        let len = cols.cell(b',', "a number of sectors")?.scaled(512, "a number of sectors")?;
        let kind = cols.cell(b',', "0 for a read or 1 for a write")?;
        let op = match kind.bytes {
            b"0" => TraceOp::Read,
            b"1" => TraceOp::Write,
            _ => return Err(kind.bad("0 for a read or 1 for a write")),
        };
        let volume = cols.cell(b',', "a volume number")?;
        volume.u64("a volume number")?;
        cols.finish()?;
        let app = app_of(&mut stage.apps, volume)?;
        let at = u128::from(seconds) * u128::from(TimeUnit::S.ps());
        Ok(Item::One(Raw { app, ..Raw::new(at, op, offset, len) }))
    }
}
