//! The write-back buffer in front of the log (`ack = buffer`), and the batches that it makes.
//!
//! A block that is written again while it is buffered is logged once. The least recently written leaves when
//! there is no place. What was written between two flushes is a *batch*: what left early, and the rest when
//! the flush empties the buffer. Each record of a batch says that it goes on in the next, and the last does
//! not: that is its *mark*. Recovery takes a batch with its mark, or nothing of it.
//!
//! Invariants:
//! * the mark comes when the buffer is empty: what a batch holds is what the client had at one moment;
//! * until the mark the places that the batch supersedes count as live: they are not used again, and cleaning
//!   moves them, for they are what recovery finds without the mark;
//! * a checkpoint begins between two batches;
//! * what is buffered always finds room in the log, whatever cleaning takes.

use std::collections::BTreeMap;

use block::Lpn;

use super::{Engine, HeadKind, Sink};
use crate::geometry::Pba;
use crate::options::Ack;
use crate::planted::Planted;
use crate::record::Form;

const NONE: u32 = u32::MAX;

/// What a write into the buffer has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffering {
    /// Nothing: its blocks can be put there.
    Fits,
    /// There is no buffer, or it is too small for it: it goes into the log.
    Through,
    /// This block, in this slot, leaves for the log first ([`Engine::evict`]).
    Evict(Lpn, u32),
    /// Room in the log for so many more blocks.
    Room(u32),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    form: Form,
    crc: u32,
    /// Number of the write that is here.
    version: u64,
    prev: u32,
    next: u32,
}

/// Blocks that were answered and are not in the log, from the least recently written on.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    slots: Vec<Slot>,
    at: BTreeMap<u32, u32>,
    oldest: u32,
    newest: u32,
    free: Vec<u32>,
    versions: u64,
    /// When something was last put here.
    last: u64,
}

impl Buffer {
    pub fn new(blocks: u32) -> Buffer {
        let blank =
            Slot { lpn: 0, form: Form::Nothing, crc: 0, version: 0, prev: NONE, next: NONE };
        Buffer {
            slots: vec![blank; blocks as usize],
            free: (0..blocks).rev().collect(),
            oldest: NONE,
            newest: NONE,
            ..Buffer::default()
        }
    }

    pub fn len(&self) -> u32 {
        self.at.len() as u32
    }

    fn get(&self, lpn: Lpn) -> Option<(u32, &Slot)> {
        let slot = *self.at.get(&lpn.0)?;
        Some((slot, &self.slots[slot as usize]))
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { prev, next, .. } = self.slots[slot as usize];
        match prev {
            NONE => self.oldest = next,
            p => self.slots[p as usize].next = next,
        }
        match next {
            NONE => self.newest = prev,
            n => self.slots[n as usize].prev = prev,
        }
    }

    /// Takes a block's slot, its own or a free one, and makes it the newest. Whether it was here.
    fn put(&mut self, lpn: Lpn, form: Form, crc: u32) -> Option<(u32, bool)> {
        let (slot, here) = match self.at.get(&lpn.0).copied() {
            Some(slot) => {
                self.unlink(slot);
                (slot, true)
            }
            None => (self.free.pop()?, false),
        };
        self.versions += 1;
        let (version, prev) = (self.versions, self.newest);
        self.slots[slot as usize] = Slot { lpn: lpn.0, form, crc, version, prev, next: NONE };
        match prev {
            NONE => self.oldest = slot,
            p => self.slots[p as usize].next = slot,
        }
        self.newest = slot;
        self.at.insert(lpn.0, slot);
        Some((slot, here))
    }

    fn take(&mut self, lpn: Lpn) -> Option<Slot> {
        let slot = self.at.remove(&lpn.0)?;
        self.unlink(slot);
        self.free.push(slot);
        Some(self.slots[slot as usize])
    }

    /// Drops what is here of a range: how many.
    fn forget(&mut self, lpn: Lpn, count: u32) -> u32 {
        let range = lpn.0..lpn.0.saturating_add(count);
        let mut dropped = 0;
        while let Some(lpn) = self.at.range(range.clone()).next().map(|(lpn, _)| Lpn(*lpn)) {
            self.take(lpn);
            dropped += 1;
        }
        dropped
    }
}

/// The batch that is open.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// A record of the client has been written since the last mark.
    pub open: bool,
    /// Places that it supersedes, with their blocks.
    pub superseded: BTreeMap<u32, u32>,
    /// So many are superseded at most, about.
    pub most: usize,
}

impl Engine {
    /// Blocks of the buffer that a log of this shape can have: what is asked for, but not more than a part of
    /// its spare space, as everything in it has to find room.
    pub(super) fn buffer_blocks(&self) -> u32 {
        if self.options.ack == Ack::Device {
            return 0;
        }
        let wanted = (self.options.buffer.0 / crate::geometry::BLOCK as u64) as u32;
        let most = (self.extra_blocks() / 8).max(self.geometry.segment / 4);
        wanted.min(most).max(1)
    }

    /// Makes buffer and batch, when the heads are known.
    pub(super) fn place_buffer(&mut self) {
        let most = (self.extra_blocks() / 4).min(self.options.self_flush);
        self.buffer = Buffer::new(self.buffer_blocks());
        self.batch =
            Batch { most: most.max(self.geometry.segment / 2) as usize, ..Batch::default() };
    }

    /// Whether records of the client count in batches.
    pub(super) fn batches(&self) -> bool {
        self.options.ack == Ack::Buffer
    }

    /// Blocks of the buffer; 0 if there is none.
    pub fn buffer_size(&self) -> u32 {
        self.buffer.slots.len() as u32
    }

    /// Where a block is buffered, and the number of the write that put it there.
    pub fn buffered(&self, lpn: Lpn) -> Option<(u32, u64)> {
        self.buffer.get(lpn).map(|(slot, held)| (slot, held.version))
    }

    pub(super) fn buffered_crc(&self, lpn: Lpn) -> Option<u32> {
        self.buffer.get(lpn).map(|(_, held)| held.crc)
    }

    /// Blocks that requests wrote so far, wherever they are now.
    pub fn taken(&self) -> u64 {
        self.counters.user + self.counters.absorbed + u64::from(self.buffer.len())
    }

    /// What a write of these blocks has to wait for.
    pub fn buffering(&self, lpn: Lpn, count: u32) -> Buffering {
        if 2 * count > self.buffer_size() {
            return Buffering::Through;
        }
        let here = self.buffer.at.range(lpn.0..lpn.0 + count).count() as u32;
        if self.buffer.free.len() as u32 >= count - here {
            return match self.room(count - here) {
                true => Buffering::Fits,
                false => Buffering::Room(count - here),
            };
        }
        if !self.room(0) {
            return Buffering::Room(0);
        }
        let mut slot = self.buffer.oldest;
        // Not one of those that are about to be written.
        while (lpn.0..lpn.0 + count).contains(&self.buffer.slots[slot as usize].lpn) {
            slot = self.buffer.slots[slot as usize].next;
        }
        Buffering::Evict(Lpn(self.buffer.slots[slot as usize].lpn), slot)
    }

    /// Puts a block of a write that fits there: where its data belongs.
    pub fn buffer_put(&mut self, lpn: Lpn, form: Form, crc: u32) -> u32 {
        self.house.tries = 0;
        self.buffer.last = self.now;
        let (slot, here) =
            self.buffer.put(lpn, form, crc).expect("the write was asked for and fits");
        self.counters.absorbed += u64::from(here);
        slot
    }

    /// A buffered block goes into the log. To the sink its data is the first block of a request.
    pub fn evict(&mut self, lpn: Lpn, sink: &mut impl Sink) {
        if let Some(held) = self.buffer.take(lpn) {
            self.lay_down(lpn, 1, held.form, |_| held.crc, sink);
        }
    }

    /// Drops what is buffered of a range that is being written or trimmed.
    #[inline]
    pub(super) fn buffer_forget(&mut self, lpn: Lpn, count: u32) {
        if self.buffer.len() > 0 {
            self.counters.absorbed += u64::from(self.buffer.forget(lpn, count));
        }
    }

    /// The next block that has to be evicted before the batch can end, in the client's order.
    pub fn batch_next(&mut self, sink: &mut impl Sink) -> Option<(Lpn, u32)> {
        if self.has(Planted::MarkTooEarly) && self.batch.open {
            self.mark(sink);
        }
        self.buffer.at.first_key_value().map(|(lpn, slot)| (Lpn(*lpn), *slot))
    }

    /// Ends the batch; the buffer is empty.
    pub fn batch_end(&mut self, sink: &mut impl Sink) {
        assert!(self.buffer.len() == 0, "a batch ends while something is buffered");
        if self.batch.open {
            self.mark(sink);
            self.counters.batches += 1;
        }
    }

    fn mark(&mut self, sink: &mut impl Sink) {
        if !self.heads.iter().any(|head| head.kind.is_user() && head.open.is_some()) {
            self.prepare(HeadKind::User(0), None, false, sink);
        }
        self.batch.open = false;
        self.seal_set(false, sink);
        for (place, _) in std::mem::take(&mut self.batch.superseded) {
            self.drop_place(place);
        }
    }

    /// What was at `old` is superseded: at once, or when the batch has its mark.
    #[inline]
    pub(super) fn supersede(&mut self, lpn: u32, old: u32) {
        if !self.batch.open || self.has(Planted::FreedBeforeMark) {
            return self.drop_place(old);
        }
        if self.geometry.seg(Pba(old)).is_some() {
            self.batch.superseded.insert(old, lpn);
        }
    }

    /// Whether a block is what recovery finds there if the batch does not end.
    pub(super) fn is_superseded(&self, lpn: Lpn, pba: Pba) -> bool {
        self.batch.superseded.get(&pba.0) == Some(&lpn.0)
    }

    /// A superseded block has moved.
    pub(super) fn move_superseded(&mut self, lpn: Lpn, from: Pba, to: Pba) {
        self.batch.superseded.remove(&from.0);
        self.batch.superseded.insert(to.0, lpn.0);
        if let Some(seg) = self.geometry.seg(to) {
            self.segments.gain(seg);
        }
        self.drop_place(from.0);
    }

    /// A superseded block is damaged.
    pub(super) fn drop_superseded(&mut self, from: Pba) {
        if self.batch.superseded.remove(&from.0).is_some() {
            self.drop_place(from.0);
        }
    }

    /// Places that only the mark gives up, with their blocks.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = (u32, Pba)> {
        self.batch.superseded.iter().map(|(place, lpn)| (*lpn, Pba(*place)))
    }

    /// Whether the batch holds so much space that it should end.
    pub(super) fn wants_batch(&self) -> bool {
        self.batch.superseded.len() >= self.batch.most
    }

    /// Whether something is buffered, or a batch open, and nobody has written for as long as a record may
    /// stay open.
    pub(super) fn batch_is_old(&self) -> bool {
        (self.buffer.len() > 0 || self.batch.open) && self.is_due(self.buffer.last)
    }

    /// Whether the end of the batch may give room: what it supersedes, or what is buffered does.
    pub(super) fn batch_holds_room(&self) -> bool {
        self.batch.open || self.buffer.len() > 0
    }

    /// Segments that what is buffered needs.
    pub(super) fn buffer_needs(&self) -> u32 {
        match self.buffer.len() {
            0 => 0,
            blocks => self.entered(blocks),
        }
    }
}
