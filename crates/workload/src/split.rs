//! A request cut into units of the drive (4 KiB or a larger power of two).
//!
//! A read or write touches every unit it overlaps, ascending, each once; a discard touches only units that lie wholly inside it. Nothing is allocated.

use block::{AppId, Bytes, SECTOR_BYTES, UNIT_BYTES};

use crate::{Record, TraceOp};

/// The size of a unit: a power of two of at least 4 KiB ([`UNIT_BYTES`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitSize {
    shift: u32,
}

impl UnitSize {
    /// The mapping unit of the drive, 4 KiB.
    pub const PAGE: UnitSize = UnitSize { shift: UNIT_BYTES.trailing_zeros() };

    /// A unit of `bytes`.
    ///
    /// # Errors
    /// [`SplitError::UnitSize`] unless `bytes` is a power of two from 4 KiB to 1 GiB (so that a
    /// place inside a unit fits 32 bits).
    pub fn new(bytes: Bytes) -> Result<UnitSize, SplitError> {
        let valid = bytes.0.is_power_of_two() && (UNIT_BYTES..=1 << 30).contains(&bytes.0);
        if !valid {
            return Err(SplitError::UnitSize(bytes));
        }
        Ok(UnitSize { shift: bytes.0.trailing_zeros() })
    }

    /// Bytes of one unit.
    pub const fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// The unit that holds byte `offset`.
    pub const fn of(self, offset: Bytes) -> u64 {
        offset.0 >> self.shift
    }

    /// The first unit that starts at or after byte `offset`.
    const fn at_or_after(self, offset: u64) -> u64 {
        (offset >> self.shift) + (offset & (self.bytes() - 1) != 0) as u64
    }
}

/// Why a request cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// Not a size a unit can have.
    #[error("a unit of {0} bytes: expected a power of two from 4 KiB to 1 GiB")]
    UnitSize(Bytes),
    /// A read or write of no bytes.
    #[error("a {op:?} of length 0 at byte {offset}")]
    Empty {
        /// What was asked for.
        op: TraceOp,
        /// Where.
        offset: Bytes,
    },
    /// The request ends beyond 2^64 bytes.
    #[error("{len} bytes at byte {offset} end beyond the 64-bit address space")]
    Overflow {
        /// First byte.
        offset: Bytes,
        /// Number of bytes.
        len: Bytes,
    },
}

/// The units `first..end` a request touches; empty for a flush and for a discard that covers no
/// unit wholly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitRange {
    /// First unit.
    pub first: u64,
    /// One past the last unit.
    pub end: u64,
}

impl UnitRange {
    /// Number of units.
    pub const fn count(self) -> u64 {
        self.end - self.first
    }
}

/// The units `record` touches, without cutting it.
///
/// # Errors
/// [`SplitError::Empty`] for a read or write of length 0, [`SplitError::Overflow`] past 2^64.
pub fn unit_range(record: &Record, size: UnitSize) -> Result<UnitRange, SplitError> {
    let (offset, len) = (record.offset.0, record.len.0);
    let end = offset
        .checked_add(len)
        .ok_or(SplitError::Overflow { offset: record.offset, len: record.len })?;
    match record.op {
        TraceOp::Flush => Ok(UnitRange { first: 0, end: 0 }),
        TraceOp::Discard => {
            let first = size.at_or_after(offset);
            Ok(UnitRange { first, end: (end >> size.shift).max(first) })
        }
        _ if len == 0 => Err(SplitError::Empty { op: record.op, offset: record.offset }),
        _ => Ok(UnitRange { first: offset >> size.shift, end: size.at_or_after(end) }),
    }
}

/// One unit of a request, with what the whole request says (AOI's threshold is on the length of
/// the whole request, and request hits are counted by its id).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitAccess {
    /// Number of the unit.
    pub unit: u64,
    /// First byte touched, counted from the start of the unit.
    pub from: u32,
    /// Bytes touched; the unit size unless the unit is touched in part.
    pub len: u32,
    /// Number of the request in the stream, from 0.
    pub request: u64,
    /// Length of the whole request.
    pub request_len: Bytes,
    /// Application of the request.
    pub app: AppId,
    /// What the request does.
    pub op: TraceOp,
}

impl UnitAccess {
    /// The sectors of the unit it touches, `first..end`, rounded outwards: bits of a sector mask.
    pub fn sectors(&self) -> std::ops::Range<u32> {
        let sector = SECTOR_BYTES as u32;
        self.from / sector..(self.from + self.len).div_ceil(sector)
    }
}

/// What was cut so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SplitCounters {
    /// Requests of every kind.
    pub requests: u64,
    /// Units handed out.
    pub units: u64,
    /// Units of reads and writes that are touched only in part.
    pub partial_units: u64,
    /// Reads, writes and discards that do not start and end on a unit.
    pub unaligned_requests: u64,
    /// Discards that cover no unit wholly.
    pub empty_discards: u64,
}

/// Cuts a stream of requests and counts.
#[derive(Clone, Debug)]
pub struct Splitter {
    size: UnitSize,
    counters: SplitCounters,
}

impl Splitter {
    /// A splitter into units of `size`.
    pub fn new(size: UnitSize) -> Splitter {
        Splitter { size, counters: SplitCounters::default() }
    }

    /// What was cut so far.
    pub fn counters(&self) -> SplitCounters {
        self.counters
    }

    /// The units of `record`, ascending, each once. All of them are counted now, whether or not
    /// the iterator is used up.
    ///
    /// # Errors
    /// As [`unit_range`]; nothing is counted then.
    pub fn split(&mut self, record: &Record) -> Result<Units, SplitError> {
        let range = unit_range(record, self.size)?;
        let units = Units {
            next: range.first,
            end: range.end,
            size: self.size,
            start: record.offset.0,
            stop: record.offset.0 + record.len.0,
            head: UnitAccess {
                unit: 0,
                from: 0,
                len: 0,
                request: self.counters.requests,
                request_len: record.len,
                app: record.app,
                op: record.op,
            },
        };
        self.count(record, range);
        Ok(units)
    }

    fn count(&mut self, record: &Record, range: UnitRange) {
        let counters = &mut self.counters;
        counters.requests += 1;
        counters.units += range.count();
        if record.op == TraceOp::Flush {
            return;
        }
        let inside = self.size.bytes() - 1;
        let head = record.offset.0 & inside != 0;
        let tail = (record.offset.0 + record.len.0) & inside != 0;
        counters.unaligned_requests += u64::from(head || tail);
        if record.op == TraceOp::Discard {
            counters.empty_discards += u64::from(range.count() == 0);
        } else {
            // A request inside one unit is one partial unit, even if it misses both ends.
            counters.partial_units += (u64::from(head) + u64::from(tail)).min(range.count());
        }
    }
}

/// The units of one request, ascending.
#[derive(Clone, Debug)]
pub struct Units {
    next: u64,
    end: u64,
    size: UnitSize,
    start: u64,
    stop: u64,
    head: UnitAccess,
}

impl Iterator for Units {
    type Item = UnitAccess;

    #[inline]
    fn next(&mut self) -> Option<UnitAccess> {
        if self.next == self.end {
            return None;
        }
        let unit = self.next;
        self.next += 1;
        let begin = unit << self.size.shift;
        let from = self.start.saturating_sub(begin);
        let to = (self.stop - begin).min(self.size.bytes());
        Some(UnitAccess { unit, from: from as u32, len: (to - from) as u32, ..self.head })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Units {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use block::{Rng, Time};

    use super::*;
    use crate::Flags;

    fn record(op: TraceOp, offset: u64, len: u64) -> Record {
        Record {
            at: Time::ZERO,
            offset: Bytes(offset),
            len: Bytes(len),
            response: None,
            app: AppId(3),
            op,
            flags: Flags::default(),
            hint: 0,
        }
    }

    /// Byte by byte: which bytes of which unit the request names.
    fn brute(record: &Record, unit: u64) -> BTreeMap<u64, (u64, u64)> {
        let mut touched: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for byte in record.offset.0..record.offset.0 + record.len.0 {
            touched.entry(byte / unit).or_insert((byte % unit, 0)).1 += 1;
        }
        if record.op == TraceOp::Discard {
            touched.retain(|_, (_, bytes)| *bytes == unit);
        }
        touched
    }

    #[test]
    fn equals_the_brute_force_model() {
        let mut rng = Rng::new(11);
        let ops = [TraceOp::Read, TraceOp::Write, TraceOp::Zero, TraceOp::Discard];
        for shift in 12..15 {
            let unit = 1u64 << shift;
            let mut splitter = Splitter::new(UnitSize::new(Bytes(unit)).unwrap());
            let mut expected = SplitCounters::default();
            for request in 0..3_000 {
                let grain = *rng.pick(&[1, 512, 4096]);
                let offset = rng.below(6 * unit / grain) * grain;
                let len = (rng.below(4 * unit / grain) + 1) * grain;
                let record = record(*rng.pick(&ops), offset, len);
                let model = brute(&record, unit);
                let got: Vec<UnitAccess> = splitter.split(&record).unwrap().collect();
                assert!(got.iter().all(|a| a.request == request && a.request_len.0 == len));
                assert!(got.iter().all(|a| a.op == record.op && a.app == AppId(3)));
                let flat: Vec<_> =
                    got.iter().map(|a| (a.unit, (a.from.into(), a.len.into()))).collect();
                assert_eq!(flat, model.clone().into_iter().collect::<Vec<_>>(), "{record:?}");
                let discard = record.op == TraceOp::Discard;
                expected.requests += 1;
                expected.units += model.len() as u64;
                expected.empty_discards += u64::from(discard && model.is_empty());
                expected.partial_units += model.values().filter(|(_, n)| *n < unit).count() as u64;
                expected.unaligned_requests +=
                    u64::from(!offset.is_multiple_of(unit) || !(offset + len).is_multiple_of(unit));
            }
            assert_eq!(splitter.counters(), expected);
            assert!(expected.partial_units > 0 && expected.empty_discards > 0);
        }
    }

    #[test]
    fn flushes_have_no_units_and_bad_requests_are_errors() {
        let mut splitter = Splitter::new(UnitSize::PAGE);
        assert_eq!(splitter.split(&record(TraceOp::Flush, 0, 0)).unwrap().count(), 0);
        assert_eq!(splitter.split(&record(TraceOp::Discard, 4096, 0)).unwrap().count(), 0);
        for op in [TraceOp::Read, TraceOp::Write, TraceOp::Zero] {
            let empty = splitter.split(&record(op, 512, 0)).unwrap_err();
            assert_eq!(empty, SplitError::Empty { op, offset: Bytes(512) });
        }
        assert!(splitter.split(&record(TraceOp::Write, u64::MAX, 1)).is_err());
        let last = record(TraceOp::Write, u64::MAX - 8191, 8191);
        assert_eq!(splitter.split(&last).unwrap().map(|a| a.len).collect::<Vec<_>>(), [4096, 4095]);
        for bad in [0, 512, 2048, 5000, 12288, 1 << 31] {
            assert_eq!(UnitSize::new(Bytes(bad)), Err(SplitError::UnitSize(Bytes(bad))));
        }
    }

    #[test]
    fn sectors_round_outwards() {
        let mut splitter = Splitter::new(UnitSize::PAGE);
        let ranges: Vec<_> = splitter
            .split(&record(TraceOp::Write, 4096 + 700, 4096))
            .unwrap()
            .map(|a| a.sectors())
            .collect();
        assert_eq!(ranges, [1..8, 0..2]);
    }
}
