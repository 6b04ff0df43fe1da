//! `blkparse` text in its default layout:
//! `maj,min cpu seq sec.ns pid ACTION rwbs sector + count [comm]`.
//!
//! Only `D` (issue) lines are requests; `C` gives them their response time; every other action is
//! counted. The per-CPU statistics at the end stop the trace. Lines of different CPUs are not in
//! order (50 ms seen), so they are sorted within [`SORT`].

use super::field::{Bad, Cols, Field};
use super::stage::{Done, Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource, app_of};
use super::window::Window;
use super::{Input, ReadOptions, TraceSource};
use crate::SourceError;
use crate::record::{Flags, TraceOp};

/// Lines are sorted within one second, if no other time is asked for ..
const SORT: u128 = 1_000_000_000_000;
/// .. and an issue waits nine more for its completion.
const HOLD: u128 = 9 * SORT;

/// The order of events of several CPUs, in text and in binary.
pub(crate) fn order(o: &ReadOptions) -> Order {
    let sort = o.sort_window.map_or(SORT, |s| u128::from(s.as_ps()));
    Order::Window(Window::new(sort, sort + HOLD))
}

pub(crate) struct Blkparse;

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Blkparse, order(o), None, o)))
}

/// Operation and flags of an rwbs field; `None` for a request without direction (`N`).
///
/// A leading F is a preflush if W, R or D follows, else the request is a flush; an F behind the
/// operation is FUA (`blk_fill_rwbs` of Linux).
fn rwbs(field: Field<'_>) -> Result<Option<(TraceOp, Flags)>, Bad> {
    const EXPECTED: &str = "rwbs such as R, WS, FWFSM, D or FN";
    let (mut rest, mut flags) = (field.bytes, Flags(0));
    if let [b'F', b'W' | b'R' | b'D', ..] = rest {
        flags = Flags::PREFLUSH;
        rest = &rest[1..];
    }
    let Some((first, mut rest)) = rest.split_first() else { return Err(field.bad(EXPECTED)) };
    let mut op = match first {
        b'R' => Some(TraceOp::Read),
        b'W' => Some(TraceOp::Write),
        b'D' => Some(TraceOp::Discard),
        b'F' => Some(TraceOp::Flush),
        b'N' => None,
        _ => return Err(field.bad(EXPECTED)),
    };
    if let (Some(TraceOp::Write), [b'Z', tail @ ..]) = (op, rest) {
        op = Some(TraceOp::Zero);
        rest = tail;
    }
    for letter in rest {
        flags = flags.and(match letter {
            b'F' if op != Some(TraceOp::Flush) => Flags::FUA,
            b'A' => Flags::AHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            // N: no data direction; F of a flush: again; B: barrier; E: secure; U: atomic; T: swap.
            b'N' | b'F' | b'B' | b'E' | b'U' | b'T' => Flags(0),
            _ => return Err(field.bad(EXPECTED)),
        });
    }
    Ok(op.map(|op| (op, flags)))
}

impl LineFormat for Blkparse {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let device = cols.word("a device as major,minor")?;
        let statistics = device.bytes.starts_with(b"CPU") || device.bytes == b"Total";
        if statistics && cols.rest().trim().bytes.starts_with(b"(") {
            return Ok(Item::Tail);
        }
        let Some(comma) = device.bytes.iter().position(|b| *b == b',') else {
            return Err(device.bad("a device as major,minor"));
        };
        let (major, minor) = (&device.bytes[..comma], &device.bytes[comma + 1..]);
        if super::field::digits(major).is_none() || super::field::digits(minor).is_none() {
            return Err(device.bad("a device as major,minor"));
        }
        cols.word("a CPU number")?.u64("a CPU number")?;
        cols.word("a sequence number")?.u64("a sequence number")?;
        let at = cols.word("a time")?.time(1_000_000_000_000, "a time as seconds.nanoseconds")?;
        cols.word("a process id")?.u64("a process id")?;
        let action = cols.word("an action")?;
        if action.bytes != b"D" && action.bytes != b"C" {
            let known = action.bytes.len() <= 2 && action.bytes.iter().all(u8::is_ascii_alphabetic);
            return if known {
                Ok(Item::OtherEvent)
            } else {
                Err(action.bad("an action such as D or C"))
            };
        }
        let kind = cols.word("rwbs such as R, WS or FN")?;
        let Some((mut op, flags)) = rwbs(kind)? else { return Ok(Item::OtherEvent) };
        let app = app_of(&mut stage.apps, device)?;
        let place = place(&mut cols)?;
        let Some((offset, len)) = place.or((op == TraceOp::Flush).then_some((0, 0))) else {
            // An empty write that asks for a flush is a flush; other empty ones carry commands.
            if !flags.has(Flags::PREFLUSH) {
                return Ok(Item::OtherEvent);
            }
            op = TraceOp::Flush;
            return Ok(event(action, Raw { app, flags, ..Raw::new(at, op, 0, 0) }));
        };
        if len == 0 && flags.has(Flags::PREFLUSH) {
            op = TraceOp::Flush;
        }
        Ok(event(action, Raw { app, flags, ..Raw::new(at, op, offset, len) }))
    }
}

fn event(action: Field<'_>, raw: Raw) -> Item {
    if action.bytes == b"D" {
        return Item::One(raw);
    }
    Item::Done(Done { at: raw.at, offset: raw.offset, app: raw.app, op: raw.op })
}

/// `sector + count`, in bytes; `None` where a request has no place.
fn place(cols: &mut Cols<'_>) -> Result<Option<(u64, u64)>, Bad> {
    const EXPECTED: &str = "sector + count";
    let rest = cols.rest().trim();
    if rest.bytes.is_empty() || matches!(rest.bytes[0], b'[' | b'(') {
        return Ok(None);
    }
    let sector = cols.word(EXPECTED)?;
    // A flush may complete at sector 2^64 - 1, "nowhere".
    if sector.u64("a sector number")? == u64::MAX {
        return Ok(None);
    }
    let offset = sector.scaled(512, "a sector number below 2^55")?;
    let next = cols.clone().word(EXPECTED);
    let Ok(plus) = next else { return Err(cols.rest().bad(EXPECTED)) };
    if plus.bytes != b"+" {
        // `sector [error]`: a completion without a length.
        return if plus.bytes.starts_with(b"[") {
            Ok(Some((offset, 0)))
        } else {
            Err(plus.bad("`+`"))
        };
    }
    cols.word("`+`")?;
    let count = cols.word("a number of sectors")?;
    Ok(Some((offset, count.scaled(512, "a number of sectors")?)))
}
