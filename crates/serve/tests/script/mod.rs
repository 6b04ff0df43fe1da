//! Sessions as bytes: what a client might send, and what may come back.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::Rng;
use varve_serve::nbd::client::{go_data, meta_data, option_bytes};
use varve_serve::nbd::negotiate::Agreed;
use varve_serve::nbd::wire::{
    CHUNK, MAX_PAYLOAD, Request, SIMPLE, chunk, command, option, u32_at, u64_at,
};
use varve_serve::nbd::{Export, Stats, handshake, session};
use varve_serve::stream::Transport;

/// What every write of a script writes.
pub const WRITTEN: u8 = 0x11;
/// What the export holds before.
pub const BEFORE: u8 = 0x22;
/// What another export holds: nobody may see it.
pub const OTHERS: u8 = 0x33;

/// A stream that was recorded: what comes, and where what goes is kept.
#[derive(Clone, Debug)]
pub struct Script {
    bytes: Arc<[u8]>,
    at: usize,
    /// Bytes that come at a time at most.
    pub step: usize,
    /// Bytes that can be written before the client is gone.
    pub room: usize,
    pub out: Arc<Mutex<Vec<u8>>>,
}

impl Script {
    pub fn new(bytes: &[u8]) -> Script {
        Script {
            bytes: bytes.into(),
            at: 0,
            step: usize::MAX,
            room: 128 << 20,
            out: Arc::default(),
        }
    }
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.step).min(self.bytes.len() - self.at);
        into[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Write for Script {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut out = self.out.lock().unwrap();
        let count = from.len().min(self.room - out.len().min(self.room));
        if count == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        out.extend_from_slice(&from[..count]);
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Script {
    fn read_within(&self, _time: Duration) -> io::Result<()> {
        Ok(())
    }
    fn write_within(&self, _time: Duration) -> io::Result<()> {
        Ok(())
    }
    fn twin(&self) -> io::Result<Script> {
        Ok(self.clone())
    }
    fn end(&self, _reads_only: bool) {}
}

/// Serves a script; what was agreed on, and what came back after that.
pub fn play(mut script: Script, exports: &[Export]) -> Option<(Agreed, Vec<u8>)> {
    let out = Arc::clone(&script.out);
    let (agreed, input) = handshake(&mut script, exports, true).ok()??;
    let from = out.lock().unwrap().len();
    let (stats, stop) = (Stats::default(), AtomicBool::new(false));
    session(exports, agreed, input, script, &stats, &stop);
    let bytes = out.lock().unwrap()[from..].to_vec();
    Some((agreed, bytes))
}

fn place(rng: &mut Rng, size: u64) -> u64 {
    match rng.below(40) {
        0 => u64::MAX - rng.below(3),
        1 => 1 << 63,
        2 => size + rng.below(3) - 1,
        3 => u64::from(u32::MAX) + rng.below(3),
        4..=9 => rng.below(size),
        10..=14 => rng.below(size / 512) * 512,
        _ => rng.below(size / 4096) * 4096,
    }
}

fn length(rng: &mut Rng, size: u64) -> u32 {
    match rng.below(60) {
        0 => u32::MAX - rng.below(2) as u32,
        1 => MAX_PAYLOAD + rng.below(3) as u32 - 1,
        2 => size as u32 + rng.below(3) as u32 - 1,
        3 => 1 << 31,
        4 => 0,
        5..=12 => rng.below(9000) as u32,
        13 => 65_536 + rng.below(200_000) as u32,
        _ => 512 << rng.below(6),
    }
}

fn options(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.below(5) {
        let name = *rng.pick(&["", "disk", "disk", "other", "none", "disk\0"]);
        let mut data = match rng.below(9) {
            0 => (option::LIST, vec![]),
            1 => (option::STARTTLS, vec![]),
            2 => (option::INFO, go_data(name, &[0, 1, 2, 3, 77])),
            3..=5 => (option::STRUCTURED, vec![]),
            6 => (option::SET_META, meta_data(name, &["base:allocation", "base:", "x"])),
            7 => (option::LIST_META, meta_data(name, &[])),
            _ => (rng.below(20) as u32, vec![0; rng.below(40) as usize]),
        };
        let mut frame = match rng.below(30) {
            // Longer than anybody looks at.
            0 => option_bytes(data.0, &vec![0xFF; 70_000]),
            1 => {
                let n = data.1.len().max(4);
                data.1.resize(n, 0);
                // A length inside that is not true.
                let lie = *rng.pick(&[u32::MAX, 1 << 31, 4096, 4097, n as u32]);
                data.1[..4].copy_from_slice(&lie.to_be_bytes());
                option_bytes(data.0, &data.1)
            }
            _ => option_bytes(data.0, &data.1),
        };
        if rng.below(60) == 0 {
            let lie = *rng.pick(&[u32::MAX, 1 << 31, (1 << 20) + 1, 65_536, 65_537]);
            frame[12..16].copy_from_slice(&lie.to_be_bytes());
        }
        bytes.extend(frame);
    }
    if rng.below(3) > 0 {
        bytes.extend(option_bytes(option::STRUCTURED, &[]));
        bytes.extend(option_bytes(option::SET_META, &meta_data("disk", &["base:allocation"])));
    }
    match rng.below(30) {
        0 => {}
        1 => bytes.extend(option_bytes(option::ABORT, &[])),
        2 => bytes.extend(option_bytes(option::GO, &go_data("none", &[]))),
        3 | 4 => bytes.extend(option_bytes(option::EXPORT_NAME, b"disk")),
        5 | 6 => bytes.extend(option_bytes(option::GO, &go_data("disk", &[3]))),
        _ => bytes.extend(option_bytes(option::GO, &go_data("disk", &[]))),
    }
}

/// What a client might send: mostly right, with something wrong now and then.
pub fn draw(rng: &mut Rng, size: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let flags: u32 = if rng.below(40) == 0 { rng.next_u64() as u32 } else { *rng.pick(&[1, 3]) };
    bytes.extend_from_slice(&flags.to_be_bytes());
    options(rng, &mut bytes);
    let clean = rng.below(2) == 0;
    for number in 0..rng.below(40) {
        let kind = match rng.below(20) {
            0..=5 => command::READ,
            6..=10 => command::WRITE,
            11 => command::FLUSH,
            12 | 13 => command::TRIM,
            14 | 15 => command::WRITE_ZEROES,
            16 | 17 => command::BLOCK_STATUS,
            18 => command::CACHE,
            _ => rng.below(70_000) as u16,
        };
        let kind = if kind == command::DISC && rng.below(4) > 0 { command::READ } else { kind };
        let flags = match rng.below(8) {
            0 => 1 << rng.below(16),
            1 => 1,
            2 => 1 << rng.below(5),
            _ => 0,
        };
        let mut request = Request {
            flags,
            kind,
            cookie: number + 1,
            at: place(rng, size),
            bytes: length(rng, size),
        };
        if kind == command::WRITE && (clean || rng.below(8) > 0) {
            request.bytes = request.bytes.min(300_000);
        }
        let mut head = request.encode();
        if !clean && rng.below(60) == 0 {
            head[rng.below(28) as usize] ^= 1 << rng.below(8);
        }
        bytes.extend_from_slice(&head);
        let payload = (request.payload() as usize).min(400_000);
        bytes.resize(bytes.len() + payload, WRITTEN);
    }
    if !clean && rng.below(4) == 0 {
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

/// The requests of a script, as far as they can be told apart.
fn requests(bytes: &[u8]) -> BTreeMap<u64, Vec<Request>> {
    let mut found: BTreeMap<u64, Vec<Request>> = BTreeMap::new();
    for start in 0..bytes.len().saturating_sub(27) {
        if let Some(Ok(request)) = bytes[start..].first_chunk().map(Request::decode) {
            found.entry(request.cookie).or_default().push(request);
        }
    }
    found
}

/// Holds what came back against the protocol: whole replies to requests that were made, and no
/// byte that the client could not know.
pub fn judge(sent: &[u8], agreed: Agreed, mut got: &[u8]) -> Result<u64, String> {
    let asked = requests(sent);
    let mut replies = 0;
    while !got.is_empty() {
        let magic = got.get(..4).map(|bytes| u32_at(bytes, 0));
        let (cookie, data, used) = match magic {
            Some(SIMPLE) if got.len() >= 16 => simple(&asked, agreed, got)?,
            Some(CHUNK) if got.len() >= 20 => chunk_of(agreed, got)?,
            _ => return Err(format!("no reply: {:02x?}", &got[..got.len().min(32)])),
        };
        match asked.get(&cookie).map(Vec::len) {
            None => return Err(format!("a reply to {cookie}, which was not asked")),
            Some(1) => {}
            // A head that was hit may have another's cookie: how long its reply is, nobody knows.
            Some(_) => return Ok(replies),
        }
        // (A request whose head was hit may write other bytes of the script as data.)
        let foreign = data.iter().position(|byte| *byte == OTHERS);
        if let Some(at) = foreign {
            return Err(format!("byte {at} of a reply is another export's"));
        }
        replies += 1;
        got = &got[used..];
    }
    Ok(replies)
}

type Part<'a> = (u64, &'a [u8], usize);

fn simple<'a>(
    asked: &BTreeMap<u64, Vec<Request>>,
    agreed: Agreed,
    got: &'a [u8],
) -> Result<Part<'a>, String> {
    let (errno, cookie) = (u32_at(got, 4), u64_at(got, 8));
    let known = [0, 1, 5, 22, 28, 95, 108].contains(&errno);
    let request = asked.get(&cookie).filter(|all| all.len() == 1).and_then(|all| all.first());
    let read = request.is_some_and(|request| request.kind == command::READ);
    match (known, agreed.structured && read, request) {
        (false, ..) => Err(format!("error number {errno}")),
        (_, true, _) => Err("a simple reply to a read".to_string()),
        (_, _, Some(request)) if read && errno == 0 => {
            let end = 16 + request.bytes as usize;
            let data = got.get(16..end).ok_or("a short reply")?;
            Ok((cookie, data, end))
        }
        _ => Ok((cookie, &[], 16)),
    }
}

fn chunk_of(agreed: Agreed, got: &[u8]) -> Result<Part<'_>, String> {
    let (kind, cookie) = (u32_at(got, 4) as u16, u64_at(got, 8));
    let length = u32_at(got, 16) as usize;
    let known =
        [chunk::NONE, chunk::OFFSET_DATA, chunk::OFFSET_HOLE, chunk::BLOCK_STATUS, chunk::ERROR];
    if !agreed.structured
        || !known.contains(&kind)
        || (kind == chunk::BLOCK_STATUS && !agreed.status)
    {
        return Err(format!("a chunk of kind {kind}"));
    }
    let payload = got.get(20..20 + length).ok_or("a short chunk")?;
    let data = if kind == chunk::OFFSET_DATA { payload.get(8..).ok_or("short")? } else { &[] };
    Ok((cookie, data, 20 + length))
}
