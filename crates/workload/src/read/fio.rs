//! fio I/O logs, versions 2 and 3. First line `fio version N iolog`.
//!
//! Version 2: `file action [offset length]`, no times (replay it closed-loop); `file wait us`
//! moves its clock. Version 3: `time file action [offset length]`; the manual gives no unit for
//! the time, fio 3.33 writes microseconds. Offsets and lengths are bytes; every file is an app.

use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

pub(crate) struct Fio {
    version: u8,
    begun: bool,
    /// Clock of version 2, moved by `wait` only.
    clock: u128,
}

impl Fio {
    pub fn v2() -> Fio {
        Fio { version: 2, begun: false, clock: 0 }
    }
    pub fn v3() -> Fio {
        Fio { version: 3, begun: false, clock: 0 }
    }
    fn header(&self, line: &[u8]) -> Result<Item, Bad> {
        let wanted: &[u8] =
            if self.version == 2 { b"fio version 2 iolog" } else { b"fio version 3 iolog" };
        let name =
            if self.version == 2 { "`fio version 2 iolog`" } else { "`fio version 3 iolog`" };
        if line.trim_ascii() == wanted { Ok(Item::NotRequest) } else { Err(Bad::line(line, name)) }
    }
}

pub(crate) fn open_v2(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Fio::v2(), Order::Promised(0), None, o)))
}

pub(crate) fn open_v3(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Fio::v3(), Order::Promised(0), None, o)))
}

impl LineFormat for Fio {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        if !std::mem::replace(&mut self.begun, true) {
            return self.header(line);
        }
        let us = TimeUnit::Us.ps();
        let mut cols = Cols::new(line);
        let mut at = self.clock;
        if self.version == 3 {
            at = cols.word("a time in microseconds")?.time(us, "a time in microseconds")?;
        }
        let file = cols.word("a file name")?;
        let action = cols.word("an action")?;
        let op = match action.bytes {
            b"read" => TraceOp::Read,
            b"write" => TraceOp::Write,
            b"trim" => TraceOp::Discard,
            b"sync" | b"datasync" => TraceOp::Flush,
            b"add" | b"open" | b"close" => return Ok(Item::NotRequest),
            b"wait" if self.version == 2 => {
                self.clock += cols.word("microseconds")?.time(us, "microseconds")?;
                return Ok(Item::NotRequest);
            }
            _ => {
                let expected =
                    "add, open, close, read, write, sync, datasync or trim (version 2: also wait)";
                return Err(action.bad(expected));
            }
        };
        let mut raw = Raw::new(at, op, 0, 0);
        // fio writes `0 0` behind a sync, or nothing.
        if op != TraceOp::Flush {
            raw.offset = cols.word("an offset in bytes")?.u64("an offset in bytes")?;
            raw.len = cols.word("a length in bytes")?.u64("a length in bytes")?;
            cols.finish()?;
        }
        raw.app = app_of(&mut stage.apps, file)?;
        Ok(Item::One(raw))
    }
}
