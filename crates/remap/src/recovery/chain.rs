//! The chains of records behind a root, and the log they are together.
//!
//! Invariants: a header is accepted where the chain says it is, in the root's epoch, with a number
//! above its predecessor's; the log is the records whose numbers follow each other without a gap;
//! a gap below what is known to be flushed is damage, never an end.

use block::{Plant, crc32c};

use super::read_block;
use crate::engine::HeadKind;
use crate::error::LogError;
use crate::geometry::{BLOCK, Geometry, Pba, Seg};
use crate::planted::Planted;
use crate::record::{Form, Header, Kind, stamp_crc};
use crate::root::{HeadAt, Super};
use crate::store::Store;

/// A record that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub seq: u64,
    pub at: Pba,
    pub kind: Kind,
    /// Its head.
    pub head: HeadKind,
    pub data: u16,
    pub more: bool,
    pub next: Seg,
}

/// The records of one head.
pub(super) struct Chain {
    pub head: HeadKind,
    pub start: HeadAt,
    pub found: Vec<Found>,
    /// Segments it goes through, the first included.
    pub segments: Vec<Seg>,
    /// Highest number that any header here says is flushed.
    pub durable: u64,
}

impl Chain {
    /// Where the head goes on after the record `last`.
    pub fn head_after(&self, last: Option<Found>, g: &Geometry) -> HeadAt {
        match last.and_then(|last| g.seg(last.at).map(|seg| (last, seg))) {
            None => self.start,
            Some((last, seg)) => {
                let offset = last.at.0 - g.base(seg).0 + 1 + u32::from(last.data);
                HeadAt { seg, offset, next: last.next }
            }
        }
    }
}

/// The log behind a root.
pub(super) struct Log {
    pub start: u64,
    pub records: Vec<Found>,
    pub durable: u64,
    pub checked: u64,
    /// What is wrong with what was flushed.
    pub damage: Option<String>,
}

impl Log {
    pub fn end(&self) -> u64 {
        self.records.iter().map(|r| r.seq).max().unwrap_or(self.start)
    }
    pub fn last_of(&self, head: HeadKind) -> Option<Found> {
        self.records.iter().filter(|r| r.head == head).max_by_key(|r| r.seq).copied()
    }
}

pub(super) struct Reading<'a> {
    store: &'a mut dyn Store,
    geometry: Geometry,
    instance: u32,
    epoch: u32,
    planted: Plant<Planted>,
    data: Vec<u8>,
    stamps: Vec<u64>,
}

impl<'a> Reading<'a> {
    pub fn new(
        store: &'a mut dyn Store,
        sup: &Super,
        epoch: u32,
        planted: Plant<Planted>,
    ) -> Reading<'a> {
        let (geometry, instance) = (sup.geometry, sup.instance());
        Reading { store, geometry, instance, epoch, planted, data: Vec::new(), stamps: Vec::new() }
    }

    /// The header in a block if it belongs there: place, head, epoch, and a number above `above`.
    fn accept(&self, kind: HeadKind, at: Pba, block: &[u8; BLOCK], above: u64) -> Option<Header> {
        let header = match self.planted.has(Planted::HeaderCrcIgnored) {
            true => Header::read_unchecked(block)?,
            false => Header::read(block)?,
        };
        let seg = self.geometry.seg(at)?;
        let offset = at.0 - self.geometry.base(seg).0;
        let epoch = header.epoch == self.epoch || self.planted.has(Planted::OldEpochAccepted);
        let fits = header.kind == kind.record()
            && header.instance == self.instance
            && epoch
            && header.segment == seg
            && u32::from(header.offset) == offset
            && header.seq > above
            && offset + 1 + u32::from(header.data) <= self.geometry.segment
            && header.next.0 < self.geometry.segments;
        fits.then_some(header)
    }

    /// Follows one head from where the root left it. Where it ends, later headers of the same head are
    /// looked for and followed too, only for what they say is flushed: that is how a header that is
    /// damaged is told from one that was never written.
    pub fn follow(&mut self, kind: HeadKind, start: HeadAt, seq: u64) -> Result<Chain, LogError> {
        let mut chain =
            Chain { head: kind, start, found: Vec::new(), segments: vec![start.seg], durable: 0 };
        let (mut head, mut last) = self.run(kind, start, seq, &mut chain);
        let mut beyond = Chain {
            head: kind,
            start,
            found: Vec::new(),
            segments: Vec::new(),
            durable: chain.durable,
        };
        while !self.planted.has(Planted::NoLookAhead)
            && let Some(later) = self.look_ahead(kind, head, last)
        {
            (head, last) = self.run(kind, later, last, &mut beyond);
        }
        chain.durable = beyond.durable;
        Ok(chain)
    }

    /// Adds the headers from `start` on that follow each other to a chain. Returns where the next would
    /// be, and the number of the last.
    fn run(
        &mut self,
        kind: HeadKind,
        start: HeadAt,
        above: u64,
        chain: &mut Chain,
    ) -> (HeadAt, u64) {
        let (mut head, mut last) = (start, above);
        loop {
            if self.geometry.segment - head.offset < 2 {
                head = HeadAt { seg: head.next, offset: 0, next: head.next };
                chain.segments.push(head.seg);
            }
            let at = Pba(self.geometry.base(head.seg).0 + head.offset);
            // A header that cannot be read is one that cannot be believed.
            let block = read_block(self.store, at).ok();
            let Some(header) = block.and_then(|block| self.accept(kind, at, &block, last)) else {
                return (head, last);
            };
            chain.durable = chain.durable.max(header.durable);
            chain.found.push(Found {
                seq: header.seq,
                at,
                kind: header.kind,
                head: kind,
                data: header.data,
                more: header.more,
                next: header.next,
            });
            last = header.seq;
            head.offset += 1 + u32::from(header.data);
            head.next = header.next;
        }
    }

    /// The first later header of this head behind where none is: in the rest of the segment or in the
    /// next one, as far as it is known which that is.
    fn look_ahead(&mut self, kind: HeadKind, head: HeadAt, last: u64) -> Option<HeadAt> {
        let mut parts = vec![(head.seg, head.offset + 1)];
        if head.next != head.seg {
            parts.push((head.next, 0));
        }
        let mut block = Box::new([0; BLOCK]);
        for (seg, from) in parts {
            let base = self.geometry.base(seg).0;
            let count = self.geometry.segment.saturating_sub(from) as usize;
            self.data.resize(count * BLOCK, 0);
            let whole = self.store.read(Pba(base + from), &mut self.data).is_ok();
            for i in 0..count {
                let offset = from + i as u32;
                let at = Pba(base + offset);
                if whole {
                    block.copy_from_slice(&self.data[i * BLOCK..(i + 1) * BLOCK]);
                } else if self.store.read(at, &mut block[..]).is_err() {
                    continue;
                }
                if self.accept(kind, at, &block, last).is_some() {
                    return Some(HeadAt { seg, offset, next: head.next });
                }
            }
        }
        // Only the header that is not there, the first of its segment, could say which segment follows.
        if head.next == head.seg { self.look_everywhere(kind, last) } else { None }
    }

    /// The first later header of a head among those that begin a segment.
    fn look_everywhere(&mut self, kind: HeadKind, last: u64) -> Option<HeadAt> {
        let mut found: Option<(u64, HeadAt)> = None;
        for seg in (0..self.geometry.segments).map(Seg) {
            let at = self.geometry.base(seg);
            let Ok(block) = read_block(self.store, at) else { continue };
            let Some(header) = self.accept(kind, at, &block, last) else { continue };
            if found.is_none_or(|(seq, _)| header.seq < seq) {
                found = Some((header.seq, HeadAt { seg, offset: 0, next: header.next }));
            }
        }
        found.map(|(_, at)| at)
    }

    /// Whether the data of a record is what its header says. Counts what it looks at.
    fn sound(&mut self, record: &Found, checked: &mut u64) -> Result<bool, LogError> {
        let Ok(block) = read_block(self.store, record.at) else { return Ok(false) };
        let Some(header) = Header::read_unchecked(&block) else { return Ok(false) };
        let (first, n) = (Pba(record.at.0 + 1), usize::from(header.data));
        if n == 0 || header.form == Form::Nothing {
            return Ok(true);
        }
        *checked += n as u64;
        let mut crcs = header.entries(record.at, &block).filter_map(|(entry, _)| match entry {
            crate::record::Entry::Write { crc, .. } | crate::record::Entry::Move { crc, .. } => {
                Some(crc)
            }
            _ => None,
        });
        if header.form == Form::Stamps {
            self.stamps.resize(n, 0);
            if self.store.read_stamps(first, &mut self.stamps).is_err() {
                return Ok(false);
            }
            return Ok(self.stamps.iter().all(|stamp| crcs.next() == Some(stamp_crc(*stamp))));
        }
        self.data.resize(n * BLOCK, 0);
        if self.store.read(first, &mut self.data).is_err() {
            return Ok(false);
        }
        Ok(self.data.chunks_exact(BLOCK).all(|data| crcs.next() == Some(crc32c(0, data))))
    }

    /// Puts all chains together: records in the order of their numbers, up to the first gap, or
    /// the first whose data is damaged; of the client's not further than the last that says of none that it
    /// goes on. Copies stay: what they were made of may be gone, and they say nothing new.
    pub fn merge(&mut self, chains: &[Chain], start: u64) -> Result<Log, LogError> {
        let durable = chains.iter().map(|chain| chain.durable).max().unwrap_or(0).max(start);
        let mut all: Vec<Found> = chains.iter().flat_map(|chain| &chain.found).copied().collect();
        all.sort_unstable_by_key(|r| r.seq);
        let mut log = Log { start, records: Vec::new(), durable, checked: 0, damage: None };
        let (mut group, mut expected) = (None, start + 1);
        for record in all {
            if record.seq != expected {
                break;
            }
            if record.seq > durable && !self.sound(&record, &mut log.checked)? {
                break;
            }
            if record.kind == Kind::User {
                // The first record of the requests that are not known to be whole.
                group = record.more.then(|| group.unwrap_or(record.seq));
            }
            log.records.push(record);
            expected += 1;
        }
        if expected <= durable {
            let what = format!("record {expected} is missing; {durable} was flushed");
            log.damage = Some(what);
        }
        if let Some(first) = group {
            log.records.retain(|record| record.seq < first || record.kind != Kind::User);
        }
        if self.planted.has(Planted::ReplayByPosition) {
            log.records.sort_unstable_by_key(|record| record.at);
        }
        Ok(log)
    }
}
