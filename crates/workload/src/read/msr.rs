//! MSR Cambridge CSV (Narayanan et al., "Write Off-Loading", FAST 2008), and the same with two
//! more columns, `Flags,Comm`, as this project's own captures have.
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime[,Flags,Comm]`: Windows file time
//! (100 ns since 1601) or 100 ns ticks, bytes, bytes, 100 ns. No header.

use block::Span;

use super::field::{Bad, Cols, Field};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Input, ReadOptions, TraceSource};
use crate::SourceError;
use crate::record::{Flags, TraceOp};

const TICK_PS: u64 = 100_000;

pub(crate) struct Msr {
    app_is_comm: bool,
}

impl Msr {
    pub fn probe() -> Msr {
        Msr { app_is_comm: false }
    }
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let format = Msr { app_is_comm: o.app_is_comm };
    Ok(Box::new(TextSource::new(input, format, Order::Promised(0), Some((',', '_')), o)))
}

fn op_of(field: Field<'_>) -> Result<TraceOp, Bad> {
    Ok(match field.bytes {
        b"Read" => TraceOp::Read,
        b"Write" => TraceOp::Write,
        b"Flush" => TraceOp::Flush,
        b"Discard" => TraceOp::Discard,
        b"Zero" => TraceOp::Zero,
        b if b.eq_ignore_ascii_case(b"read") => TraceOp::Read,
        b if b.eq_ignore_ascii_case(b"write") => TraceOp::Write,
        _ => return Err(field.bad("Read, Write, Flush, Discard or Zero")),
    })
}

fn flags_of(field: Field<'_>) -> Result<Flags, Bad> {
    let mut flags = Flags(0);
    for letter in field.bytes {
        flags = flags.and(match letter {
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            b'A' => Flags::AHEAD,
            b'F' => Flags::FUA,
            b'P' => Flags::PREFLUSH,
            _ => return Err(field.bad("flags out of S, M, A, F, P")),
        });
    }
    Ok(flags)
}

impl LineFormat for Msr {
    #[inline]
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let ticks = match cols.number(b',', "a time in 100 ns") {
            // Names of columns that somebody put there: the traces have none.
            Err(_) if line.starts_with(b"Timestamp,") => return Ok(Item::NotRequest),
            ticks => ticks?,
        };
        let name = cols.pos();
        cols.cell(b',', "a host name")?;
        cols.number(b',', "a disk number")?;
        let volume = Field { at: name, bytes: &line[name..cols.pos().max(name + 1) - 1] };
        let op = op_of(cols.cell(b',', "Read, Write, Flush, Discard or Zero")?)?;
        let offset = cols.number(b',', "an offset in bytes")?;
        let len = cols.number(b',', "a size in bytes")?;
        let took = cols.number(b',', "a response time in 100 ns")?;
        let mut raw = Raw::new(u128::from(ticks) * u128::from(TICK_PS), op, offset, len);
        let ps = took.checked_mul(TICK_PS);
        let ps = ps.ok_or_else(|| Bad::line(line, "a response time below 213 days"))?;
        raw.response = Some(Span::from_ps(ps));
        let mut key = volume;
        if cols.pos() < line.len() || line.ends_with(b",") {
            raw.flags = flags_of(cols.cell(b',', "flags")?)?;
            // The last column may hold commas itself: a thread may have any name.
            let comm = cols.rest();
            if cols.cell(b',', "a thread name").is_err() {
                return Err(comm.bad("the thread name in column 9"));
            }
            if self.app_is_comm {
                key = comm;
            }
        } else if self.app_is_comm {
            return Err(Bad::line(line, "a thread name in column 9, which --app-is-comm needs"));
        }
        raw.app = app_of(&mut stage.apps, key)?;
        Ok(Item::One(raw))
    }
}
