//! BIOtracer (Zhou et al., "I/O Characteristics of Smartphone Applications", IISWC 2015), traces
//! of a Nexus 5: `sector sectors bytes type t1 t2 t3 t4`, blank-separated, times in seconds.
//!
//! From its README: type bit 0 = write, bit 2 = did not wait; t1 put into the queue, t2 fetched by
//! the driver, t3 given to the hardware, t4 finished. The driver pads some sector counts, so the
//! byte column counts. A phone sets its clock while it boots: lines dated before 1980 come first,
//! and the gap to the set clock is left out.

use block::Span;

use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource};
use super::window::Window;
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

/// Lines are written as requests finish, so their start times are sorted within ten seconds.
const WINDOW: u128 = 10_000_000_000_000;
/// 1980-01-01 in Unix time, in picoseconds.
const YEAR_1980: u128 = 315_532_800 * 1_000_000_000_000;

#[derive(Default)]
pub(crate) struct BioTracer {
    /// Start of the latest line before the clock was set.
    unset: Option<u128>,
    /// What is taken off every time after it.
    shift: u128,
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let span = o.sort_window.map_or(WINDOW, |s| u128::from(s.as_ps()));
    let order = Order::Window(Window::new(span, span));
    Ok(Box::new(TextSource::new(input, BioTracer::default(), order, None, o)))
}

impl BioTracer {
    /// The time with the leap of the clock taken out.
    fn steady(&mut self, at: u128, stage: &mut Stage) -> u128 {
        if at < YEAR_1980 {
            self.unset = self.unset.max(Some(at));
        } else if let Some(last) = self.unset.take() {
            self.shift = at - last;
            stage.summary.clock_leaps += 1;
        }
        if at < YEAR_1980 { at } else { at.saturating_sub(self.shift) }
    }
}

impl LineFormat for BioTracer {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        const TIME: &str = "a time in seconds";
        let mut cols = Cols::new(line);
        let sector = cols.word("a sector number")?;
        let offset = sector.scaled(512, "a sector number below 2^55")?;
        cols.word("a number of sectors")?.u64("a number of sectors")?;
        let len = cols.word("a size in bytes")?.u64("a size in bytes")?;
        let kind = cols.word("a type of 0, 1, 4 or 5")?;
        let op = match kind.bytes {
            b"0" | b"4" => TraceOp::Read,
            b"1" | b"5" => TraceOp::Write,
            _ => return Err(kind.bad("a type of 0, 1, 4 or 5 (bit 0 write, bit 2 no wait)")),
        };
        let queued = cols.word(TIME)?.time(TimeUnit::S.ps(), TIME)?;
        cols.word(TIME)?.time(TimeUnit::S.ps(), TIME)?;
        cols.word(TIME)?.time(TimeUnit::S.ps(), TIME)?;
        let end = cols.word(TIME)?.time(TimeUnit::S.ps(), TIME)?;
        cols.finish()?;
        stage.apps.id(b"disk").map_err(|e| Bad::line(line, e))?;
        // A clock set while the request was under way makes its response time meaningless.
        let clock_set = queued < YEAR_1980 && end >= YEAR_1980;
        let took = end.checked_sub(queued).filter(|_| !clock_set);
        let response = took.and_then(|ps| u64::try_from(ps).ok()).map(Span::from_ps);
        let at = self.steady(queued, stage);
        Ok(Item::One(Raw { response, ..Raw::new(at, op, offset, len) }))
    }
}
