//! Cleaning: the victim, and moves out of it.

use block::Lpn;

use super::head::Head;
use super::placement::SHORT;
use super::{Engine, HeadKind, POISONED, Place, Sink};
use crate::geometry::{Pba, Seg};
use crate::planted::Planted;
use crate::record::{Entry, Form};
use crate::segment::Segment;
use crate::victim::Choice;

impl Engine {
    /// Free segments below which cleaning runs. Spare space that is kept free makes fuller victims:
    /// the default keeps what comes and goes while a flush is waited for.
    pub fn gc_start(&self) -> u32 {
        match self.options.gc_start {
            0 => {
                let buffer = self.entered(self.buffer_size()) - u32::from(self.heads.users());
                self.gc_reserve() + buffer + self.limits.start
            }
            n => n.max(self.floor() + 2),
        }
    }

    /// Whether a flush, and whether a checkpoint, would free segments.
    pub fn waiting(&self) -> (u32, u32) {
        let (flush, checkpoint) = self.segments.pending();
        (flush, checkpoint + self.moving)
    }

    /// Chooses a segment to clean: its number, whether it holds map pages, its live blocks. None
    /// would gain space, or there is no room for the copies beside a checkpoint.
    pub fn pick_victim(&mut self) -> Option<(Seg, bool, u32)> {
        self.house.tries += 1;
        let picked = self.choose();
        if picked.is_none() {
            self.found_barren();
        }
        picked
    }

    fn choose(&mut self) -> Option<(Seg, bool, u32)> {
        let (segments, blocks) = (&self.segments, self.geometry.segment);
        let choice = Choice { segments, blocks, now: self.written, rng: &mut self.rng };
        let gains = |seg: &Seg| segments.get(*seg).live + 2 + blocks / 337 < blocks;
        let chosen = self.policy.choose(choice).filter(gains);
        let emptiest = segments.emptiest().filter(gains);
        let mut both = chosen.into_iter().chain(emptiest);
        let (seg, meta, live) = both.find_map(|seg| {
            let Segment { meta, live, .. } = *self.segments.get(seg);
            let taken = self.taken_by(if meta { 0 } else { live });
            (self.segments.free() >= taken).then_some((seg, meta, live))
        })?;
        self.segments.begin_cleaning(seg);
        Some((seg, meta, live))
    }

    /// Free segments that heads enter, at most, until `live` copies and a checkpoint after them are
    /// durable. After a recovery there may be few, and heads that have theirs before them.
    pub(super) fn taken_by(&self, live: u32) -> u32 {
        let segment = self.geometry.segment;
        // The segment after it is entered when less than a header and a block are left.
        let fits = |head: &Head, blocks: u32| head.offset + blocks + 2 <= segment;
        let pages = self.geometry.pages();
        let enters = |head: &Head| match head.kind {
            // A header, another where a record must be newer than the victim, and one for each 336.
            HeadKind::Gc(_) => u32::from(!fits(head, live + 2 + live / 337)),
            HeadKind::Meta if fits(head, pages + 1 + pages / 337) => 0,
            HeadKind::Meta => self.geometry.checkpoint_segments(),
            HeadKind::User(_) => u32::from(head.open.is_some() && !fits(head, 0)),
        };
        self.heads.iter().map(enters).sum::<u32>() + self.buffer_needs()
    }

    /// Cleans a segment of map pages: the next checkpoint writes them elsewhere. Pages that are not
    /// in memory are returned: they have to be installed, sound or not, and this called again. A damaged
    /// page stays where it is, and its segment is set aside: written anew, it would look sound.
    pub fn move_pages(&mut self, seg: Seg) -> Result<(), (u32, Pba)> {
        let from = self.geometry.base(seg).0;
        let inside = from..from + self.geometry.segment;
        let mut damaged = false;
        for page in 0..self.map.directory().len() as u32 {
            if !inside.contains(&self.map.directory()[page as usize].pba.0) {
                continue;
            }
            if let Some(at) = self.map.missing(page) {
                return Err((page, at.pba));
            }
            match self.map.is_bad(page) {
                true => damaged = true,
                false => self.map.make_dirty(page),
            }
        }
        if damaged {
            self.end_cleaning(seg);
            return Ok(());
        }
        self.moving += 1;
        Ok(())
    }

    /// The newest record of a segment.
    pub fn newest_record(&self, seg: Seg) -> u64 {
        self.segments.get(seg).last
    }

    /// Whether a block is still where a header says.
    pub fn is_live(&self, lpn: Lpn, pba: Pba) -> bool {
        lpn.0 < self.geometry.logical
            && (self.lookup(lpn) == Place::At(pba) || self.is_superseded(lpn, pba))
    }

    /// Admits the move of a block out of `from`, if it is still there. The new place is given to the
    /// sink as block `index` of the batch.
    #[expect(clippy::too_many_arguments, reason = "one move, in its parts")]
    pub fn relocate(
        &mut self,
        lpn: Lpn,
        from: Pba,
        crc: u32,
        form: Form,
        newest: u64,
        index: u32,
        sink: &mut impl Sink,
    ) -> bool {
        if !self.is_live(lpn, from) {
            return false;
        }
        let kind = self.place_move(lpn, from);
        self.prepare_move(kind, Some(form), newest, sink);
        let base = self.geometry.base(self.heads[kind].seg).0;
        let head = &mut self.heads[kind];
        let Some(open) = &mut head.open else { return false };
        Entry::Move { lpn, crc, from }.put(open.entries, &mut head.block);
        open.entries += 1;
        open.data += 1;
        let (seq, at) = (open.seq, base + head.offset);
        head.offset += 1;
        match self.is_superseded(lpn, from) {
            true => self.move_superseded(lpn, from, Pba(at)),
            false => self.book_move(lpn, from, Pba(at)),
        }
        self.note(seq, at, 1);
        match self.has(Planted::GcCountedAsUser) {
            true => self.counters.user += 1,
            false => self.counters.gc += 1,
        }
        sink.data(kind, Pba(at), index, 1);
        self.seal_if_full(kind, sink);
        true
    }

    /// Books that what is at `from` is damaged, if the block is still there.
    pub fn poison(&mut self, lpn: Lpn, from: Pba, newest: u64, sink: &mut impl Sink) {
        if !self.is_live(lpn, from) {
            return;
        }
        let kind = HeadKind::Gc(0);
        self.prepare_move(kind, None, newest, sink);
        let head = &mut self.heads[kind];
        if let Some(open) = &mut head.open {
            Entry::Poison { lpn, from }.put(open.entries, &mut head.block);
            open.entries += 1;
        }
        self.book_poison(lpn, from);
        self.drop_superseded(from);
        self.counters.poisoned += 1;
        self.seal_if_full(kind, sink);
    }

    /// The head that takes a block of a victim.
    fn place_move(&mut self, lpn: Lpn, from: Pba) -> HeadKind {
        // What a batch supersedes dies with its mark.
        if self.heads.gcs() == 1 || self.is_superseded(lpn, from) {
            return HeadKind::Gc(0);
        }
        let head = self.geometry.seg(from).map(|seg| self.segments.get(seg).head);
        HeadKind::Gc(self.placement.of_move(lpn, head == Some(SHORT)))
    }

    /// The record a move goes to is newer than every record of the victim: else replay would meet
    /// the move before the write it moves.
    fn prepare_move(
        &mut self,
        kind: HeadKind,
        form: Option<Form>,
        newest: u64,
        sink: &mut impl Sink,
    ) {
        let open = self.heads[kind].open;
        if open.is_some_and(|open| open.seq <= newest) && !self.has(Planted::MoveInOlderRecord) {
            self.seal(kind, false, sink);
        }
        self.prepare(kind, form, false, sink);
    }

    /// A block has moved, if it was still at `from`.
    pub(super) fn book_move(&mut self, lpn: Lpn, from: Pba, to: Pba) {
        let old = self.map.get(lpn.0);
        if old != from.0 && !self.has(Planted::UnconditionalRelocation) {
            return;
        }
        self.map.set(lpn.0, to.0);
        if let Some(seg) = self.geometry.seg(to) {
            self.segments.gain(seg);
        }
        self.drop_place(old);
    }

    pub(super) fn book_poison(&mut self, lpn: Lpn, from: Pba) {
        let old = self.map.get(lpn.0);
        if old == from.0 {
            self.map.set(lpn.0, POISONED);
            self.drop_place(old);
        }
    }

    /// Cleaning of a segment of the client's blocks is over. What is still live in it lies under a
    /// header that cannot be read: it stays where it is.
    pub(super) fn end_cleaning(&mut self, seg: Seg) {
        let Segment { head, born, .. } = *self.segments.get(seg);
        match self.segments.end_cleaning(seg, self.seq) {
            true => {
                self.segment_ended(head, born);
                self.counters.cleaned += 1;
            }
            false => self.counters.quarantined += 1,
        }
    }
}
