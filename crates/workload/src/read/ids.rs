//! Lists of block numbers without operation or time: good for hit ratios only.
//!
//! * `ids`: one number per line; LIRS traces are the same with `*` lines as marks;
//! * `arc`: `start count ignored number` per line (Megiddo and Modha, "ARC", FAST 2003), each of
//!   which is `count` references;
//! * `u32`: little-endian 32-bit words.
//!
//! A number stands for a page of 4 KiB unless `size_unit` says otherwise.

use super::binary::{BinFormat, BinSource, Step};
use super::field::{Bad, Cols};
use super::stage::{Order, Raw, Stage};
use super::text::{Item, LineFormat, TextSource};
use super::{Input, ReadOptions, SizeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

/// Bits of an id that make a byte offset together with the largest unit.
pub(crate) const ID_BITS: u32 = 50;

pub(crate) fn unit(o: &ReadOptions) -> u64 {
    // A reference to "byte n" would have no length: ids count at least sectors.
    o.size_unit.map_or(SizeUnit::Page.bytes(), |u| u.bytes().max(512))
}

/// The page an id stands for; a hashed id of 64 bits keeps its low ones.
pub(crate) fn fold(id: u64, stage: &mut Stage) -> u64 {
    let kept = id & ((1 << ID_BITS) - 1);
    stage.summary.folded_ids += u64::from(kept != id);
    kept
}

pub(crate) struct Ids {
    pub unit: u64,
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Ids { unit: unit(o) }, Order::Untimed, None, o)))
}

impl LineFormat for Ids {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        if line.trim_ascii() == b"*" {
            return Ok(Item::NotRequest);
        }
        let mut cols = Cols::new(line);
        let id = cols.word("a block number")?.u64("a block number")?;
        cols.finish()?;
        let page = fold(id, stage);
        stage.apps.id(b"ids").map_err(|e| Bad::line(line, e))?;
        Ok(Item::One(Raw::new(0, TraceOp::Read, page * self.unit, self.unit)))
    }
}

pub(crate) struct Arc {
    pub unit: u64,
}

pub(crate) fn open_arc(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(TextSource::new(input, Arc { unit: unit(o) }, Order::Untimed, None, o)))
}

impl LineFormat for Arc {
    fn parse(&mut self, line: &[u8], stage: &mut Stage) -> Result<Item, Bad> {
        let mut cols = Cols::new(line);
        let start = cols.word("a first block")?;
        let first = start.u64("a first block")?;
        let size = cols.word("a number of blocks")?;
        let count = size.u64("a number of blocks")?;
        cols.word("an ignored number")?.u64("an ignored number")?;
        cols.word("a request number")?.u64("a request number")?;
        cols.finish()?;
        // A line of 2^60 blocks is no trace, and would never end.
        if count == 0 || count > 1 << 32 {
            return Err(size.bad("a number of blocks from 1 to 2^32"));
        }
        if first.checked_add(count).is_none_or(|end| end >> ID_BITS != 0) {
            return Err(start.bad("block numbers below 2^50"));
        }
        stage.apps.id(b"ids").map_err(|e| Bad::line(line, e))?;
        Ok(Item::Run { first, count, unit: self.unit })
    }
}

pub(crate) struct Words {
    unit: u64,
}

pub(crate) fn open_u32(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(BinSource::new(input, Words { unit: unit(o) }, Order::Untimed, o)))
}

impl BinFormat for Words {
    fn step(&mut self, input: &mut Input, stage: &mut Stage) -> Result<Step, SourceError> {
        let at = input.offset();
        let bytes = input.take(4)?;
        if bytes.is_empty() {
            return Ok(Step::End);
        }
        let Ok(word) = <[u8; 4]>::try_from(bytes) else {
            let found = bytes.len();
            return Ok(Step::Bad {
                at,
                found: format!("{found} bytes"),
                expected: "a whole 4-byte word".into(),
            });
        };
        stage.apps.id(b"ids").map_err(|e| input.unusable(e))?;
        let page = u64::from(u32::from_le_bytes(word));
        Ok(Step::One(Raw::new(0, TraceOp::Read, page * self.unit, self.unit)))
    }
}
