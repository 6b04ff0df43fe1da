//! Where a tenant's addresses lie on the one drive.

use block::Bytes;

use super::stream::Stream;
use crate::{Record, SourceError, TraceOp};

/// Areas of `partition` are whole multiples of this, 1 MiB, so that no 1 MiB chunk of the drive
/// belongs to two tenants.
pub const AREA_GRAIN: Bytes = Bytes(1 << 20);

/// How tenants' address spaces become the drive's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressMap {
    /// One area after the other, in the order of the tenants.
    Partition,
    /// As `Partition`, then every address modulo this size (a multiple of 4 KiB): fits a smaller
    /// drive. Requests whose address changes are counted; one across the end becomes two.
    Modulo(Bytes),
    /// All tenants share one address space (load, then run, of one database).
    Identity,
}

/// The part of the drive a tenant has, before `modulo` wraps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// First byte.
    pub base: Bytes,
    /// Number of bytes; 2^64 − 1 where nothing bounds it (`identity` without an extent).
    pub size: Bytes,
}

/// The areas of tenants with these extents; `None` is "not known".
pub(super) fn lay_out(
    map: AddressMap,
    extents: &[(String, Option<Bytes>)],
) -> Result<Vec<Area>, SourceError> {
    let mut base = 0u64;
    let mut areas = Vec::with_capacity(extents.len());
    for (name, extent) in extents {
        if map == AddressMap::Identity {
            areas.push(Area { base: Bytes(0), size: extent.unwrap_or(Bytes(u64::MAX)) });
            continue;
        }
        let fail = |what: &str| SourceError::Recipe(format!("app {name}: {what}"));
        let extent = extent.ok_or_else(|| fail("this address map needs its extent"))?;
        let size = extent.0.checked_next_multiple_of(AREA_GRAIN.0);
        let end = size.and_then(|size| base.checked_add(size));
        let (Some(size), Some(end)) = (size, end) else {
            return Err(fail("the areas do not fit into 64 bits"));
        };
        areas.push(Area { base: Bytes(base), size: Bytes(size) });
        base = end;
    }
    Ok(areas)
}

/// What mapping a record gave: one record, or two where it wraps round the end.
pub(super) struct Mapped {
    pub first: Record,
    pub second: Option<Record>,
    pub wrapped: bool,
}

impl AddressMap {
    /// Moves `record` of `stream` into `area`, and wraps it.
    pub(super) fn apply(
        self,
        area: Area,
        mut record: Record,
        stream: &Stream,
    ) -> Result<Mapped, SourceError> {
        if record.op == TraceOp::Flush {
            return Ok(Mapped { first: record, second: None, wrapped: false });
        }
        if stream.unit_end(&record)? > area.size.0 {
            let (offset, len, size) = (record.offset, record.len, area.size.human());
            return Err(stream.error(&format!(
                "{len} bytes at byte {offset} reach beyond its extent of {size}"
            )));
        }
        if self == AddressMap::Identity {
            return Ok(Mapped { first: record, second: None, wrapped: false });
        }
        // Only a discard can stick out here, by less than a unit, which it does not cover anyway.
        record.len = Bytes(record.len.0.min(area.size.0.saturating_sub(record.offset.0)));
        record.offset.0 += area.base.0;
        match self {
            AddressMap::Modulo(size) => Ok(wrap(record, size.0)),
            _ => Ok(Mapped { first: record, second: None, wrapped: false }),
        }
    }
}

fn wrap(record: Record, size: u64) -> Mapped {
    if record.len.0 >= size {
        // Every byte of the drive is named at least once: name each once.
        let wrapped = record.offset.0 != 0 || record.len.0 > size;
        let first = Record { offset: Bytes(0), len: Bytes(size), ..record };
        return Mapped { first, second: None, wrapped };
    }
    let offset = record.offset.0 % size;
    let head = record.len.0.min(size - offset);
    let rest = record.len.0 - head;
    let first = Record { offset: Bytes(offset), len: Bytes(head), ..record };
    let second = (rest > 0).then_some(Record { offset: Bytes(0), len: Bytes(rest), ..record });
    Mapped { first, second, wrapped: offset != record.offset.0 || rest > 0 }
}
