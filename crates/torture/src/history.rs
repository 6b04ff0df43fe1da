//! A data log as sectors of 512 bytes: where the data of each is, and what it is.
//!
//! Every sector that a record wrote has a number, its *source*, from 1 on; 0 is a sector of zeroes. A state of
//! the drive is then one source for each of its sectors: small, and quick to compare.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use stack::datalog::{Log, LogError, Op, Record, SECTOR};

/// Bytes of a drive that states are built of, at most: a table of sectors is kept for each.
pub const LARGEST: u64 = 64 << 30;
/// Marks of the recorder: the program is started; everything before is its own affair.
pub const STARTED: &str = "started";
/// The program said that it is ready.
pub const READY: &str = "ready";
/// The program ended.
pub const ENDED: &str = "ended";

/// A log, ready for states to be built of it.
#[derive(Debug)]
pub struct History {
    log: Log,
    /// Of each source but 0: where its bytes are in the log.
    places: Vec<u64>,
    /// Of each source: its content, and nothing else. Sources of the same bytes have the same.
    contents: Vec<u64>,
    /// Of each record that wrote: its first source.
    first: Vec<u32>,
    digests: Vec<u128>,
}

fn folded(bytes: &[u8]) -> u128 {
    let hash = Sha256::digest(bytes);
    u128::from_le_bytes(std::array::from_fn(|i| hash[i]))
}

impl History {
    /// Reads a log.
    ///
    /// # Errors
    /// [`LogError`]; a drive that is too large to build states of.
    pub fn load(path: &Path) -> Result<History, LogError> {
        History::new(Log::load(path)?)
    }

    /// Of a log.
    ///
    /// # Errors
    /// A drive that is too large to build states of.
    pub fn new(log: Log) -> Result<History, LogError> {
        if log.size > LARGEST {
            return Err(LogError::Bad {
                place: "the header".to_string(),
                found: format!("a drive of {} bytes", log.size),
                expected: format!("{LARGEST} at most, to build states of it"),
            });
        }
        let (mut places, mut first) = (Vec::new(), Vec::with_capacity(log.records.len()));
        let (mut contents, mut digests) = (vec![0], vec![0]);
        let mut known: BTreeMap<u128, u64> = BTreeMap::new();
        for record in &log.records {
            first.push(places.len() as u32 + 1);
            if record.op != Op::Write {
                continue;
            }
            for (i, sector) in log.data(record).chunks(SECTOR as usize).enumerate() {
                let blank = sector.iter().all(|byte| *byte == 0);
                let digest = if blank { 0 } else { folded(sector) };
                let next = known.len() as u64 + 1;
                contents.push(if blank { 0 } else { *known.entry(digest).or_insert(next) });
                digests.push(digest);
                places.push((record.data.start + i * SECTOR as usize) as u64);
            }
        }
        Ok(History { log, places, contents, first, digests })
    }

    /// Bytes of the drive.
    pub fn size(&self) -> u64 {
        self.log.size
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What happened.
    pub fn records(&self) -> &[Record] {
        &self.log.records
    }

    /// The source of a sector of a record: 0 where it made zeroes.
    pub fn source(&self, record: usize, sector: u64) -> u32 {
        match self.log.records[record].op {
            Op::Write => {
                self.first[record] + (sector - self.log.records[record].at / SECTOR) as u32
            }
            _ => 0,
        }
    }

    /// The bytes of a source.
    pub fn sector(&self, source: u32) -> Option<&[u8]> {
        let place = self.places.get((source as usize).checked_sub(1)?)?;
        Some(self.log.bytes(*place as usize, SECTOR as usize))
    }

    /// Whether two sources hold the same bytes.
    pub fn same(&self, one: u32, other: u32) -> bool {
        self.contents[one as usize] == self.contents[other as usize]
    }

    /// What a sector with this source adds to the hash of a state: its bytes and its place, on any machine
    /// the same.
    pub fn weight(&self, sector: u64, source: u32) -> u128 {
        let digest = self.digests[source as usize];
        if digest == 0 {
            return 0;
        }
        // Odd numbers are never lost in a product.
        let place = u128::from(sector).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) | 1;
        (digest ^ place.rotate_left(64)).wrapping_mul(place)
    }

    /// The record of a mark of the recorder.
    pub fn ours(&self, text: &str) -> Option<usize> {
        let is = |r: &&Record| r.op == Op::Mark && r.ours && self.log.text(r) == text;
        self.log.records.iter().position(|record| is(&record))
    }
}

/// What a mark of a program says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    /// `begin X`: it may happen from now on.
    Begin(&'a str),
    /// `X`: it has happened, and is promised.
    Promise(&'a str),
    /// `ready`.
    Ready,
}

/// What a mark of a program says.
pub fn said(text: &str) -> Said<'_> {
    match (text, text.strip_prefix("begin ")) {
        (READY, _) => Said::Ready,
        (_, Some(what)) => Said::Begin(what),
        (promise, None) => Said::Promise(promise),
    }
}
