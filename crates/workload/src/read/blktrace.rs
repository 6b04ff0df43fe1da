//! blktrace's binary files: 48-byte records, each followed by `pdu_len` bytes.
//!
//! magic u32 (0x65617407, the low byte is the version), sequence u32, time u64 ns, sector u64,
//! bytes u32, action u32, pid u32, device u32, cpu u32, error u16, pdu_len u16 (the kernel's
//! blktrace interface). The writer's byte order shows in the magic. There is one file for each CPU
//! (`sda.blktrace.0`, `sda.blktrace.1`, ..): opening any of them merges all by time.

use std::path::{Path, PathBuf};

use super::binary::{BinFormat, BinSource, Step};
use super::blkparse::order;
use super::stage::{Done, Raw, Stage};
use super::{Input, ReadOptions, TraceSource};
use crate::SourceError;
use crate::record::{Flags, TraceOp};

const RECORD: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
/// Low half of an action: issued to the driver.
const ISSUE: u32 = 7;
/// Low half of an action: completed.
const COMPLETE: u32 = 8;
/// Low half of an action: set where a control group's id stands before the payload.
const CGROUP: u32 = 1 << 8;
/// High half of an action: category bits.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const PASSTHROUGH: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// One record without its payload.
#[derive(Clone, Copy)]
struct Event {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
}

/// What a file holds next.
enum Head {
    Event(Event),
    End,
    /// Too few bytes for a whole record; where and how many.
    Cut(u64, usize),
}

pub(crate) struct Blktrace {
    /// Files of the other CPUs.
    others: Vec<Input>,
    /// What each file, the opened one first, holds next.
    heads: Vec<Option<Head>>,
    swapped: Option<bool>,
}

pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.len() >= RECORD && word(head).is_some_and(|w| order_of(w).is_some())
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))
}

/// Whether a magic is in the other byte order; `None` if it is no magic.
fn order_of(word: u32) -> Option<bool> {
    let is = |w: u32| w & 0xFFFF_FF00 == MAGIC && w & 0xFF == VERSION;
    if is(word) { Some(false) } else { is(word.swap_bytes()).then_some(true) }
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let mut others = Vec::new();
    for path in siblings(input.path())? {
        others.push(Input::open(&path)?);
    }
    let heads = (0..=others.len()).map(|_| None).collect();
    let format = Blktrace { others, heads, swapped: None };
    Ok(Box::new(BinSource::new(input, format, order(o), o)))
}

/// Whether a file is called `NAME.blktrace.N`, so that it may be one of several.
pub(crate) fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.rsplit_once('.')).is_some_and(|(stem, n)| part_of(stem, n))
}

/// The files of the other CPUs beside `NAME.blktrace.N`, in order of their names.
pub(crate) fn siblings(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Ok(Vec::new()) };
    let Some((stem, _)) = name.rsplit_once('.').filter(|(s, n)| part_of(s, n)) else {
        return Ok(Vec::new());
    };
    let folder = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let io = |source| SourceError::Io { path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let file = entry.map_err(io)?.file_name();
        let Some(other) = file.to_str() else { continue };
        let same = other.rsplit_once('.').is_some_and(|(s, n)| s == stem && part_of(s, n));
        if same && other != name {
            found.push(folder.join(other));
        }
    }
    found.sort();
    Ok(found)
}

fn part_of(stem: &str, number: &str) -> bool {
    stem.ends_with(".blktrace") && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

impl Blktrace {
    /// Reads the next record of one file.
    fn next(&mut self, input: &mut Input, n: u64) -> Result<Head, SourceError> {
        let at = input.offset();
        let record = input.take(RECORD)?;
        if record.is_empty() {
            return Ok(Head::End);
        }
        if record.len() < RECORD {
            return Ok(Head::Cut(at, record.len()));
        }
        let magic = word(record).unwrap_or(0);
        let order = order_of(magic);
        let Some(swap) = order.filter(|s| self.swapped.is_none_or(|all| all == *s)) else {
            return Err(SourceError::Syntax {
                path: input.path().to_path_buf(),
                line: n + 1,
                column: at,
                found: format!("{magic:#010x}"),
                expected: "the magic 0x65617407 at the start of a record".into(),
            });
        };
        self.swapped = Some(swap);
        let get32 = |i: usize| {
            let w = word(&record[i..]).unwrap_or(0);
            if swap { w.swap_bytes() } else { w }
        };
        let get64 = |i: usize| {
            let (a, b) = (u64::from(get32(i)), u64::from(get32(i + 4)));
            if swap { a << 32 | b } else { b << 32 | a }
        };
        let pdu = [record[46], record[47]];
        let pdu = if swap { u16::from_be_bytes(pdu) } else { u16::from_le_bytes(pdu) };
        let event = Event {
            time: get64(8),
            sector: get64(16),
            bytes: get32(24),
            action: get32(28),
            device: get32(36),
        };
        let pdu = usize::from(pdu);
        if input.take(pdu)?.len() < pdu {
            return Ok(Head::Cut(at, RECORD));
        }
        Ok(Head::Event(event))
    }

    /// Makes sure every file shows what it holds next.
    fn look(&mut self, input: &mut Input, n: u64) -> Result<(), SourceError> {
        for i in 0..self.heads.len() {
            if self.heads[i].is_some() {
                continue;
            }
            let head = if i == 0 {
                self.next(input, n)?
            } else {
                let mut others = std::mem::take(&mut self.others);
                let head = self.next(&mut others[i - 1], n);
                self.others = others;
                head?
            };
            self.heads[i] = Some(head);
        }
        Ok(())
    }
}

/// The request of an issue or completion; `None` for passthrough commands and empty requests that
/// are no flush.
fn request(event: Event, app: u16) -> Option<Raw> {
    let category = event.action >> 16;
    let has = |bit: u32| category & bit != 0;
    let mut flags = Flags(0);
    for (bit, flag) in [
        (SYNC, Flags::SYNC),
        (META, Flags::META),
        (AHEAD, Flags::AHEAD),
        (FUA, Flags::FUA),
        (FLUSH, Flags::PREFLUSH),
    ] {
        if has(bit) {
            flags = flags.and(flag);
        }
    }
    if has(PASSTHROUGH) {
        return None;
    }
    let at = u128::from(event.time) * 1000;
    if event.bytes == 0 || event.sector == u64::MAX {
        let raw = Raw::new(at, TraceOp::Flush, 0, 0);
        return has(FLUSH).then_some(Raw { app, flags, ..raw });
    }
    let op = if has(DISCARD) {
        TraceOp::Discard
    } else if has(WRITE) {
        TraceOp::Write
    } else {
        TraceOp::Read
    };
    // Sectors beyond 2^55 fail the range check with the record's number.
    let offset = event.sector.saturating_mul(512);
    Some(Raw { app, flags, ..Raw::new(at, op, offset, u64::from(event.bytes)) })
}

impl BinFormat for Blktrace {
    fn step(&mut self, input: &mut Input, stage: &mut Stage) -> Result<Step, SourceError> {
        self.look(input, stage.summary.lines)?;
        stage.summary.files = self.heads.len() as u64;
        let mut first: Option<(u64, usize)> = None;
        for (i, head) in self.heads.iter().enumerate() {
            match head {
                Some(Head::Cut(at, found)) => {
                    let (at, found) = (*at, *found);
                    let file = if i == 0 { input.path() } else { self.others[i - 1].path() };
                    let found = format!("{found} bytes at the end of {}", file.display());
                    self.heads[i] = Some(Head::End);
                    return Ok(Step::Bad { at, found, expected: "a whole record".into() });
                }
                Some(Head::Event(e)) if first.is_none_or(|(time, _)| e.time < time) => {
                    first = Some((e.time, i));
                }
                _ => {}
            }
        }
        let Some((_, i)) = first else { return Ok(Step::End) };
        let Some(Head::Event(event)) = self.heads[i].take() else { return Ok(Step::End) };
        let low = event.action & 0xFFFF & !CGROUP;
        if event.action >> 16 & NOTIFY != 0 || (low != ISSUE && low != COMPLETE) {
            return Ok(Step::Other);
        }
        let name = format!("{},{}", event.device >> 20, event.device & 0xF_FFFF);
        let app = stage.apps.id(name.as_bytes()).map_err(|e| input.unusable(e))?;
        Ok(match request(event, app) {
            None => Step::Other,
            Some(raw) if low == ISSUE => Step::One(raw),
            Some(r) => Step::Done(Done { at: r.at, offset: r.offset, app, op: r.op }),
        })
    }
}
