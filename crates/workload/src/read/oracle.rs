//! oracleGeneral: 24-byte little-endian records, u32 seconds, u64 id, u32 size, i64 position of
//! the next request of that id (-1 or the largest number = never).
//!
//! There is no operation: results carry no write information. An id stands for a page (see
//! [`super::ids`]); the size is kept, so that an object larger than a page shares pages with the ids that
//! follow: right for block numbers, wrong for objects of a cache, and counted.

use super::binary::{BinFormat, BinSource, Step};
use super::ids::{fold, unit};
use super::stage::{Order, Raw, Stage};
use super::{Input, ReadOptions, TimeUnit, TraceSource};
use crate::SourceError;
use crate::record::TraceOp;

const RECORD: usize = 24;

pub(crate) struct Oracle {
    unit: u64,
}

pub(crate) fn open(input: Input, o: &ReadOptions) -> Result<Box<dyn TraceSource>, SourceError> {
    Ok(Box::new(BinSource::new(input, Oracle { unit: unit(o) }, Order::Promised(0), o)))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// There is no magic; but times that do not fall, sizes that are sizes and positions that lie
/// ahead, record after record, do not happen by chance.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let records = head.chunks_exact(RECORD).take(64);
    let (mut seen, mut last) = (0u64, 0);
    for record in records {
        let (time, size) = (u32_at(record, 0), u32_at(record, 12));
        let next = u64_at(record, 16) as i64;
        let ahead = next == -1 || next == i64::MAX || (next > seen as i64 && next < 1 << 40);
        if time < last || size == 0 || size > 1 << 31 || !ahead {
            return false;
        }
        last = time;
        seen += 1;
    }
    seen >= 2
}

impl BinFormat for Oracle {
    // Inlined, the record goes from the bytes to the block without a copy of its intermediate forms.
    #[inline(always)]
    fn step(&mut self, input: &mut Input, stage: &mut Stage) -> Result<Step, SourceError> {
        let at = input.offset();
        let record = input.take(RECORD)?;
        if record.is_empty() {
            return Ok(Step::End);
        }
        if record.len() < RECORD {
            let found = format!("{} bytes", record.len());
            return Ok(Step::Bad { at, found, expected: "a whole 24-byte record".into() });
        }
        let seconds = u128::from(u32_at(record, 0));
        let (id, size) = (u64_at(record, 4), u64::from(u32_at(record, 12)));
        if stage.apps.names().is_empty() {
            // All of them are one space of ids: it is named once.
            stage.apps.id(b"ids").map_err(|e| input.unusable(e))?;
        }
        stage.summary.wide_objects += u64::from(size > self.unit);
        let offset = fold(id, stage) * self.unit;
        let time = seconds * u128::from(TimeUnit::S.ps());
        Ok(Step::One(Raw::new(time, TraceOp::Read, offset, size)))
    }
}
