//! Reading a log: nothing of it is believed before it was checked.

use std::io::Read;
use std::path::Path;

use block::crc32c;

use super::{
    END, FUA, HEAD, HEADER, INDEX, LARGEST, LogError, MAGIC, MOST, OURS, Op, Record, SECTOR, TEXT,
    VERSION, bad,
};

/// A log that was read whole.
#[derive(Debug)]
pub struct Log {
    /// Bytes of the disk, which was all zeroes at the beginning.
    pub size: u64,
    /// What was recorded, in words.
    pub source: String,
    /// What happened, in order.
    pub records: Vec<Record>,
    bytes: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// First bytes of a zstd frame.
const PACKED: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

impl Log {
    /// Reads a log from a file, packed or not.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn load(path: &Path) -> Result<Log, LogError> {
        let file = std::fs::File::open(path)?;
        let bytes = file.metadata()?.len();
        if bytes > MOST {
            return Err(bad("the file", format!("{bytes} bytes"), format!("{MOST} at most")));
        }
        let mut all = Vec::with_capacity(bytes as usize);
        file.take(MOST).read_to_end(&mut all)?;
        Log::read(all)
    }

    /// Reads a log from its bytes, packed or not.
    ///
    /// # Errors
    /// [`LogError::Bad`].
    pub fn read(bytes: Vec<u8>) -> Result<Log, LogError> {
        if !bytes.starts_with(&PACKED) {
            return Log::plain(bytes);
        }
        let mut all = Vec::new();
        let frame = zstd::stream::read::Decoder::with_buffer(&bytes[..])
            .and_then(|frame| frame.take(MOST + 1).read_to_end(&mut all));
        frame.map_err(|error| bad("the packed log", error.to_string(), "a zstd frame"))?;
        if all.len() as u64 > MOST {
            return Err(bad("the packed log", "more", format!("{MOST} bytes at most, unpacked")));
        }
        Log::plain(all)
    }

    fn plain(bytes: Vec<u8>) -> Result<Log, LogError> {
        let (size, source, mut at) = header(&bytes)?;
        let end = index_place(&bytes, at)?;
        let (mut records, mut flushes) = (Vec::new(), Vec::new());
        let mut begun: Vec<bool> = Vec::new();
        while at < end {
            let (code, flags, words, data) = frame(&bytes, at, end, records.len())?;
            let next = data.end;
            let record = record(&bytes, size, &begun, records.len(), (code, flags, words, data))?;
            if record.op == Op::FlushEnd {
                flushes.push((records.len() as u64, at as u64));
                begun[record.at as usize] = false;
            }
            begun.push(record.op == Op::FlushBegin);
            records.push(record);
            at = next;
        }
        check_index(&bytes, end, records.len() as u64, &flushes)?;
        Ok(Log { size, source, records, bytes })
    }

    /// The data of a record.
    pub fn data(&self, record: &Record) -> &[u8] {
        &self.bytes[record.data.clone()]
    }

    /// Some of the bytes of the log, by their place in it.
    pub fn bytes(&self, at: usize, count: usize) -> &[u8] {
        &self.bytes[at..at + count]
    }

    /// The log as it lies in its file, not packed.
    pub fn whole(&self) -> &[u8] {
        &self.bytes
    }

    /// The text of a mark.
    pub fn text(&self, record: &Record) -> &str {
        // Checked when it was read.
        std::str::from_utf8(self.data(record)).unwrap_or_default()
    }
}

fn header(bytes: &[u8]) -> Result<(u64, String, usize), LogError> {
    let short = || bad("the header", format!("{} bytes in all", bytes.len()), "a whole header");
    if bytes.len() < HEADER + 4 {
        return Err(short());
    }
    if bytes[..8] != MAGIC {
        let found = String::from_utf8_lossy(&bytes[..8]).into_owned();
        return Err(bad("byte 0", format!("{found:?}"), "\"varvelog\""));
    }
    let version = half(bytes, 8);
    if version != VERSION {
        return Err(bad("byte 8", format!("version {version}"), format!("version {VERSION}")));
    }
    let text = half(bytes, 12) as usize;
    if text > TEXT {
        return Err(bad("byte 12", format!("a source of {text} bytes"), format!("{TEXT} at most")));
    }
    let end = HEADER + text;
    let head = bytes.get(..end + 4).ok_or_else(short)?;
    if crc32c(0, &head[..end]) != half(head, end) {
        return Err(bad(format!("byte {end}"), "another sum", "the CRC32C of the header"));
    }
    let size = word(bytes, 16);
    if size == 0 || size > LARGEST || !size.is_multiple_of(SECTOR) {
        let expected = format!("a multiple of {SECTOR} from {SECTOR} to {LARGEST}");
        return Err(bad("byte 16", format!("a disk of {size} bytes"), expected));
    }
    let source = String::from_utf8_lossy(&head[HEADER..end]).into_owned();
    Ok((size, source, end + 4))
}

/// Where the index begins, which is behind the records.
fn index_place(bytes: &[u8], first: usize) -> Result<usize, LogError> {
    let tail = bytes.len().checked_sub(16).filter(|tail| *tail >= first + HEAD);
    let tail = tail.filter(|tail| bytes[tail + 8..] == END);
    let expected = "\"varvelgE\": a log that was ended";
    let tail =
        tail.ok_or_else(|| bad("the last 8 bytes", "something else: it was cut off", expected))?;
    let place = word(bytes, tail);
    let inside = usize::try_from(place).ok().filter(|at| *at >= first && *at <= tail - HEAD);
    inside.ok_or_else(|| {
        bad(format!("byte {tail}"), format!("{place}"), "the place of the index, inside the log")
    })
}

type Frame = (u8, u8, [u64; 3], std::ops::Range<usize>);

/// One frame, whole and with the right sum.
fn frame(bytes: &[u8], at: usize, end: usize, number: usize) -> Result<Frame, LogError> {
    let place = || format!("record {number} (byte {at})");
    let short = || bad(place(), "its end", format!("{HEAD} bytes and its data before byte {end}"));
    let head = bytes.get(at..at + HEAD).filter(|_| at + HEAD <= end).ok_or_else(short)?;
    let length = half(head, 4) as usize;
    let from = at + HEAD;
    let data = from..from.checked_add(length).filter(|to| *to <= end).ok_or_else(short)?;
    let sum = crc32c(crc32c(0, &head[..32]), &bytes[data.clone()]);
    if sum != half(head, 32) || head[2..4] != [0; 2] || head[36..40] != [0; 4] {
        return Err(bad(place(), "another sum", "the CRC32C of its first 32 bytes and its data"));
    }
    Ok((head[0], head[1], [word(head, 8), word(head, 16), word(head, 24)], data))
}

fn record(
    bytes: &[u8],
    size: u64,
    begun: &[bool],
    number: usize,
    (code, flags, [ns, at, length], data): Frame,
) -> Result<Record, LogError> {
    let wrong = |found: String, expected: &str| {
        Err(bad(format!("record {number}"), found, expected.to_string()))
    };
    let op = usize::from(code).checked_sub(1).and_then(|at| Op::ALL.get(at));
    let Some(op) = op.copied() else {
        return wrong(format!("operation {code}"), "1 to 6");
    };
    if flags & !(FUA | OURS) != 0 {
        return wrong(format!("flags {flags:#x}"), "1 (forced), 2 (a mark of the recorder)");
    }
    let inside = at.checked_add(length).is_some_and(|end| end <= size);
    let whole = at.is_multiple_of(SECTOR) && length.is_multiple_of(SECTOR);
    let has = data.len() as u64;
    match op {
        Op::Write | Op::Trim | Op::Zero if !(inside && whole && length > 0) => {
            return wrong(format!("{length} bytes at {at}"), "whole sectors inside the disk");
        }
        Op::Write if has != length => {
            return wrong(format!("{has} bytes of data"), "as many as were written");
        }
        Op::Mark if has > TEXT as u64 || std::str::from_utf8(&bytes[data.clone()]).is_err() => {
            return wrong("a mark that is no text".to_string(), "UTF-8 of 4096 bytes at most");
        }
        Op::FlushEnd if !usize::try_from(at).is_ok_and(|n| begun.get(n) == Some(&true)) => {
            return wrong(
                format!("the end of a flush {at}"),
                "a flush that began, and has not ended",
            );
        }
        Op::Trim | Op::Zero | Op::FlushBegin | Op::FlushEnd if has > 0 => {
            return wrong(format!("{has} bytes of data"), "none");
        }
        _ => {}
    }
    let (fua, ours) = (flags & FUA != 0, flags & OURS != 0);
    Ok(Record { op, fua, ours, ns, at, bytes: length, data })
}

fn check_index(
    bytes: &[u8],
    at: usize,
    records: u64,
    flushes: &[(u64, u64)],
) -> Result<(), LogError> {
    let tail = bytes.len() - 16;
    let (code, _, [count, listed, _], data) = frame(bytes, at, tail, records as usize)?;
    let place = format!("the index (byte {at})");
    if code != INDEX || data.end != tail {
        return Err(bad(place, format!("operation {code}"), "the index, and nothing behind it"));
    }
    let pairs = bytes[data].chunks_exact(16).map(|pair| (word(pair, 0), word(pair, 8)));
    let same = count == records && listed == flushes.len() as u64;
    match same && pairs.eq(flushes.iter().copied()) {
        true => Ok(()),
        false => Err(bad(
            place,
            format!("{count} records, {listed} flushes"),
            format!("the {records} records and {} flushes that are there", flushes.len()),
        )),
    }
}
