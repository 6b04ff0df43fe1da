//! The project's own trace format, `.vtr`: its layout and its writer.
//!
//! All numbers are little-endian.
//!
//! | part | bytes |
//! | --- | --- |
//! | file | magic `varvetr1`, u32 length of the header, header (JSON), blocks, footer |
//! | frame of a block | u32 records (1 to 65,536), u32 packed length, u32 raw length, u64 time of the first record in ps, u32 CRC32C of these 20 bytes and the packed ones; then the packed bytes |
//! | packed | one zstd frame |
//! | raw | u32 tick in ps (1000, or 1 if a time of the block is no whole nanosecond), then eight columns |
//! | column | u8 kind, u32 length, data |
//! | kind 0 | one varint: the value of every record |
//! | kind 1 | a varint for each record |
//! | kind 2 | a byte for each record |
//! | columns, in order | time (zigzag of the difference to the record before, in ticks; the first 0), offset (zigzag of the difference in bytes, modulo 2^64; the first to 0), length in bytes, operation, flags, app, hint, response (0 = none, else ticks + 1) |
//! | footer | a frame with 0 records whose bytes are not packed: u32 length of a JSON text, the text (names of apps, counts), u32 blocks, for each: u64 first time in ps, u64 file offset of its frame; behind it u64 file offset of this frame, magic `varvetrE` |
//!
//! Counts and names stand in the footer because a writer knows them only at the end. A file
//! without its footer was cut off: it reads up to the last whole block, then is an error.

use std::io::{Read, Write};
use std::path::Path;

use block::crc32c;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Carries;
use crate::record::{BLOCK_RECORDS, Record, Source, SourceError, TraceOp};

/// First bytes of a file.
pub(crate) const MAGIC: &[u8; 8] = b"varvetr1";
/// Last bytes of a whole file.
pub(crate) const END_MAGIC: &[u8; 8] = b"varvetrE";
/// Records of a full block.
pub(crate) const BLOCK: usize = 65_536;
/// Bytes of a block's frame.
pub(crate) const FRAME: usize = 24;
/// Most bytes of a block, packed or not; a reader asks for no more memory than this.
pub(crate) const MOST: usize = 4 << 20;
/// Most bytes of the header and of the footer.
pub(crate) const MOST_JSON: usize = 64 << 20;
/// Columns of a block.
pub(crate) const COLUMNS: usize = 8;
/// Every record has the same value.
pub(crate) const CONSTANT: u8 = 0;
/// A varint for each record.
pub(crate) const VARINTS: u8 = 1;
/// A byte for each record.
pub(crate) const PLAIN: u8 = 2;

const LEVEL: i32 = 3;

/// Where a trace comes from; goes into the file's header.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct VtrHeader {
    /// Name of the file it was made from.
    pub source: String,
    /// SHA-256 of that file, in hexadecimal, if known.
    pub source_sha256: String,
    /// Format of that file.
    pub format: String,
    /// Commands that made it, in order.
    pub commands: Vec<String>,
    /// Names of the apps, if known from the start.
    pub apps: Vec<String>,
    /// Licence or terms of the data, as far as known.
    pub licence: String,
    /// Made by a generator, not captured.
    pub synthetic: bool,
    /// Its apps share one address space; else each has one of its own, as volumes have.
    pub shared: bool,
    /// What the source knew of each request; results must not claim more.
    pub carries: Carries,
}

impl VtrHeader {
    fn json(&self) -> Value {
        let mut json = json!({
            "schema": "varve-trace",
            "version": 1,
            "source": self.source,
            "source_sha256": self.source_sha256,
            "format": self.format,
            "commands": self.commands,
            "apps": self.apps,
            "licence": self.licence,
            "synthetic": self.synthetic,
            "carries": {
                "time": self.carries.time,
                "op": self.carries.op,
                "response": self.carries.response,
                "flush": self.carries.flush,
            },
        });
        // Where it is not said it is not so: what has volumes is written as it always was.
        if self.shared {
            json["shared"] = Value::Bool(true);
        }
        json
    }

    /// Out of a file; what is missing keeps its default.
    pub(crate) fn from_json(json: &Value) -> VtrHeader {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_string();
        let carries = |key: &str| json["carries"][key].as_bool().unwrap_or(true);
        VtrHeader {
            source: text("source"),
            source_sha256: text("source_sha256"),
            format: text("format"),
            commands: names(&json["commands"]),
            apps: names(&json["apps"]),
            licence: text("licence"),
            synthetic: json["synthetic"].as_bool().unwrap_or(false),
            shared: json["shared"].as_bool().unwrap_or(false),
            carries: Carries {
                time: carries("time"),
                op: carries("op"),
                response: carries("response"),
                flush: carries("flush"),
            },
        }
    }
}

/// A list of texts.
pub(crate) fn names(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|n| n.as_str().unwrap_or_default().to_string()).collect()
}

/// SHA-256 of a file as it stands on disk, in hexadecimal: what names a trace's source.
///
/// # Errors
/// The file cannot be read.
pub fn file_sha256(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(path)?;
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            n => hash.update(&chunk[..n]),
        }
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// What a file holds; stands in its footer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct VtrTotals {
    /// Records.
    pub records: u64,
    /// Records by operation: read, write, flush, discard, zero.
    pub by_op: [u64; 5],
    /// Bytes by operation, in the same order.
    pub bytes_by_op: [u64; 5],
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Writes a `.vtr` file record by record, in bounded memory.
pub struct VtrWriter<W: Write> {
    out: W,
    offset: u64,
    block: Vec<Record>,
    columns: [Vec<u8>; COLUMNS],
    raw: Vec<u8>,
    packer: zstd::bulk::Compressor<'static>,
    index: Vec<(u64, u64)>,
    totals: VtrTotals,
}

impl<W: Write> VtrWriter<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut out: W, header: &VtrHeader) -> std::io::Result<VtrWriter<W>> {
        let text = header.json().to_string();
        if text.len() > MOST_JSON {
            return Err(std::io::Error::other("a trace header of more than 64 MiB"));
        }
        out.write_all(MAGIC)?;
        out.write_all(&(text.len() as u32).to_le_bytes())?;
        out.write_all(text.as_bytes())?;
        Ok(VtrWriter {
            out,
            offset: (MAGIC.len() + 4 + text.len()) as u64,
            block: Vec::with_capacity(BLOCK),
            columns: Default::default(),
            raw: Vec::new(),
            packer: zstd::bulk::Compressor::new(LEVEL)?,
            index: Vec::new(),
            totals: VtrTotals::default(),
        })
    }

    /// Adds one record.
    ///
    /// # Errors
    /// The writer's.
    pub fn push(&mut self, record: &Record) -> std::io::Result<()> {
        self.block.push(*record);
        self.totals.records += 1;
        self.totals.by_op[record.op as usize] += 1;
        let bytes = &mut self.totals.bytes_by_op[record.op as usize];
        *bytes = bytes.saturating_add(record.len.0);
        if self.block.len() == BLOCK { self.flush_block() } else { Ok(()) }
    }

    /// Adds every record of `source`; returns how many. `out` names this file in errors.
    ///
    /// # Errors
    /// The source's, or the writer's as [`SourceError::Io`] of `out`.
    pub fn copy<S: Source + ?Sized>(
        &mut self,
        source: &mut S,
        out: &Path,
    ) -> Result<u64, SourceError> {
        let before = self.totals.records;
        let mut block = Vec::with_capacity(BLOCK_RECORDS);
        loop {
            source.fill(&mut block)?;
            if block.is_empty() {
                return Ok(self.totals.records - before);
            }
            for record in &block {
                let io = |source| SourceError::Io { path: out.to_path_buf(), source };
                self.push(record).map_err(io)?;
            }
        }
    }

    fn flush_block(&mut self) -> std::io::Result<()> {
        let Some(first) = self.block.first() else { return Ok(()) };
        let first = first.at.as_ps();
        self.encode();
        let packed = self.packer.compress(&self.raw)?;
        self.index.push((first, self.offset));
        let (count, raw) = (self.block.len() as u32, self.raw.len() as u32);
        self.frame(count, raw, first, &packed)?;
        self.block.clear();
        Ok(())
    }

    fn frame(&mut self, count: u32, raw: u32, first: u64, packed: &[u8]) -> std::io::Result<()> {
        let mut frame = [0; FRAME];
        frame[..4].copy_from_slice(&count.to_le_bytes());
        frame[4..8].copy_from_slice(&(packed.len() as u32).to_le_bytes());
        frame[8..12].copy_from_slice(&raw.to_le_bytes());
        frame[12..20].copy_from_slice(&first.to_le_bytes());
        let crc = crc32c(crc32c(0, &frame[..20]), packed);
        frame[20..].copy_from_slice(&crc.to_le_bytes());
        self.out.write_all(&frame)?;
        self.out.write_all(packed)?;
        self.offset += (FRAME + packed.len()) as u64;
        Ok(())
    }

    /// The block as raw bytes.
    fn encode(&mut self) {
        let whole = |r: &Record| {
            r.at.as_ps().is_multiple_of(1000)
                && r.response.is_none_or(|s| s.as_ps().is_multiple_of(1000))
        };
        let tick = if self.block.iter().all(whole) { 1000 } else { 1 };
        let [times, offsets, lens, ops, flags, apps, hints, responses] = &mut self.columns;
        let (mut at, mut offset) = (self.block[0].at.as_ps(), 0u64);
        for r in &self.block {
            // Ticks of the difference, not difference of ticks: both times are whole ticks.
            let step = i128::from(r.at.as_ps()) - i128::from(at);
            put(times, zigzag((step / i128::from(tick)) as i64));
            put(offsets, zigzag(r.offset.0.wrapping_sub(offset) as i64));
            put(lens, r.len.0);
            ops.push(r.op as u8);
            flags.push(r.flags.0);
            put(apps, u64::from(r.app.0));
            hints.push(r.hint);
            put(responses, r.response.map_or(0, |s| (s.as_ps() / tick).saturating_add(1)));
            (at, offset) = (r.at.as_ps(), r.offset.0);
        }
        self.raw.clear();
        self.raw.extend_from_slice(&(tick as u32).to_le_bytes());
        for (i, column) in self.columns.iter_mut().enumerate() {
            // Operation, flags and hint are bytes; the others varints.
            let kind = if matches!(i, 3 | 4 | 6) { PLAIN } else { VARINTS };
            column_out(kind, column, self.block.len(), &mut self.raw);
            column.clear();
        }
    }

    /// Ends the file; `apps` are the names of the apps by number.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self, apps: &[String]) -> std::io::Result<(W, VtrTotals)> {
        self.flush_block()?;
        let start = self.offset;
        let text = json!({
            "apps": apps,
            "records": self.totals.records,
            "by_op": self.totals.by_op,
            "bytes_by_op": self.totals.bytes_by_op,
        })
        .to_string();
        let mut body = Vec::new();
        body.extend_from_slice(&(text.len() as u32).to_le_bytes());
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        for (first, offset) in &self.index {
            body.extend_from_slice(&first.to_le_bytes());
            body.extend_from_slice(&offset.to_le_bytes());
        }
        if body.len() > MOST_JSON {
            return Err(std::io::Error::other("a trace footer of more than 64 MiB"));
        }
        self.frame(0, body.len() as u32, 0, &body)?;
        self.out.write_all(&start.to_le_bytes())?;
        self.out.write_all(END_MAGIC)?;
        self.out.flush()?;
        self.totals.file_bytes = self.offset + 16;
        Ok((self.out, self.totals))
    }
}

/// One column; a constant if all its values are equal.
fn column_out(kind: u8, data: &[u8], records: usize, out: &mut Vec<u8>) {
    // Equal values have equal encodings, so the column is its first one repeated.
    let width = data.len() / records;
    let same = data.len() == width * records && data.chunks(width).all(|c| *c == data[..width]);
    let alone = same && (kind == PLAIN || data[..width - 1].iter().all(|b| b & 0x80 != 0));
    let (kind, data) = match (alone, kind) {
        // A byte above 127 is no varint of one byte.
        (true, PLAIN) if data[0] >= 0x80 => (PLAIN, data),
        (true, _) => (CONSTANT, &data[..width]),
        (false, _) => (kind, data),
    };
    out.push(kind);
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(data);
}

/// The operation of a code.
pub(crate) const OPS: [TraceOp; 5] =
    [TraceOp::Read, TraceOp::Write, TraceOp::Flush, TraceOp::Discard, TraceOp::Zero];

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

/// The number a zigzag code stands for.
#[inline(always)]
pub(crate) fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// Appends a varint: seven bits a byte, lowest first, the top bit says that more follow.
fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}
