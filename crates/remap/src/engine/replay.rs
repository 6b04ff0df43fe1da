//! What recovery asks of the engine: the state of a root, then records in their order.

use super::{Engine, HeadKind};
use crate::error::LogError;
use crate::geometry::{BLOCK, Pba, Seg};
use crate::map::{Map, PageAt};
use crate::planted::Planted;
use crate::record::{Entry, Header};
use crate::root::{HeadAt, Root};

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

    /// The log ends here: heads go on at these places in a new epoch; segments of the chains that
    /// hold nothing are free, the others are full.
    pub(crate) fn end_replay(&mut self, heads: [HeadAt; 3], chain: &[Seg], last: u64) {
        (self.seq, self.durable) = (last, last);
        let current = heads.map(|head| head.seg);
        for seg in chain.iter().filter(|seg| !current.contains(seg)) {
            self.segments.close(*seg, self.written, last);
        }
        let mut freed = Vec::new();
        self.reclaim(&mut freed);
        for (kind, at) in [HeadKind::User, HeadKind::Gc, HeadKind::Meta].into_iter().zip(heads) {
            let next = self.take_segment(kind);
            let head = &mut self.heads[kind as usize];
            (head.seg, head.offset, head.next) = (at.seg, at.offset, next);
            self.segments.get_mut(at.seg).meta = kind == HeadKind::Meta;
            self.advance_if_full(kind);
        }
        self.epoch += 1;
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
            heads: [HeadAt::default(); 3],
            clean: false,
        }
    }

    /// So many blocks of the super block, or of roots, were written beside checkpoints.
    pub(crate) fn count_roots(&mut self, blocks: u32) {
        self.counters.root += u64::from(blocks);
    }
}
