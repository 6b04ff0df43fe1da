//! The record of a commit in the log (docs/formats.md): what of which pages it changed, and the sizes and
//! places of objects that it changed.
//!
//! Invariants:
//! * a record counts only at its place: store, epoch, number, and the checksum of the one before it;
//! * any flipped bit, any missing part of one is seen, and nothing of it is used then;
//! * what a record says was durable (`settled`) was durable before it was written;
//! * none is made that unpacks to more than [`MOST`] bytes: it would not be read.

use block::crc32c;

use super::delta::{Range, ranges};
use super::table::PAGE;

pub(super) const MAGIC: &[u8; 8] = b"varvedlt";
/// Bytes before the ranges.
pub(super) const HEADER: usize = 64;
const RANGE: usize = 12;
const META: usize = 8;
const CRC_AT: usize = 48;
/// Ranges and metas are packed.
const PACKED: u16 = 1;
/// The next record begins at a multiple of 512 bytes, not of 4096.
const FINE: u16 = 2;
/// The most that ranges and metas take, packed or not.
pub(super) const MOST: usize = 64 << 20;
const LEVEL: i32 = 1;
/// Bytes of memory that are kept for the next one.
const KEPT: usize = 1 << 20;

/// The least that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grain {
    Sector = 512,
    Page = 4096,
}

/// Where in the log a record stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Random number of the store.
    pub(super) store: u64,
    pub(super) epoch: u64,
    /// From 1 in each epoch.
    pub(super) number: u64,
    /// Checksum of the record before it in the epoch; 0 for the first one.
    pub(super) before: u32,
}

/// What a commit has changed.
#[derive(Default)]
pub(super) struct Body {
    bytes: Vec<u8>,
    metas: Vec<u8>,
    ranges: u32,
    meta_count: u16,
    /// Of the page that was added last.
    found: Vec<Range>,
}

impl Body {
    /// Adds what of a page has changed; `old`: what everybody saw of it before, if there was something.
    pub(super) fn page(&mut self, object: u32, page: u32, old: Option<&[u8]>, new: &[u8]) {
        ranges(old, new, &mut self.found);
        for Range { at, length } in &self.found {
            let (at, length) = (*at, *length);
            self.ranges += 1;
            self.bytes.extend_from_slice(&object.to_le_bytes());
            self.bytes.extend_from_slice(&page.to_le_bytes());
            self.bytes.extend_from_slice(&(at as u16).to_le_bytes());
            self.bytes.extend_from_slice(&((length - 1) as u16).to_le_bytes());
            self.bytes.extend_from_slice(&new[at..at + length]);
        }
    }

    /// Adds a page of an object's record in the table; zeroes at its end are left away.
    pub(super) fn meta(&mut self, object: u32, page: &[u8]) {
        let length = page.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.put_meta(object, &page[..length]);
    }

    /// Adds an object's new size, where nothing else of it has changed.
    pub(super) fn size(&mut self, object: u32, bytes: u64) {
        self.put_meta(object, &bytes.to_le_bytes());
    }

    fn put_meta(&mut self, object: u32, bytes: &[u8]) {
        self.meta_count += 1;
        self.metas.extend_from_slice(&object.to_le_bytes());
        self.metas.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.metas.extend_from_slice(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges == 0 && self.meta_count == 0
    }

    /// The record without its place, packed where that saves a grain.
    pub(super) fn finish(mut self, grain: Grain, packer: &mut Packer) -> Draft {
        let (ranges, metas) = (self.ranges, self.meta_count);
        self.bytes.append(&mut self.metas);
        let raw = self.bytes.len();
        let grains = |body: usize| (HEADER + body).div_ceil(grain as usize);
        let mut bytes = Vec::with_capacity((HEADER + raw).next_multiple_of(grain as usize));
        bytes.resize(HEADER, 0);
        let mut flags = if grain == Grain::Sector { FINE } else { 0 };
        let packed = match grains(raw) > 1 {
            true => packer.pack(&self.bytes),
            false => None,
        };
        match packed.filter(|packed| grains(packed.len()) < grains(raw)) {
            Some(packed) => {
                flags |= PACKED;
                bytes.extend_from_slice(packed);
            }
            None => bytes.append(&mut self.bytes),
        }
        bytes[..8].copy_from_slice(MAGIC);
        let length = bytes.len() as u32;
        bytes[32..36].copy_from_slice(&length.to_le_bytes());
        bytes[40..44].copy_from_slice(&ranges.to_le_bytes());
        bytes[44..46].copy_from_slice(&metas.to_le_bytes());
        bytes[46..48].copy_from_slice(&flags.to_le_bytes());
        bytes[60..64].copy_from_slice(&(raw as u32).to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(grain as usize), 0);
        Draft { bytes, length: length as usize, raw: raw as u64 }
    }
}

/// Packs bodies; what it needs for that is made once.
#[derive(Default)]
pub(super) struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
}

impl Packer {
    /// The packed bytes; `None`: they cannot be packed, which costs room and nothing else.
    fn pack(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        let most = zstd::zstd_safe::compress_bound(bytes.len());
        if self.packed.capacity() > most.max(KEPT) {
            self.packed = Vec::new();
        }
        self.packed.clear();
        self.packed.reserve(most);
        self.compressor.as_mut()?.compress_to_buffer(bytes, &mut self.packed).ok()?;
        Some(&self.packed)
    }
}

/// A record that has no place yet.
pub(super) struct Draft {
    bytes: Vec<u8>,
    length: usize,
    raw: u64,
}

impl Draft {
    /// Bytes it takes in the log.
    pub(super) fn takes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes of memory that whoever reads it needs.
    pub(super) fn raw(&self) -> u64 {
        self.raw
    }

    /// The bytes at a place, and the checksum; `settled`: the number of the last record that is durable.
    pub(super) fn seal(mut self, place: Place, settled: u64) -> (Vec<u8>, u32) {
        let bytes = &mut self.bytes;
        bytes[8..16].copy_from_slice(&place.store.to_le_bytes());
        bytes[16..24].copy_from_slice(&place.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&place.number.to_le_bytes());
        bytes[36..40].copy_from_slice(&place.before.to_le_bytes());
        bytes[52..60].copy_from_slice(&settled.to_le_bytes());
        let crc = crc32c(0, &bytes[..self.length]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        (self.bytes, crc)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A record as it was found: whole, wherever it belongs. What it says is still packed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) place: Place,
    /// Records up to this number were durable when it was written.
    pub(super) settled: u64,
    pub(super) crc: u32,
    /// Bytes it takes in the log.
    pub(super) takes: usize,
    /// Those of them that count.
    length: usize,
    raw: usize,
    packed: bool,
    ranges: u32,
    metas: u16,
}

/// What a record says.
pub(super) struct Said {
    bytes: Vec<u8>,
    ranges: u32,
    metas: u16,
}

/// What a range says.
pub(super) struct Change<'a> {
    pub(super) object: u32,
    pub(super) page: u32,
    pub(super) at: usize,
    pub(super) bytes: &'a [u8],
}

/// Pages that were changed; objects, and pages of their records in the table.
pub(super) type Parts<'a> = (Vec<Change<'a>>, Vec<(u32, &'a [u8])>);

impl Record {
    /// Reads the record at the beginning of `log`; `None` if there is none that is whole.
    /// `unchecked` is a planted bug.
    pub(super) fn read(log: &[u8], unchecked: bool) -> Option<Record> {
        let header = log.get(..HEADER).filter(|header| header.starts_with(MAGIC))?;
        let length = u32_at(header, 32) as usize;
        let bytes = log.get(..length).filter(|bytes| bytes.len() >= HEADER)?;
        let crc = u32_at(header, CRC_AT);
        let sum = crc32c(0, &bytes[..CRC_AT]);
        let sum = crc32c(crc32c(sum, &[0; 4]), &bytes[CRC_AT + 4..]);
        if crc != sum && !unchecked {
            return None;
        }
        let flags = u16_at(header, 46);
        let grain = if flags & FINE == 0 { Grain::Page } else { Grain::Sector };
        Some(Record {
            place: Place {
                store: u64_at(header, 8),
                epoch: u64_at(header, 16),
                number: u64_at(header, 24),
                before: u32_at(header, 36),
            },
            settled: u64_at(header, 52),
            crc,
            takes: length.next_multiple_of(grain as usize),
            length,
            raw: u32_at(header, 60) as usize,
            packed: flags & PACKED != 0,
            ranges: u32_at(header, 40),
            metas: u16_at(header, 44),
        })
    }

    /// What it says, from the bytes that it was read from; `None`: nothing that was written by the rules.
    pub(super) fn said(&self, log: &[u8]) -> Option<Said> {
        let body = log.get(HEADER..self.length)?;
        let bytes = match self.packed {
            false => body.to_vec(),
            true if self.raw > MOST => return None,
            true => zstd::bulk::decompress(body, self.raw).ok()?,
        };
        let said = Said { bytes, ranges: self.ranges, metas: self.metas };
        (said.bytes.len() == self.raw).then_some(said)
    }
}

impl Said {
    /// Its ranges and metas, if they fill it exactly.
    pub(super) fn parts(&self) -> Option<Parts<'_>> {
        let (mut changes, mut metas, mut rest) = (Vec::new(), Vec::new(), &self.bytes[..]);
        for _ in 0..self.ranges {
            let (head, tail) = rest.split_at_checked(RANGE)?;
            let (at, length) = (usize::from(u16_at(head, 8)), usize::from(u16_at(head, 10)) + 1);
            let (bytes, tail) = tail.split_at_checked(length)?;
            if at + length > PAGE {
                return None;
            }
            changes.push(Change { object: u32_at(head, 0), page: u32_at(head, 4), at, bytes });
            rest = tail;
        }
        for _ in 0..self.metas {
            let (head, tail) = rest.split_at_checked(META)?;
            let (bytes, tail) = tail.split_at_checked(u32_at(head, 4) as usize)?;
            if bytes.len() > PAGE {
                return None;
            }
            metas.push((u32_at(head, 0), bytes));
            rest = tail;
        }
        rest.is_empty().then_some((changes, metas))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_packed_where_that_saves_a_grain() {
        // Grains that a record takes with a body of so many bytes, each range of which has a head of 12.
        let grains = |body: usize, grain: Grain| {
            let (mut record, mut left) = (Body::default(), body);
            for page in 0.. {
                let range = left.min(1_012);
                let (old, mut new) = (vec![0; PAGE], vec![0; PAGE]);
                new[..range - 12].fill(9);
                record.page(3, page, Some(&old), &new);
                left -= range;
                if left == 0 {
                    break;
                }
            }
            let draft = record.finish(grain, &mut Packer::default());
            let packed = u16::from_le_bytes([draft.bytes[46], draft.bytes[47]]) & PACKED != 0;
            (draft.takes() as f64 / f64::from(grain as u32), packed)
        };
        for grain in [Grain::Sector, Grain::Page] {
            let fits = grain as usize - HEADER;
            assert_eq!(grains(fits, grain), (1.0, false), "one grain already");
            assert_eq!(grains(fits + 1, grain), (1.0, true), "two without");
        }
    }
}
