//! What recovery asks of the engine: the state of a root, then records in their order.

use super::head::kinds;
use super::{Engine, HeadKind};
use crate::error::LogError;
use crate::geometry::{BLOCK, Pba, Seg};
use crate::map::{Map, PageAt};
use crate::options::Placed;
use crate::planted::Planted;
use crate::record::{Entry, Header};
use crate::root::{HeadAt, HeadsAt, Root};

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Engine {
    /// Takes the state of a root: its body is sound.
    ///
    /// # Errors
    /// The body does not fit the log.
    pub(crate) fn load_root(&mut self, root: &Root, body: &[u8]) -> Result<(), LogError> {
        let g = self.geometry;
        let pages = g.pages() as usize;
        let entry = |i: usize| PageAt { pba: Pba(word(body, i * 8)), crc: word(body, i * 8 + 4) };
        self.map = Map::new((0..pages).map(entry).collect());
        self.epoch = root.epoch;
        self.generation = root.generation;
        (self.seq, self.durable, self.checkpoint_seq) = (root.seq, root.seq, root.seq);
        for i in 0..g.segments {
            let at = pages * 8 + i as usize * 8;
            let meta = body[at + 2] != 0;
            let s = self.segments.get_mut(Seg(i));
            s.meta = meta;
            // Meta segments are counted from the directory: the root is newer than its table.
            s.live = if meta { 0 } else { u32::from(word(body, at) as u16) };
            s.age = u64::from(word(body, at + 4)) * u64::from(g.segment);
            s.last = root.seq;
            if s.live > g.segment {
                return Err(LogError::Corrupt(format!("segment {i}: {} live blocks", s.live)));
            }
            self.written = self.written.max(s.age);
        }
        for page in 0..pages {
            let pba = self.map.directory()[page].pba;
            if pba.0 == 0 {
                continue;
            }
            let Some(seg) = g.seg(pba) else {
                return Err(LogError::Corrupt(format!("map page {page} at {}", pba.0)));
            };
            let s = self.segments.get_mut(seg);
            s.meta = true;
            s.live += 1;
        }
        self.written += 1;
        self.checkpoint_written = self.written;
        Ok(())
    }

    /// Sorts the segments: those of `chain` are being written, the others are full or free. Only
    /// `meta` of the chain holds map pages; another may have held some when the root was written.
    pub(crate) fn sort_segments(&mut self, chain: &[Seg], meta: Seg) {
        for seg in chain {
            let s = self.segments.get_mut(*seg);
            s.state = crate::segment::State::Open;
            s.meta = *seg == meta;
        }
        for i in 0..self.geometry.segments {
            let (seg, s) = (Seg(i), *self.segments.get(Seg(i)));
            if s.state == crate::segment::State::Open {
                continue;
            }
            match s.live {
                0 => self.segments.release(seg),
                _ => self.segments.close(seg, s.age, self.seq),
            }
        }
    }

    /// Applies one record of the log.
    pub(crate) fn replay(&mut self, header: &Header, at: Pba, block: &[u8; BLOCK]) {
        self.seq = header.seq;
        if let Some(seg) = self.geometry.seg(at) {
            self.segments.get_mut(seg).last = header.seq;
        }
        let logical = self.geometry.logical;
        for (entry, place) in header.entries(at, block) {
            match entry {
                Entry::Write { lpn, crc } if lpn.0 < logical => self.book_write(lpn, place, crc),
                Entry::Trim { .. } if self.has(Planted::TrimLostInReplay) => {}
                Entry::Trim { lpn, count } if lpn.0 < logical => {
                    self.book_trim(lpn, count.min(logical - lpn.0));
                }
                Entry::Move { lpn, from, .. } if lpn.0 < logical => {
                    self.book_move(lpn, from, place);
                }
                Entry::Poison { lpn, from } if lpn.0 < logical => self.book_poison(lpn, from),
                _ => {}
            }
        }
        self.written += 1 + u64::from(header.data);
    }

    /// The log ends here: heads go on at these places in a new epoch, those that the log has not had
    /// before somewhere else; segments of the chains that hold nothing are free, the others are full.
    pub(crate) fn end_replay(&mut self, old: &HeadsAt, chain: &[Seg], last: u64) {
        (self.seq, self.durable) = (last, last);
        self.settle_heads(old, chain);
        let (users, gcs) = (self.heads.users(), self.heads.gcs());
        let was: Vec<(HeadKind, HeadAt)> = kinds(old.users, old.gcs)
            .zip(old.all())
            .filter(|(kind, _)| kind.is_among(users, gcs))
            .map(|(kind, at)| (kind, *at))
            .collect();
        for seg in chain.iter().filter(|seg| !was.iter().any(|(_, at)| at.seg == **seg)) {
            self.segments.close(*seg, self.written, last);
        }
        let mut freed = Vec::new();
        self.reclaim(&mut freed);
        for kind in kinds(users, gcs) {
            let at = was.iter().find(|(old, _)| *old == kind).map(|(_, at)| *at);
            let seg = at.map_or_else(|| self.take_segment(kind), |at| at.seg);
            let next = self.take_segment(kind);
            let head = &mut self.heads[kind];
            (head.seg, head.offset, head.next) = (seg, at.map_or(0, |at| at.offset), next);
            self.segments.get_mut(seg).meta = kind == HeadKind::Meta;
            self.advance_if_full(kind);
        }
        self.epoch += 1;
    }

    /// Heads that the log has not had before need segments: without them it places blocks as it can.
    fn settle_heads(&mut self, old: &HeadsAt, chain: &[Seg]) {
        let (users, gcs) = (self.heads.users(), self.heads.gcs());
        let new =
            kinds(users, gcs).filter(|kind| !kind.is_among(old.users, old.gcs)).count() as u32;
        let go_on = self.heads.count() - new;
        let empty = chain.iter().filter(|seg| self.segments.get(**seg).live == 0).count() as u32;
        let free = self.segments.free() + empty.saturating_sub(go_on);
        if new > 0 && free < go_on + 2 * new + self.gc_reserve() + 2 {
            self.place_as(Placed::Two);
        }
    }

    /// A new log: generation 0 is no root.
    pub(crate) fn begin_new(&mut self) {
        self.epoch = 1;
        for i in 0..self.geometry.segments {
            self.segments.release(Seg(i));
        }
        self.place_heads();
    }

    /// Opens for reading only.
    pub(crate) fn set_read_only(&mut self, why: String) {
        self.read_only = Some(why);
    }

    /// The header of a root that never was.
    pub(crate) fn no_root(&self) -> Root {
        Root {
            uuid: self.uuid,
            generation: 0,
            epoch: 0,
            seq: 0,
            body_crc: 0,
            heads: HeadsAt::new(1, 1),
            clean: false,
        }
    }

    /// So many blocks of the super block, or of roots, were written beside checkpoints.
    pub(crate) fn count_roots(&mut self, blocks: u32) {
        self.counters.root += u64::from(blocks);
    }
}
