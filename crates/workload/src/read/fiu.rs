//! FIU traces (SNIA IOTTA): `ns pid process sector sectors R/W major minor md5`.
//!
//! The process name may contain blanks, so a line is read from the right. Samples cut out of a tar
//! archive end in NUL bytes.

use super::field::{Bad, Cols, Field, is_blank};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

pub(crate) struct Fiu;

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Fiu, Order::Promised(0), Some((' ', ',')), o)))
}

/// The last word of `rest`, and what is before it.
fn last_word<'a>(rest: &mut &'a [u8], expected: &'static str) -> Result<Field<'a>, Bad> {
    let mut end = rest.len();
    while end > 0 && is_blank(rest[end - 1]) {
        end -= 1;
    }
    let mut at = end;
    while at > 0 && !is_blank(rest[at - 1]) {
        at -= 1;
    }
    let field = Field { at, bytes: &rest[at..end] };
    *rest = &rest[..at];
    if field.bytes.is_empty() { Err(field.bad(expected)) } else { Ok(field) }
}

impl LineFormat for Fiu {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        if line[0] == 0 {
            return Ok(Item::Tail);
        }
        let mut rest = line;
        let md5 = last_word(&mut rest, "an MD5 of 32 hexadecimal digits")?;
        if md5.bytes.len() != 32 || !md5.bytes.iter().all(u8::is_ascii_hexdigit) {
            return Err(md5.bad("an MD5 of 32 hexadecimal digits"));
        }
        let minor = last_word(&mut rest, "a minor device number")?;
        minor.u64("a minor device number")?;
        let major = last_word(&mut rest, "a major device number")?;
        major.u64("a major device number")?;
        let kind = last_word(&mut rest, "R or W")?;
        let op = match kind.bytes {
            b"R" => TraceOp::Read,
            b"W" => TraceOp::Write,
            _ => return Err(kind.bad("R or W")),
        };
        let count = last_word(&mut rest, "a number of sectors")?;
        let len = count.scaled(512, "a number of sectors")?;
        let sector = last_word(&mut rest, "a sector number")?;
        let offset = sector.scaled(512, "a sector number below 2^55")?;
        let mut cols = Cols::new(rest);
        let at = cols.word("a time in ns")?.time(TimeUnit::Ns.ps(), "a time in ns")?;
        cols.word("a process id")?.u64("a process id")?;
        // What is left is the name of the process, with any blanks; it may even be empty.
        let device = &line[major.at..minor.at + minor.bytes.len()];
        let app = app_of(&mut stage.apps, Field { at: major.at, bytes: device })?;
        Ok(Item::One(Raw { app, ..Raw::new(at, op, offset, len) }))
    }
}
