//! SYSTOR '17 (Lee et al., "Understanding Storage Traffic Characteristics on Enterprise Virtual
//! Desktop Infrastructure"): header, then `Timestamp,Response,IOType,LUN,Offset,Size`: epoch
//! seconds, seconds, R or W, bytes, bytes.
//!
//! Not in order of time: sorted within ten seconds. A row without a type or an offset is counted.

use block::Span;

use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::window::Window;
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

const WINDOW: u128 = 10_000_000_000_000;

#[derive(Default)]
pub(crate) struct Systor {
    begun: bool,
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let span = o.sort_window.map_or(WINDOW, |s| u128::from(s.as_ps()));
    let order = Order::Window(Window::new(span, span));
    Ok(Box::new(TextSource::new(input, Systor::default(), order, None, o)))
}

impl LineFormat for Systor {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let first = !std::mem::replace(&mut self.begun, true);
        if first && line.len() >= 10 && line[..10].eq_ignore_ascii_case(b"timestamp,") {
            return Ok(Item::NotRequest);
        }
        let mut cols = Cols::new(line);
        let time = cols.cell(b',', "a time in seconds")?;
        let at = time.time(TimeUnit::S.ps(), "a time in seconds")?;
        let took = cols.cell(b',', "a response time in seconds")?;
        let mut response = None;
        if !took.bytes.is_empty() {
            let ps = took.time(TimeUnit::S.ps(), "a response time in seconds")?;
            let ps = u64::try_from(ps).map_err(|_| took.bad("a response time below 213 days"))?;
            response = Some(Span::from_ps(ps));
        }
        let kind = cols.cell(b',', "R or W")?;
        let lun = cols.cell(b',', "a LUN")?;
        let place = cols.cell(b',', "an offset in bytes")?;
        let size = cols.cell(b',', "a size in bytes")?;
        cols.finish()?;
        if kind.bytes.is_empty() || place.bytes.is_empty() {
            return Ok(Item::Incomplete);
        }
        let op = match kind.bytes {
            b"R" => TraceOp::Read,
            b"W" => TraceOp::Write,
            _ => return Err(kind.bad("R or W")),
        };
        let (offset, len) = (place.u64("an offset in bytes")?, size.u64("a size in bytes")?);
        let app = app_of(&mut stage.apps, lun)?;
        Ok(Item::One(Raw { app, response, ..Raw::new(at, op, offset, len) }))
    }
}
