//! Checkpoints: dirty map pages go to the meta head, directory and segment table to the older root.
//!
//! The driver's order: [`Engine::checkpoint_begin`] when both records are sealed; every write of
//! [`Engine::checkpoint_pages`]; the body of [`Engine::checkpoint_root`]; a flush; both copies of
//! the header; a flush; [`Engine::checkpoint_commit`]. Writes go on meanwhile.

use super::{Engine, HeadKind};
use crate::geometry::{BLOCK, Pba, Seg};
use crate::record::{Entry, Form, GC_ENTRIES, Header};
use crate::root::{HeadAt, Root};

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Begun {
    seq: u64,
    written: u64,
    heads: [HeadAt; 2],
    table: Vec<u8>,
    clean: bool,
}

/// One contiguous write of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointWrite {
    /// Where.
    pub pba: Pba,
    /// How many blocks.
    pub blocks: u32,
}

impl Engine {
    /// Begins a checkpoint of everything admitted so far. `clean`: nothing will be written after it.
    pub fn checkpoint_begin(&mut self, clean: bool) {
        let open = self.heads.iter().any(|head| head.open.is_some());
        assert!(!open && self.pending.is_none(), "a checkpoint begins while a record is open");
        self.map.freeze();
        let unit = u64::from(self.geometry.segment);
        let mut table = Vec::with_capacity(self.geometry.segments as usize * 8);
        for s in self.segments.all() {
            let age = (s.age / unit).min(u64::from(u32::MAX)) as u32;
            table.extend_from_slice(&(s.live as u16).to_le_bytes());
            table.extend_from_slice(&[u8::from(s.meta), s.state as u8]);
            table.extend_from_slice(&age.to_le_bytes());
        }
        let heads = [self.head_at(HeadKind::User), self.head_at(HeadKind::Gc)];
        let (seq, written) = (self.seq, self.written);
        self.pending = Some(Begun { seq, written, heads, table, clean });
    }

    /// Map pages that the checkpoint under way has not written yet.
    pub fn checkpoint_pages_left(&mut self) -> u32 {
        self.map.left_to_write()
    }

    /// The next write of map pages: `out` is filled with it. `None` when all are written.
    pub fn checkpoint_pages(&mut self, out: &mut Vec<u8>) -> Option<CheckpointWrite> {
        let left = self.map.left_to_write();
        if left == 0 {
            return None;
        }
        out.clear();
        out.resize(BLOCK, 0);
        let head = &self.heads[2];
        let (seg, next, at) = (head.seg, head.next, head.offset);
        let count = left.min(GC_ENTRIES).min(self.geometry.segment - at - 1);
        let pba = self.geometry.base(seg).0 + at;
        for i in 0..count {
            let from = pba + 1 + i;
            let Some((page, crc)) = self.map.write_next(Pba(from), out) else { break };
            let entry = Entry::Move {
                lpn: block::Lpn(page),
                crc,
                from: self.map.directory()[page as usize].pba,
            };
            entry.put(i, &mut self.heads[2].block);
            self.segments.gain(seg);
        }
        let header = Header {
            kind: HeadKind::Meta.record(),
            more: false,
            form: Form::Bytes,
            instance: self.instance,
            epoch: self.epoch,
            seq: self.generation + 1,
            durable: self.durable,
            segment: seg,
            offset: at as u16,
            entries: count as u16,
            data: count as u16,
            next,
            time: self.now,
        };
        header.seal(&mut self.heads[2].block);
        out[..BLOCK].copy_from_slice(&self.heads[2].block[..]);
        self.heads[2].offset += 1 + count;
        self.counters.header += 1;
        self.counters.meta += u64::from(count);
        self.written += u64::from(1 + count);
        self.advance_if_full(HeadKind::Meta);
        Some(CheckpointWrite { pba: Pba(pba), blocks: 1 + count })
    }

    /// The root: the place of its first block, its header, and in `body` what lies between the
    /// header's two copies.
    pub fn checkpoint_root(&mut self, body: &mut Vec<u8>) -> (Pba, Root) {
        body.clear();
        self.map.encode_directory(body);
        let meta = self.head_at(HeadKind::Meta);
        let generation = self.generation + 1;
        let (mut seq, mut clean, mut heads) = (self.seq, false, [HeadAt::default(); 2]);
        if let Some(begun) = &self.pending {
            body.extend_from_slice(&begun.table);
            (seq, clean, heads) = (begun.seq, begun.clean, begun.heads);
        }
        body.resize(self.geometry.root_body() as usize * BLOCK, 0);
        self.counters.root += u64::from(self.geometry.root);
        let root = Root {
            uuid: self.uuid,
            generation,
            epoch: self.epoch,
            seq,
            body_crc: block::crc32c(0, body),
            heads: [heads[0], heads[1], meta],
            clean,
        };
        (self.geometry.root_at((generation % 2) as u32), root)
    }

    /// The root is durable: the older one and what only it needed is free.
    pub fn checkpoint_commit(&mut self, freed: &mut Vec<Seg>) {
        let Some(begun) = self.pending.take() else { return };
        let (segments, geometry) = (&mut self.segments, self.geometry);
        self.map.commit(|old| {
            if let Some(seg) = geometry.seg(old) {
                segments.lose(seg, 0);
            }
        });
        if self.moving > 0 {
            self.end_moves();
        }
        self.generation += 1;
        self.counters.checkpoints += 1;
        self.checkpoint_seq = begun.seq;
        self.checkpoint_written = begun.written;
        self.set_durable(begun.seq, freed);
    }

    /// Segments of map pages that were being cleaned are empty now. One whose pages were marked
    /// after the checkpoint began waits for the next.
    fn end_moves(&mut self) {
        let meta = |seg: &u32| {
            let s = self.segments.get(Seg(*seg));
            s.state == crate::segment::State::Cleaning && s.meta && s.live == 0
        };
        let empty: Vec<u32> = (0..self.geometry.segments).filter(meta).collect();
        for seg in empty {
            self.segments.end_cleaning(Seg(seg), 0);
            self.counters.cleaned += 1;
            self.moving -= 1;
        }
    }
}
