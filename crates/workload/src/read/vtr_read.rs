//! Reader of `.vtr` files (layout: [`super::vtr`]).
//!
//! Columns are decoded a handed-out block at a time, straight into the records.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use block::{AppId, Bytes, Span, Time, crc32c};
use serde_json::Value;

use super::ending::Ending;
use super::stage::ReadSummary;
use super::text::shown;
use super::vtr::{
    BLOCK, COLUMNS, CONSTANT, END_MAGIC, FRAME, MAGIC, MOST, MOST_JSON, OPS, PLAIN, VARINTS,
    VtrHeader, names, unzigzag,
};
use super::{Compression, Input, ReadOptions, TraceSource};
use crate::record::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

/// Where a column is being read.
#[derive(Clone, Copy, Default)]
struct Column {
    kind: u8,
    pos: usize,
    end: usize,
    value: u64,
}

impl Column {
    /// The next value; `None` if the column is too short or no varint.
    #[inline(always)]
    fn next(&mut self, raw: &[u8]) -> Option<u64> {
        match self.kind {
            CONSTANT => Some(self.value),
            PLAIN => {
                if self.pos >= self.end {
                    return None;
                }
                self.pos += 1;
                raw.get(self.pos - 1).map(|b| u64::from(*b))
            }
            _ => {
                let (value, len) = varint(raw.get(self.pos..self.end)?)?;
                self.pos += len;
                Some(value)
            }
        }
    }
}

/// A varint and its length. Up to eight bytes are decoded without a loop.
#[inline(always)]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    if let Some(eight) = bytes.first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        if word & 0x80 == 0 {
            return Some((word & 0x7F, 1));
        }
        let stops = !word & 0x8080_8080_8080_8080;
        if stops != 0 {
            // Keep the bytes up to the first without a top bit, then close the gaps.
            let kept = word & (stops ^ stops.wrapping_sub(1)) & 0x7F7F_7F7F_7F7F_7F7F;
            let pairs = (kept & 0x007F_007F_007F_007F) | (kept & 0x7F00_7F00_7F00_7F00) >> 1;
            let quads = (pairs & 0x0000_3FFF_0000_3FFF) | (pairs & 0x3FFF_0000_3FFF_0000) >> 2;
            let value = (quads & 0x0FFF_FFFF) | (quads & 0x0FFF_FFFF_0000_0000) >> 4;
            return Some((value, stops.trailing_zeros() as usize / 8 + 1));
        }
    }
    slow_varint(bytes)
}

fn slow_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, b) in bytes.iter().take(10).enumerate() {
        let part = u64::from(b & 0x7F);
        if i == 9 && part > 1 {
            return None;
        }
        value |= part << (7 * i);
        if b & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

struct VtrSource {
    input: Input,
    packed: Vec<u8>,
    raw: Vec<u8>,
    unpacker: zstd::bulk::Decompressor<'static>,
    columns: [Column; COLUMNS],
    tick: u64,
    at: u64,
    offset: u64,
    /// Records of the current block not yet handed out.
    left: usize,
    blocks: u64,
    block_at: u64,
    header: VtrHeader,
    apps: Vec<String>,
    summary: ReadSummary,
    filter: Option<String>,
    filter_id: Option<u16>,
    shift: i64,
    ending: Ending,
}

pub(crate) fn open(mut input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    let magic = input.take(MAGIC.len())?;
    if magic != MAGIC {
        let found = shown(magic);
        return Err(wrong(&input, 0, 0, found, "the magic `varvetr1`"));
    }
    let head = read_json(&mut input, "the header")?;
    let header = VtrHeader::from_json(&head);
    let mut apps = header.apps.clone();
    if apps.is_empty() && input.compression() == Compression::None {
        apps = footer_apps(input.path()).unwrap_or_default();
    }
    let io = |source| SourceError::Io { path: input.path().to_path_buf(), source };
    let unpacker = zstd::bulk::Decompressor::new().map_err(io)?;
    Ok(Box::new(VtrSource {
        input,
        packed: Vec::new(),
        raw: Vec::new(),
        unpacker,
        columns: [Column::default(); COLUMNS],
        tick: 1,
        at: 0,
        offset: 0,
        left: 0,
        blocks: 0,
        block_at: 0,
        header,
        apps,
        summary: ReadSummary::default(),
        filter: o.app.clone(),
        filter_id: None,
        shift: o.align_shift,
        ending: Ending::default(),
    }))
}

fn wrong(input: &Input, n: u64, at: u64, found: impl Into<String>, expected: &str) -> SourceError {
    SourceError::Syntax {
        path: input.path().to_path_buf(),
        line: n,
        column: at,
        found: found.into(),
        expected: expected.to_string(),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|b| u64::from_le_bytes(*b))
}

/// A length and as much JSON.
fn read_json(input: &mut Input, what: &str) -> Result<Value, SourceError> {
    let at = input.offset();
    let len = u32_at(input.take(4)?, 0).unwrap_or(u32::MAX) as usize;
    if len > MOST_JSON {
        let found = "a longer or missing one";
        return Err(wrong(input, 0, at, found, &format!("the length of {what}, at most 64 MiB")));
    }
    let mut text = Vec::new();
    if input.take_into(len, &mut text)? < len {
        return Err(wrong(input, 0, at, "the end of the file", &format!("{len} bytes of {what}")));
    }
    serde_json::from_slice(&text)
        .map_err(|e| wrong(input, 0, at + 4, shown(&text), &format!("{what} as JSON ({e})")))
}

/// Names of the apps out of the footer, for a file that can be read from behind.
fn footer_apps(path: &Path) -> Option<Vec<String>> {
    let mut file = std::fs::File::open(path).ok()?;
    let size = file.metadata().ok().filter(|m| m.is_file())?.len();
    let mut end = [0; 16];
    file.seek(SeekFrom::Start(size.checked_sub(16)?)).ok()?;
    file.read_exact(&mut end).ok()?;
    let start = u64_at(&end, 0)?;
    let len = size.checked_sub(16)?.checked_sub(start)?;
    if &end[8..] != END_MAGIC || len > (MOST_JSON + FRAME) as u64 {
        return None;
    }
    let mut body = vec![0; len as usize];
    file.seek(SeekFrom::Start(start)).ok()?;
    file.read_exact(&mut body).ok()?;
    let text = u32_at(&body, FRAME)? as usize;
    let json: Value = serde_json::from_slice(body.get(FRAME + 4..)?.get(..text)?).ok()?;
    Some(names(&json["apps"]))
}

impl VtrSource {
    fn wrong(&self, found: impl Into<String>, expected: &str) -> SourceError {
        wrong(&self.input, self.summary.lines + 1, self.block_at, found, expected)
    }

    /// Makes the next block current; `false` after the footer.
    fn next_block(&mut self) -> Result<bool, SourceError> {
        self.block_at = self.input.offset();
        let Ok(frame) = <[u8; FRAME]>::try_from(self.input.take(FRAME)?) else {
            return Err(self.wrong(
                "the end of the file",
                "another block or the footer: the file was cut off",
            ));
        };
        let get = |at| u32_at(&frame, at).unwrap_or(0) as usize;
        let (count, packed, raw) = (get(0), get(4), get(8));
        let limit = if count == 0 { MOST_JSON } else { MOST };
        if count > BLOCK || packed > limit || raw > limit {
            let found = format!("{count} records in {packed} bytes, unpacked {raw}");
            return Err(self.wrong(found, "a block of at most 65,536 records and 4 MiB"));
        }
        self.packed.clear();
        if self.input.take_into(packed, &mut self.packed)? < packed {
            return Err(self.wrong("the end of the file", "a whole block: the file was cut off"));
        }
        let crc = crc32c(crc32c(0, &frame[..20]), &self.packed);
        if u32_at(&frame, 20) != Some(crc) {
            return Err(
                self.wrong(format!("checksum {crc:#010x}"), "the block's checksum: it is damaged")
            );
        }
        if count == 0 {
            self.footer()?;
            return Ok(false);
        }
        self.raw.clear();
        self.raw.reserve(raw);
        let unpacked = self.unpacker.decompress_to_buffer(&self.packed, &mut self.raw);
        if unpacked.is_err() || self.raw.len() != raw {
            return Err(self.wrong("other bytes", "a zstd frame of the stated length"));
        }
        self.at = u64_at(&frame, 12).unwrap_or(0);
        self.offset = 0;
        self.set_columns()?;
        self.left = count;
        self.blocks += 1;
        Ok(true)
    }

    fn set_columns(&mut self) -> Result<(), SourceError> {
        const EXPECTED: &str = "a tick and eight columns";
        self.tick = u64::from(u32_at(&self.raw, 0).unwrap_or(0));
        let mut pos = 4;
        for i in 0..COLUMNS {
            let (kind, len) = (self.raw.get(pos).copied(), u32_at(&self.raw, pos + 1));
            let (Some(kind @ (CONSTANT | VARINTS | PLAIN)), Some(len)) = (kind, len) else {
                return Err(self.wrong("no column", EXPECTED));
            };
            let (from, end) = (pos + 5, pos + 5 + len as usize);
            let Some(data) = self.raw.get(from..end) else {
                return Err(self.wrong("a column beyond the block", EXPECTED));
            };
            let value = if kind == CONSTANT { varint(data).map(|v| v.0) } else { Some(0) };
            let Some(value) = value else {
                return Err(self.wrong("no number", EXPECTED));
            };
            self.columns[i] = Column { kind, pos: from, end, value };
            pos = end;
        }
        if self.tick == 0 {
            return Err(self.wrong("a tick of 0", EXPECTED));
        }
        Ok(())
    }

    /// Checks the footer against what was read.
    fn footer(&mut self) -> Result<(), SourceError> {
        let text = u32_at(&self.packed, 0).unwrap_or(0) as usize;
        let json = self.packed.get(4..4 + text).and_then(|t| serde_json::from_slice(t).ok());
        let Some(json): Option<Value> = json else {
            return Err(self.wrong("no JSON", "the footer"));
        };
        let blocks = u32_at(&self.packed, 4 + text).map(u64::from);
        if json["records"].as_u64() != Some(self.summary.lines) || blocks != Some(self.blocks) {
            let found = format!("{} records in {} blocks", self.summary.lines, self.blocks);
            return Err(self.wrong(found, "as many as the footer says"));
        }
        let apps = names(&json["apps"]);
        if !apps.is_empty() {
            self.apps = apps;
        }
        // Taken for a number because no names were known yet: the file may call another one so.
        if let (Some(name), Some(id)) = (&self.filter, self.filter_id)
            && self.apps.get(usize::from(id)).is_some_and(|own| own != name)
        {
            let own = &self.apps[usize::from(id)];
            let reason = format!(
                "app `{name}`: the file has names, which stand at its end, and number {name} is `{own}`; expected a file \
                 that is not packed, whose names are known before"
            );
            return Err(self.input.unusable(reason));
        }
        let start = self.block_at;
        let tail = self.input.take(17)?;
        if tail.len() != 16 || u64_at(tail, 0) != Some(start) || &tail[8..] != END_MAGIC {
            return Err(self.wrong("other bytes", "the end of the file behind the footer"));
        }
        Ok(())
    }

    /// Decodes up to `n` records of the current block.
    fn decode(&mut self, n: usize, block: &mut Vec<Record>) -> Option<()> {
        let raw = &self.raw[..];
        let [mut times, mut offsets, mut lens, mut ops, mut flags, mut apps, mut hints, mut took] =
            self.columns;
        let (tick, mut at, mut offset) = (self.tick, self.at, self.offset);
        for _ in 0..n {
            let step = unzigzag(times.next(raw)?);
            at = at.wrapping_add(step.wrapping_mul(tick as i64) as u64);
            offset = offset.wrapping_add(unzigzag(offsets.next(raw)?) as u64);
            let len = lens.next(raw)?;
            let op = *OPS.get(ops.next(raw)? as usize)?;
            let flag = Flags(u8::try_from(flags.next(raw)?).ok()?);
            let app = AppId(u16::try_from(apps.next(raw)?).ok()?);
            let hint = u8::try_from(hints.next(raw)?).ok()?;
            let response = match took.next(raw)? {
                0 => None,
                ticks => Some(Span::from_ps((ticks - 1).checked_mul(tick)?)),
            };
            block.push(Record {
                at: Time::from_ps(at),
                offset: Bytes(offset),
                len: Bytes(len),
                response,
                app,
                op,
                flags: flag,
                hint,
            });
        }
        self.columns = [times, offsets, lens, ops, flags, apps, hints, took];
        (self.at, self.offset) = (at, offset);
        Some(())
    }

    /// Leaves out what was not asked for and moves what is to be moved.
    fn choose(&mut self, from: usize, block: &mut Vec<Record>) -> Result<(), SourceError> {
        if self.shift != 0 {
            for r in block[from..].iter_mut().filter(|r| r.op != TraceOp::Flush) {
                let moved = r.offset.0.checked_add_signed(self.shift);
                let Some(moved) = moved else {
                    let found = format!("offset {}", r.offset);
                    return Err(self.wrong(found, "an offset that can be shifted so far"));
                };
                r.offset = Bytes(moved);
            }
        }
        let Some(name) = &self.filter else { return Ok(()) };
        if self.filter_id.is_none() {
            // A number is meant only where there are no names: `1` may be one of them.
            self.filter_id = match self.apps.is_empty() {
                true => name.parse().ok(),
                false => self.apps.iter().position(|n| n == name).map(|i| i as u16),
            };
            if self.filter_id.is_none() {
                return Err(self.input.unusable(self.no_app(name)));
            }
        }
        let (wanted, mut kept) = (self.filter_id, from);
        for i in from..block.len() {
            if Some(block[i].app.0) == wanted {
                block[kept] = block[i];
                kept += 1;
            }
        }
        self.summary.filtered += (block.len() - kept) as u64;
        block.truncate(kept);
        Ok(())
    }

    fn no_app(&self, name: &str) -> String {
        match self.apps.is_empty() {
            true => format!(
                "no app `{name}`: the file has no names, or they stand at its end, which cannot be looked at in a \
                 packed file or a pipe; expected a number, or a file that is not packed"
            ),
            false => format!("no app `{name}`; the file names: {}", self.apps.join(" ")),
        }
    }

    fn produce(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        while block.len() < BLOCK_RECORDS {
            if self.left == 0 && !self.next_block()? {
                self.ending.reach();
                break;
            }
            let n = self.left.min(BLOCK_RECORDS - block.len());
            let from = block.len();
            if self.decode(n, block).is_none() {
                block.truncate(from);
                return Err(self.wrong("a value out of its range", "whole columns"));
            }
            self.left -= n;
            self.summary.lines += n as u64;
            if self.shift != 0 || self.filter.is_some() {
                self.choose(from, block)?;
            }
            self.summary.records += (block.len() - from) as u64;
        }
        Ok(())
    }
}

impl Source for VtrSource {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        if let Some(answer) = self.ending.answer() {
            return answer;
        }
        let result = self.produce(block);
        self.ending.after(result, block)
    }
}

impl TraceSource for VtrSource {
    fn summary(&self) -> &ReadSummary {
        &self.summary
    }
    fn apps(&self) -> &[String] {
        &self.apps
    }
    fn header(&self) -> Option<&VtrHeader> {
        Some(&self.header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_varint_decoders_agree() {
        let mut rng = block::Rng::new(7);
        for bits in 1..=64 {
            for _ in 0..200 {
                let n = rng.next_u64() >> (64 - bits);
                let (mut bytes, mut m) = (Vec::new(), n);
                while m >= 0x80 {
                    bytes.push(m as u8 | 0x80);
                    m >>= 7;
                }
                bytes.push(m as u8);
                let len = bytes.len();
                assert_eq!(slow_varint(&bytes), Some((n, len)));
                bytes.extend_from_slice(&[0xFF; 8]);
                assert_eq!(varint(&bytes), Some((n, len)));
            }
        }
        assert_eq!(varint(&[0xFF; 12]), None);
        assert_eq!(varint(&[0x80, 0x80]), None);
        assert_eq!(varint(&[]), None);
    }
}
