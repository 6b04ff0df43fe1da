//! Admission: a write or trim gets its place and its order, and takes effect.

use block::Lpn;

use super::head::Head;
use super::placement::SHORT;
use super::{Engine, Floating, HeadKind, POISONED, Sink, UNMAPPED};
use crate::geometry::Pba;
use crate::planted::Planted;
use crate::record::{Entry, Form};
use crate::segment::Segment;

/// Heads of the plainest log, for which the geometry has its reserve.
const PLAIN_HEADS: u32 = 3;

impl Engine {
    /// Whether a request of the client that writes `blocks` blocks may be admitted now; if not, space
    /// has to be made first. A trim counts as one block.
    #[inline]
    pub fn room(&self, blocks: u32) -> bool {
        // What is buffered is on its way there.
        let blocks = self.buffer.len() + blocks;
        self.segments.free() >= self.gc_reserve() + self.entered(blocks)
    }

    /// Segments that a write of so many blocks enters at most, wherever they go.
    #[inline(always)]
    pub(super) fn entered(&self, blocks: u32) -> u32 {
        if blocks == 0 {
            return u32::from(self.heads.users());
        }
        let segment = self.geometry.segment;
        let left = |head: &Head| segment - head.offset - u32::from(head.open.is_none());
        let left = match self.heads.users() {
            // Asked before each write: nothing is searched in the plainest log.
            1 => left(&self.heads[HeadKind::User(0)]),
            _ => {
                let users = self.heads.iter().filter(|head| head.kind.is_user());
                users.map(left).min().unwrap_or(0)
            }
        };
        // No division for the many that fit.
        if blocks <= left {
            return u32::from(self.heads.users());
        }
        (blocks - left).div_ceil(self.limits.each) + u32::from(self.heads.users())
    }

    /// Free segments below which writes of the client wait.
    pub(super) fn gc_reserve(&self) -> u32 {
        self.limits.reserve + self.heads.count() - PLAIN_HEADS
    }

    /// Admits a write of `count` blocks from `lpn` on. `crc(i)` is the CRC of the `i`-th. The caller
    /// has asked [`Engine::room`], and the map pages are in memory.
    pub fn write(
        &mut self,
        lpn: Lpn,
        count: u32,
        form: Form,
        crc: impl FnMut(u32) -> u32,
        sink: &mut impl Sink,
    ) {
        self.buffer_forget(lpn, count);
        self.lay_down(lpn, count, form, crc, sink);
    }

    /// Gives blocks their places.
    pub(super) fn lay_down(
        &mut self,
        lpn: Lpn,
        count: u32,
        form: Form,
        mut crc: impl FnMut(u32) -> u32,
        sink: &mut impl Sink,
    ) {
        self.house.tries = 0;
        self.batch.open = self.batches();
        let mut done = 0;
        while done < count {
            let (kind, same) = self.place_run(Lpn(lpn.0 + done), count - done, done > 0, sink);
            self.prepare(kind, Some(form), done > 0, sink);
            let head = &mut self.heads[kind];
            let most = head.most_entries();
            let Some(open) = &mut head.open else { break };
            let (first, at) = (open.entries, head.offset);
            let n = same.min(most - first).min(self.geometry.segment - at);
            open.entries += n;
            open.data += n;
            head.offset += n;
            let (seq, seg, from) = (open.seq, head.seg, self.geometry.base(head.seg).0 + at);
            for i in 0..n {
                let (lpn, crc) = (Lpn(lpn.0 + done + i), crc(done + i));
                Entry::Write { lpn, crc }.put(first + i, &mut self.heads[kind].block);
                self.book_write(lpn, Pba(from + i), crc);
                self.placement.wrote(lpn);
            }
            self.segments.get_mut(seg).last = seq;
            self.note(seq, from, n);
            self.counters.user += u64::from(n);
            sink.data(kind, Pba(from), done, n);
            done += n;
        }
        for head in 0..self.heads.users() {
            self.seal_if_full(HeadKind::User(head), sink);
        }
    }

    /// The head of the next of `most` blocks, and how many of them go there together. What is open in
    /// another head under a higher number would be replayed after this write: those records end first.
    fn place_run(
        &mut self,
        lpn: Lpn,
        most: u32,
        more: bool,
        sink: &mut impl Sink,
    ) -> (HeadKind, u32) {
        if self.heads.users() == 1 {
            return (HeadKind::User(0), most);
        }
        let class = self.placement.of_write(lpn, 0);
        let kind = HeadKind::User(class);
        if self.replayed_later(kind, lpn) && !self.has(Planted::OpenRecordsCross) {
            self.seal_users(more, sink);
        }
        let mut same = 1;
        while same < most
            && self.placement.of_write(Lpn(lpn.0 + same), same) == class
            && !self.replayed_later(kind, Lpn(lpn.0 + same))
        {
            same += 1;
        }
        (kind, same)
    }

    /// Whether a block lies in a record that is open, and that replay meets after that of this head.
    fn replayed_later(&self, kind: HeadKind, lpn: Lpn) -> bool {
        let Some(mine) = self.heads[kind].open else { return false };
        let (old, g) = (self.map.get(lpn.0), &self.geometry);
        let Some(seg) = g.seg(Pba(old)).filter(|_| old != UNMAPPED && old != POISONED) else {
            return false;
        };
        let offset = old - g.base(seg).0;
        let mut users = self.heads.iter().filter(|head| head.kind.is_user() && head.seg == seg);
        users.any(|head| head.open.is_some_and(|open| offset > open.at && open.seq > mine.seq))
    }

    /// Remembers blocks that are not durable yet, and that the log grew.
    pub(super) fn note(&mut self, seq: u64, from: u32, count: u32) {
        self.written += u64::from(count);
        self.unflushed += u64::from(count);
        let to = from + count;
        // Of two heads in turn, each goes on in its own.
        match self.floating.iter_mut().rev().take(2).find(|f| f.to == from && f.seq == seq) {
            Some(last) => last.to = to,
            None => self.floating.push(Floating { seq, from, to }),
        }
    }

    /// Whether any of these blocks is mapped: a trim of the others writes nothing.
    pub fn any_mapped(&self, lpn: Lpn, count: u32) -> bool {
        (lpn.0..lpn.0 + count).any(|word| self.map.get(word) != UNMAPPED)
    }

    /// Admits a trim. Returns whether there was anything to trim.
    pub fn trim(&mut self, lpn: Lpn, count: u32, sink: &mut impl Sink) -> bool {
        self.buffer_forget(lpn, count);
        if !self.any_mapped(lpn, count) {
            return false;
        }
        self.house.tries = 0;
        self.batch.open = self.batches();
        // A record of another head that is open may hold writes from before; and later ones would be
        // replayed first, were its number lower.
        if (1..self.heads.users()).any(|head| self.heads[HeadKind::User(head)].open.is_some())
            && !self.has(Planted::OpenRecordsCross)
        {
            self.seal_users(false, sink);
        }
        self.prepare(HeadKind::User(0), None, false, sink);
        let head = &mut self.heads[HeadKind::User(0)];
        if let Some(open) = &mut head.open {
            Entry::Trim { lpn, count }.put(open.entries, &mut head.block);
            open.entries += 1;
        }
        self.book_trim(lpn, count);
        self.placement.trimmed(lpn, count);
        self.counters.trims += 1;
        self.seal_if_full(HeadKind::User(0), sink);
        true
    }

    /// A block of the client has a new place. The one function for this, at run time and in replay.
    #[inline]
    pub(super) fn book_write(&mut self, lpn: Lpn, pba: Pba, crc: u32) {
        let old = self.map.get(lpn.0);
        self.map.set(lpn.0, pba.0);
        if self.geometry.crc_plane {
            let word = self.crc_word(lpn.0);
            self.map.set(word, crc);
        }
        if let Some(seg) = self.geometry.seg(pba) {
            self.segments.gain(seg);
        }
        self.supersede(lpn.0, old);
    }

    pub(super) fn book_trim(&mut self, lpn: Lpn, count: u32) {
        for word in lpn.0..lpn.0 + count {
            let old = self.map.get(word);
            if old == UNMAPPED {
                continue;
            }
            self.map.set(word, UNMAPPED);
            if self.geometry.crc_plane {
                let crc = self.crc_word(word);
                self.map.set(crc, 0);
            }
            self.supersede(word, old);
        }
    }

    /// What was at `old` is no longer referred to.
    #[inline]
    pub(super) fn drop_place(&mut self, old: u32) {
        if old == UNMAPPED || old == POISONED {
            return;
        }
        let Some(seg) = self.geometry.seg(Pba(old)) else { return };
        if self.segments.lose(seg, self.seq) {
            let Segment { head, born, .. } = *self.segments.get(seg);
            self.segment_ended(head, born);
        }
    }

    /// A segment holds nothing any more.
    pub(super) fn segment_ended(&mut self, head: u8, born: u64) {
        if head == SHORT && self.heads.users() > 1 {
            self.placement.lived(born);
        }
    }
}
