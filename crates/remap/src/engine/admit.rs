//! Admission: a write or trim gets its place and its order, and takes effect.

use block::Lpn;

use super::{Engine, Floating, HeadKind, POISONED, Sink, UNMAPPED};
use crate::geometry::Pba;
use crate::record::{Entry, Form};

impl Engine {
    /// Whether a request of the client that writes `blocks` blocks may be admitted now; if not, space
    /// has to be made first. A trim counts as one block.
    pub fn room(&self, blocks: u32) -> bool {
        let head = &self.heads[HeadKind::User as usize];
        let segment = self.geometry.segment;
        let left = segment - head.offset - u32::from(head.open.is_none());
        // Each segment of the client holds a header at least; a second when entries run out.
        let each = segment - 1 - segment / 505;
        let entered = blocks.saturating_sub(left).div_ceil(each) + 1;
        self.segments.free() >= self.geometry.gc_reserve() + entered
    }

    /// Admits a write of `count` blocks from `lpn` on. `crc(i)` is the CRC of the `i`-th. The caller
    /// has asked [`Engine::room`], and the map pages are in memory.
    pub fn write(
        &mut self,
        lpn: Lpn,
        count: u32,
        form: Form,
        mut crc: impl FnMut(u32) -> u32,
        sink: &mut impl Sink,
    ) {
        self.house.tries = 0;
        let mut done = 0;
        while done < count {
            self.prepare(HeadKind::User, Some(form), done > 0, sink);
            let base = self.geometry.base(self.heads[0].seg).0;
            let head = &mut self.heads[0];
            let most = head.most_entries();
            let Some(open) = &mut head.open else { break };
            let (first, at) = (open.entries, head.offset);
            let n = (count - done).min(most - first).min(self.geometry.segment - at);
            open.entries += n;
            open.data += n;
            head.offset += n;
            let (seq, seg, from) = (open.seq, head.seg, base + at);
            for i in 0..n {
                let (lpn, crc) = (Lpn(lpn.0 + done + i), crc(done + i));
                Entry::Write { lpn, crc }.put(first + i, &mut self.heads[0].block);
                self.book_write(lpn, Pba(from + i), crc);
            }
            self.segments.get_mut(seg).last = seq;
            self.note(seq, from, n);
            self.counters.user += u64::from(n);
            sink.data(HeadKind::User, Pba(from), done, n);
            done += n;
        }
        self.seal_if_full(HeadKind::User, sink);
    }

    /// Remembers blocks that are not durable yet, and that the log grew.
    pub(super) fn note(&mut self, seq: u64, from: u32, count: u32) {
        self.written += u64::from(count);
        self.unflushed += u64::from(count);
        let to = from + count;
        match self.floating.iter_mut().rev().take(2).find(|f| f.seq == seq && f.to == from) {
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
        if !self.any_mapped(lpn, count) {
            return false;
        }
        self.house.tries = 0;
        self.prepare(HeadKind::User, None, false, sink);
        let head = &mut self.heads[0];
        if let Some(open) = &mut head.open {
            Entry::Trim { lpn, count }.put(open.entries, &mut head.block);
            open.entries += 1;
        }
        self.book_trim(lpn, count);
        self.counters.trims += 1;
        self.seal_if_full(HeadKind::User, sink);
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
        self.drop_place(old);
    }

    pub(super) fn book_trim(&mut self, lpn: Lpn, count: u32) {
        for word in lpn.0..lpn.0 + count {
            let old = self.map.get(word);
            if old == UNMAPPED {
                continue;
            }
            self.map.set(word, UNMAPPED);
            if self.geometry.crc_plane {
                let word = self.crc_word(word);
                self.map.set(word, 0);
            }
            self.drop_place(old);
        }
    }

    /// What was at `old` is no longer referred to.
    #[inline]
    pub(super) fn drop_place(&mut self, old: u32) {
        if old == UNMAPPED || old == POISONED {
            return;
        }
        if let Some(seg) = self.geometry.seg(Pba(old)) {
            self.segments.lose(seg, self.seq);
        }
    }
}
