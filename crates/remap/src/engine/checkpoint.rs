//! Checkpoints: dirty map pages go to the meta head, directory and segment table to the older root.
//!
//! [`Engine::checkpoint_begin`] when both records are sealed; then what [`Engine::next`] says: writes, a
//! flush, the header, a flush, its copy. Requests go on meanwhile, and the body is spread over what they
//! write. The older root stays what recovery finds until the flush behind the header has ended.

use std::collections::VecDeque;

use super::house::Work;
use super::{Engine, HeadKind};
use crate::geometry::{BLOCK, Pba, Seg};
use crate::planted::Planted;
use crate::record::{Entry, Form, GC_ENTRIES, Header};
use crate::root::{HeadsAt, Root};

/// A part of the log's volume between two checkpoints: within it one is written.
const PART: u64 = 4;

/// A step of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Records of map pages.
    Pages,
    /// What lies between the two headers of the root.
    Body,
    Flush,
    /// The root's first header, or its copy in the last block. One after the other: a cut may make
    /// anything of what is not flushed, but never of both.
    Header {
        copy: bool,
    },
}

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Begun {
    seq: u64,
    written: u64,
    heads: HeadsAt,
    table: Vec<u8>,
    clean: bool,
    /// What is left to do.
    steps: VecDeque<Step>,
    /// A flush is under way.
    flushing: bool,
    /// What is being written, where it belongs, and how many blocks of it were.
    bytes: Vec<u8>,
    at: Pba,
    done: u32,
    /// The root, when its place is known.
    root: Option<(Pba, Box<[u8; BLOCK]>)>,
    /// Blocks of pages and body, about.
    total: u64,
    /// User blocks written when blocks were last due, and what is owed beside whole blocks: in parts
    /// of the volume between two checkpoints.
    user: u64,
    rest: u64,
}

impl Begun {
    fn left(&self) -> u32 {
        (self.bytes.len() / BLOCK) as u32 - self.done
    }
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
        assert!(!self.batch.open, "a checkpoint begins while a batch is open");
        self.map.freeze();
        let unit = u64::from(self.geometry.segment);
        let mut table = Vec::with_capacity(self.geometry.segments as usize * 8);
        for s in self.segments.all() {
            let age = (s.age / unit).min(u64::from(u32::MAX)) as u32;
            table.extend_from_slice(&(s.live as u16).to_le_bytes());
            table.extend_from_slice(&[u8::from(s.meta), s.state as u8]);
            table.extend_from_slice(&age.to_le_bytes());
        }
        let first = [Step::Header { copy: false }];
        let copy = Step::Header { copy: true };
        let mut steps = VecDeque::from([Step::Pages]);
        match self.has(Planted::RootHeaderBeforeBody) {
            true => {
                steps.extend(first.into_iter().chain([copy, Step::Flush, Step::Body, Step::Flush]))
            }
            false => {
                steps.extend([Step::Body, Step::Flush, first[0], Step::Flush, copy]);
                // Else whatever flush comes next makes it durable, long before this root is written again.
                steps.extend(clean.then_some(Step::Flush));
            }
        }
        let pages = u64::from(self.map.left_to_write());
        self.pending = Some(Begun {
            seq: self.seq,
            written: self.written,
            heads: self.heads.at(),
            table,
            clean,
            steps,
            flushing: false,
            bytes: std::mem::take(&mut self.spare),
            at: Pba(0),
            done: 0,
            root: None,
            total: pages + pages.div_ceil(64) + u64::from(self.geometry.root),
            user: self.counters.user,
            rest: 0,
        });
        self.house.tries += 1;
    }

    /// Whether a checkpoint is under way.
    pub fn checkpoint_is_under_way(&self) -> bool {
        self.pending.is_some()
    }

    /// Blocks of the checkpoint under way that are counted and not yet written.
    pub fn checkpoint_owed(&self) -> u64 {
        let Some(begun) = &self.pending else { return 0 };
        let left = u64::from(begun.left());
        if begun.root.is_none() {
            return left;
        }
        let headers = begun.steps.iter().filter(|step| matches!(step, Step::Header { .. })).count();
        // A planted bug writes the headers first.
        let body = left == 0 && begun.steps.contains(&Step::Body);
        left + headers as u64 + if body { u64::from(self.geometry.root_body()) } else { 0 }
    }

    /// What follows in the checkpoint under way; with `hurry` it is not spread over what is written.
    pub fn checkpoint_next(&mut self, hurry: bool) -> Option<Work> {
        let (user, volume) = (self.counters.user, self.checkpoint_volume());
        let begun = self.pending.as_mut()?;
        if begun.flushing {
            return hurry.then_some(Work::Wait);
        }
        match begun.steps.front()? {
            Step::Flush => Some(Work::RootFlush),
            Step::Header { .. } => Some(Work::RootHeader),
            Step::Pages | Step::Body if hurry => Some(Work::Write(u32::MAX)),
            Step::Pages | Step::Body => {
                begun.rest += (user - begun.user) * begun.total * PART;
                begun.user = user;
                let due = u32::try_from(begun.rest / volume).unwrap_or(u32::MAX);
                (due > 0).then_some(Work::Write(due))
            }
        }
    }

    /// The next write of the checkpoint, of `most` blocks at most: `out` is filled with it. `None` when
    /// pages and body are written.
    pub fn checkpoint_write(&mut self, most: u32, out: &mut Vec<u8>) -> Option<CheckpointWrite> {
        if most == 0 {
            return None;
        }
        loop {
            let begun = self.pending.as_mut()?;
            let n = begun.left().min(most);
            if n > 0 {
                let (at, from) = (Pba(begun.at.0 + begun.done), begun.done as usize * BLOCK);
                out.clear();
                out.extend_from_slice(&begun.bytes[from..from + n as usize * BLOCK]);
                begun.done += n;
                let volume = self.checkpoint_volume();
                let begun = self.pending.as_mut()?;
                begun.rest = begun.rest.saturating_sub(u64::from(n) * volume);
                if begun.left() == 0 && begun.steps.front() == Some(&Step::Body) {
                    begun.steps.pop_front();
                }
                return Some(CheckpointWrite { pba: at, blocks: n });
            }
            let mut bytes = std::mem::take(&mut begun.bytes);
            let step = *begun.steps.front()?;
            let at = match step {
                Step::Pages => self.checkpoint_pages(&mut bytes).map(|write| write.pba),
                Step::Body => self.checkpoint_root(&mut bytes),
                Step::Flush | Step::Header { .. } => None,
            };
            let begun = self.pending.as_mut()?;
            (begun.bytes, begun.done) = (bytes, 0);
            match at {
                Some(at) => begun.at = at,
                None => {
                    begun.bytes.clear();
                    if step != Step::Pages {
                        return None;
                    }
                    begun.steps.pop_front();
                }
            }
        }
    }

    /// A flush for the checkpoint is under way: it covers what was written for it, and all records
    /// before it.
    pub fn root_flush_begin(&mut self) {
        if let Some(begun) = &mut self.pending {
            begun.flushing = true;
        }
    }

    /// That flush has ended. Segments that become free are added to `freed`.
    pub fn root_flush_end(&mut self, freed: &mut Vec<Seg>) {
        if let Some(begun) = &mut self.pending {
            begun.flushing = false;
            begun.steps.pop_front();
        }
        self.commit_if_done(freed);
    }

    /// The next header of the root: where it belongs, and the block.
    pub fn root_header(&mut self) -> Option<(Pba, Box<[u8; BLOCK]>)> {
        if self.pending.as_ref()?.root.is_none() {
            // Only a planted bug asks for it before the body.
            self.checkpoint_root(&mut Vec::new());
        }
        let last = self.geometry.root - 1;
        let begun = self.pending.as_ref()?;
        let Some(Step::Header { copy }) = begun.steps.front() else { return None };
        let (at, block) = begun.root.clone()?;
        Some((Pba(at.0 + if *copy { last } else { 0 }), block))
    }

    /// That header is written. Segments that become free are added to `freed`.
    pub fn root_header_written(&mut self, freed: &mut Vec<Seg>) {
        if let Some(begun) = &mut self.pending {
            begun.steps.pop_front();
        }
        self.commit_if_done(freed);
    }

    /// The next record of map pages: `out` is filled with it. `None` when there is none left.
    fn checkpoint_pages(&mut self, out: &mut Vec<u8>) -> Option<CheckpointWrite> {
        let left = self.map.left_to_write();
        if left == 0 {
            return None;
        }
        out.clear();
        out.resize(BLOCK, 0);
        let head = &self.heads[HeadKind::Meta];
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
            entry.put(i, &mut self.heads[HeadKind::Meta].block);
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
        header.seal(&mut self.heads[HeadKind::Meta].block);
        out[..BLOCK].copy_from_slice(&self.heads[HeadKind::Meta].block[..]);
        self.heads[HeadKind::Meta].offset += 1 + count;
        self.counters.header += 1;
        self.counters.meta += u64::from(count);
        self.written += u64::from(1 + count);
        self.advance_if_full(HeadKind::Meta);
        Some(CheckpointWrite { pba: Pba(pba), blocks: 1 + count })
    }

    /// The root: fills `body` with what lies between its two headers, and says where that belongs.
    fn checkpoint_root(&mut self, body: &mut Vec<u8>) -> Option<Pba> {
        body.clear();
        self.map.encode_directory(body);
        let meta = self.heads[HeadKind::Meta].at();
        let generation = self.generation + 1;
        let (uuid, epoch) = (self.uuid, self.epoch);
        let begun = self.pending.as_mut()?;
        body.extend_from_slice(&begun.table);
        body.resize(self.geometry.root_body() as usize * BLOCK, 0);
        let at = self.geometry.root_at((generation % 2) as u32);
        if begun.root.is_none() {
            let mut heads = begun.heads;
            heads.all_mut()[2] = meta;
            self.counters.root += u64::from(self.geometry.root);
            let root = Root {
                uuid,
                generation,
                epoch,
                seq: begun.seq,
                body_crc: block::crc32c(0, body),
                heads,
                clean: begun.clean,
            };
            begun.root = Some((at, Box::new(root.encode())));
        }
        Some(Pba(at.0 + 1))
    }

    /// When its last step is done, the older root and what only it needed is free.
    fn commit_if_done(&mut self, freed: &mut Vec<Seg>) {
        let Some(mut begun) = self.pending.take_if(|begun| begun.steps.is_empty()) else { return };
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
        begun.bytes.clear();
        self.spare = begun.bytes;
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
