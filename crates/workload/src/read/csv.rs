//! Any table of text, described by the caller:
//! `at=1:us,op=2,off=3:sector,len=4:byte[,app=5][,resp=6:us]`, columns from 1, units always given.
//!
//! Cells are separated by commas, semicolons or tabs, or by blanks, whichever of these the first
//! line holds. A first line without numbers is a header, unless it is a flush at a time.

use block::Span;

use super::field::{Bad, Cols, Field};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Carries, Input, ReadOptions, SizeUnit, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

/// Columns looked at; a table of more is cut off in the middle of a thought.
const MOST: usize = 64;

#[derive(Clone, Copy, Default)]
struct Columns {
    at: Option<(usize, u64)>,
    op: Option<usize>,
    off: Option<(usize, u64)>,
    len: Option<(usize, u64)>,
    app: Option<usize>,
    resp: Option<(usize, u64)>,
}

/// Texts of a column and the operations they stand for.
pub(crate) type Ops = Vec<(Box<[u8]>, TraceOp)>;

pub(crate) struct Csv {
    columns: Columns,
    ops: Ops,
    last: usize,
    separator: Option<u8>,
    begun: bool,
}

fn columns(text: &str) -> Result<Columns, String> {
    const EXPECTED: &str = "expected columns such as `at=1:us,op=2,off=3:sector,len=4:byte`, with app=N and resp=N:us if there are such";
    let mut c = Columns::default();
    for part in text.split(',') {
        let err = || format!("found `{part}` in the columns; {EXPECTED}");
        let (key, value) = part.trim().split_once('=').ok_or_else(err)?;
        let (number, unit) = value.split_once(':').map_or((value, None), |(n, u)| (n, Some(u)));
        let column: usize = number.parse().map_err(|_| err())?;
        if column == 0 || column > MOST {
            return Err(format!("found column {column}; expected one from 1 to {MOST}"));
        }
        let time = unit.and_then(TimeUnit::parse).map(|u| (column, u.ps()));
        let size = unit.and_then(SizeUnit::parse).map(|u| (column, u.bytes()));
        match key {
            "at" => c.at = Some(time.ok_or_else(err)?),
            "resp" => c.resp = Some(time.ok_or_else(err)?),
            "off" => c.off = Some(size.ok_or_else(err)?),
            "len" => c.len = Some(size.ok_or_else(err)?),
            "op" if unit.is_none() => c.op = Some(column),
            "app" if unit.is_none() => c.app = Some(column),
            _ => return Err(err()),
        }
    }
    if c.off.is_none() || c.len.is_none() {
        return Err(format!("the columns `off` and `len` are missing; {EXPECTED}"));
    }
    Ok(c)
}

pub(crate) fn op_map(text: Option<&str>) -> Result<Ops, String> {
    let text = text.unwrap_or(
        "R=R,R=r,R=Read,R=read,R=READ,W=W,W=w,W=Write,W=write,W=WRITE,F=Flush,F=flush,D=Discard,D=discard,Z=Zero",
    );
    let mut ops = Vec::new();
    for part in text.split(',') {
        let err =
            || format!("found `{part}` in the operations; expected such as `R=0,W=1,F=2,D=3,Z=4`");
        let (key, value) = part.trim().split_once('=').ok_or_else(err)?;
        let op = match key {
            "R" => TraceOp::Read,
            "W" => TraceOp::Write,
            "F" => TraceOp::Flush,
            "D" => TraceOp::Discard,
            "Z" => TraceOp::Zero,
            _ => return Err(err()),
        };
        ops.push((value.as_bytes().into(), op));
    }
    Ok(ops)
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let Some(text) = &o.columns else {
        return Err(input.unusable(
            "format `csv` needs to be told its columns; expected the option `--columns at=1:us,op=2,off=3:sector,len=4:byte`",
        ));
    };
    let columns = columns(text).map_err(|e| input.unusable(e))?;
    let ops = op_map(o.op_map.as_deref()).map_err(|e| input.unusable(e))?;
    let order = if columns.at.is_some() { Order::Promised(0) } else { Order::Untimed };
    let used = [columns.at, columns.off, columns.len, columns.resp];
    let used = used.into_iter().flatten().map(|(n, _)| n).chain(columns.op).chain(columns.app);
    let format = Csv { columns, ops, last: used.max().unwrap_or(1), separator: None, begun: false };
    Ok(Box::new(TextSource::new(input, format, order, None, o)))
}

/// What a table of these columns knows.
pub(crate) fn carries(text: &str) -> Carries {
    let c = columns(text).unwrap_or_default();
    let (time, op, response) = (c.at.is_some(), c.op.is_some(), c.resp.is_some());
    Carries { time, op, response, flush: op }
}

impl Csv {
    fn is_flush(&self, cells: &[Field<'_>]) -> bool {
        let said = |column: usize| cells[column - 1].bytes;
        let flush = |(text, op): &(Box<[u8]>, TraceOp)| {
            *op == TraceOp::Flush && self.columns.op.is_some_and(|n| **text == *said(n))
        };
        let timed = |(n, _): (usize, u64)| said(n).iter().any(u8::is_ascii_digit);
        self.ops.iter().any(flush) && self.columns.at.is_none_or(timed)
    }

    fn cells<'a>(&self, line: &'a [u8]) -> Result<[Field<'a>; MOST], Bad> {
        const EXPECTED: &str = "as many columns as the option `columns` names";
        let mut cells = [Field { at: 0, bytes: &line[..0] }; MOST];
        let mut cols = Cols::new(line);
        for cell in cells.iter_mut().take(self.last) {
            *cell = match self.separator {
                Some(sep) => cols.cell(sep, EXPECTED)?.trim(),
                None => cols.word(EXPECTED)?,
            };
        }
        Ok(cells)
    }

    fn record(&self, cells: &[Field<'_>], stage: &mut Stage) -> Result<Raw, Bad> {
        let c = &self.columns;
        let mut raw = Raw::new(0, TraceOp::Read, 0, 0);
        if let Some((n, unit)) = c.at {
            raw.at = cells[n - 1].time(unit, "a time")?;
        }
        if let Some(n) = c.op {
            let cell = cells[n - 1];
            let op = self.ops.iter().find(|(text, _)| **text == *cell.bytes);
            raw.op = op.ok_or_else(|| cell.bad("an operation that the option `op` names"))?.1;
        }
        if let (Some((off, unit)), Some((len, scale))) = (c.off, c.len)
            && raw.op != TraceOp::Flush
        {
            raw.offset = cells[off - 1].scaled(unit, "an offset")?;
            raw.len = cells[len - 1].scaled(scale, "a length")?;
        }
        if let Some((n, unit)) = c.resp {
            let took = u64::try_from(cells[n - 1].time(unit, "a response time")?);
            raw.response = Some(Span::from_ps(
                took.map_err(|_| cells[n - 1].bad("a response time below 213 days"))?,
            ));
        }
        if let Some(n) = c.app {
            raw.app = app_of(&mut stage.apps, cells[n - 1])?;
        } else {
            raw.app = app_of(&mut stage.apps, Field { at: 0, bytes: b"trace" })?;
        }
        Ok(raw)
    }
}

impl LineFormat for Csv {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            self.separator = [b',', b';', b'\t'].into_iter().find(|s| line.contains(s));
        }
        let cells = self.cells(line)?;
        if first {
            let place = self.columns.off.map_or(0, |(n, _)| n - 1);
            let headed = !cells[place].bytes.iter().any(u8::is_ascii_digit);
            // A flush says nowhere where it is.
            if headed && !self.is_flush(&cells) {
                return Ok(Item::NotRequest);
            }
        }
        Ok(Item::One(self.record(&cells, stage)?))
    }
}
