//! Heads: the open record of each, sealing, and the step from segment to segment.
//!
//! Invariants: a head that has no open record has room for a header and a block in its segment; the
//! segment after it is reserved when it enters one; that is what every header names.

use std::ops::{Index, IndexMut};

use super::{Engine, HeadKind, Sink};
use crate::geometry::{BLOCK, Pba, Seg};
use crate::planted::Planted;
use crate::record::{Form, GC_ENTRIES, Header, USER_ENTRIES};
use crate::root::{HeadAt, HeadsAt};

/// The open record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Block of the header in the segment.
    pub at: u32,
    pub seq: u64,
    pub entries: u32,
    pub data: u32,
    /// Form of its data; none yet if it holds trims only.
    pub form: Option<Form>,
    /// When it was opened.
    pub since: u64,
}

#[derive(Debug)]
pub(crate) struct Head {
    pub kind: HeadKind,
    pub seg: Seg,
    pub next: Seg,
    /// Next free block of the segment.
    pub offset: u32,
    pub open: Option<Open>,
    /// The open record's header block.
    pub block: Box<[u8; BLOCK]>,
}

impl Head {
    pub fn new(kind: HeadKind) -> Head {
        let block = Box::new([0; BLOCK]);
        Head { kind, seg: Seg(0), next: Seg(0), offset: 0, open: None, block }
    }

    pub fn most_entries(&self) -> u32 {
        if self.kind.is_user() { USER_ENTRIES } else { GC_ENTRIES }
    }

    pub fn at(&self) -> HeadAt {
        HeadAt { seg: self.seg, offset: self.offset, next: self.next }
    }
}

/// All heads, in the order of [`HeadsAt`].
#[derive(Debug)]
pub(super) struct Heads {
    all: Vec<Head>,
    users: u8,
    gcs: u8,
}

impl Heads {
    pub fn new(users: u8, gcs: u8) -> Heads {
        let all = kinds(users, gcs).map(Head::new).collect();
        Heads { all, users, gcs }
    }
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }
    pub fn users(&self) -> u8 {
        self.users
    }
    pub fn gcs(&self) -> u8 {
        self.gcs
    }
    pub fn iter(&self) -> impl Iterator<Item = &Head> {
        self.all.iter()
    }
    /// Where they go on.
    pub fn at(&self) -> HeadsAt {
        let mut at = HeadsAt::new(self.users, self.gcs);
        at.all_mut().iter_mut().zip(&self.all).for_each(|(at, head)| *at = head.at());
        at
    }
}

/// The heads of a log, in the order of [`HeadsAt`].
pub(crate) fn kinds(users: u8, gcs: u8) -> impl Iterator<Item = HeadKind> {
    let first = [HeadKind::User(0), HeadKind::Gc(0), HeadKind::Meta];
    first.into_iter().chain((1..users).map(HeadKind::User)).chain((1..gcs).map(HeadKind::Gc))
}

impl Index<HeadKind> for Heads {
    type Output = Head;
    fn index(&self, kind: HeadKind) -> &Head {
        &self.all[kind.place(self.users)]
    }
}

impl IndexMut<HeadKind> for Heads {
    fn index_mut(&mut self, kind: HeadKind) -> &mut Head {
        let place = kind.place(self.users);
        &mut self.all[place]
    }
}

impl Engine {
    /// Takes a free segment. That there is one is what the reserve is for.
    pub(super) fn take_segment(&mut self, kind: HeadKind) -> Seg {
        let seg = self.segments.take();
        let seg = seg.unwrap_or_else(|| panic!("the reserve of free segments ran out: {self:?}"));
        let (clock, s) = (self.placement.clock(), self.segments.get_mut(seg));
        s.meta = kind == HeadKind::Meta;
        if let HeadKind::User(head) = kind {
            (s.head, s.born) = (head, clock);
        }
        seg
    }

    /// Gives each head its first two segments.
    pub(crate) fn place_heads(&mut self) {
        for kind in kinds(self.heads.users(), self.heads.gcs()) {
            let (seg, next) = (self.take_segment(kind), self.take_segment(kind));
            let head = &mut self.heads[kind];
            (head.seg, head.next, head.offset) = (seg, next, 0);
        }
    }

    /// Leaves the segment if nothing more fits into it.
    pub(super) fn advance_if_full(&mut self, kind: HeadKind) {
        let head = &self.heads[kind];
        if self.geometry.segment - head.offset >= 2 {
            return;
        }
        let (seg, entered) = (head.seg, head.next);
        let (age, seq) = (self.written, self.seq);
        self.segments.close(seg, age, seq);
        self.segments.get_mut(entered).born = self.placement.clock();
        let next = self.take_segment(kind);
        let head = &mut self.heads[kind];
        (head.seg, head.next, head.offset) = (entered, next, 0);
    }

    /// Makes sure that the head has an open record that takes one more entry; with `form`, and a
    /// block of data in that form. A record that is full ends; with `more` the request at hand goes
    /// on in the next.
    #[inline(always)]
    pub(super) fn prepare(
        &mut self,
        kind: HeadKind,
        form: Option<Form>,
        more: bool,
        sink: &mut impl Sink,
    ) {
        let segment = self.geometry.segment;
        let head = &mut self.heads[kind];
        let most = head.most_entries();
        if let Some(open) = &mut head.open {
            let fits = match (open.form, form) {
                (_, None) => true,
                (None, Some(_)) => head.offset < segment,
                (Some(has), Some(wants)) => has == wants && head.offset < segment,
            };
            if fits && open.entries < most {
                open.form = form.or(open.form);
                return;
            }
        }
        self.begin_record(kind, form, more, sink);
    }

    /// A head's open record ends, if it has one, and the next begins.
    #[cold]
    fn begin_record(
        &mut self,
        kind: HeadKind,
        form: Option<Form>,
        more: bool,
        sink: &mut impl Sink,
    ) {
        if self.heads[kind].open.is_some() {
            match kind {
                HeadKind::User(_) => self.seal_users(more, sink),
                HeadKind::Gc(_) | HeadKind::Meta => self.seal(kind, more, sink),
            }
        }
        self.seq += 1;
        let (seq, since) = (self.seq, self.now);
        let head = &mut self.heads[kind];
        head.open = Some(Open { at: head.offset, seq, entries: 0, data: 0, form, since });
        head.offset += 1;
        let seg = head.seg;
        self.segments.get_mut(seg).last = seq;
        self.written += 1;
        self.unflushed += 1;
    }

    /// Seals the open record of a head, if there is one.
    pub(super) fn seal(&mut self, kind: HeadKind, more: bool, sink: &mut impl Sink) {
        let head = &mut self.heads[kind];
        let Some(open) = head.open.take() else { return };
        if open.entries > 0 {
            self.content = self.content.max(open.seq);
        }
        (self.announced, self.sealed) = (self.durable, self.now);
        let header = Header {
            kind: kind.record(),
            more,
            form: open.form.unwrap_or_default(),
            instance: self.instance,
            epoch: self.epoch,
            seq: open.seq,
            durable: self.durable,
            segment: head.seg,
            offset: open.at as u16,
            entries: open.entries as u16,
            data: open.data as u16,
            next: head.next,
            time: self.now,
        };
        header.seal(&mut head.block);
        let pba = Pba(self.geometry.base(head.seg).0 + open.at);
        sink.header(kind, pba, &head.block);
        self.counters.header += 1;
        self.counters.records += 1;
        self.advance_if_full(kind);
    }

    /// Seals the open records of all heads of the client. They count only together: each but the last says
    /// that it goes on in the next, so what recovery finds is what the client had at one moment, though
    /// its writes are in several places. With `more` the last says so too.
    ///
    /// What is buffered counts in batches: until one ends every record goes on.
    pub(super) fn seal_users(&mut self, more: bool, sink: &mut impl Sink) {
        self.seal_set(more || self.batch.open, sink);
    }

    /// The same, and `more` is what the last says.
    pub(super) fn seal_set(&mut self, more: bool, sink: &mut impl Sink) {
        let next = |heads: &Heads| {
            let users = (0..heads.users()).map(HeadKind::User);
            users.filter_map(|kind| Some((heads[kind].open?.seq, kind))).min()
        };
        while let Some((_, kind)) = next(&self.heads) {
            let others =
                self.heads.iter().filter(|head| head.kind.is_user() && head.open.is_some());
            let last = others.count() == 1;
            self.seal(kind, more || !last, sink);
        }
    }

    /// Seals the record of a head if nothing more fits into it.
    pub(super) fn seal_if_full(&mut self, kind: HeadKind, sink: &mut impl Sink) {
        let head = &self.heads[kind];
        if let Some(open) = &head.open
            && (open.entries == head.most_entries() || head.offset == self.geometry.segment)
        {
            match kind {
                HeadKind::User(_) => self.seal_users(false, sink),
                HeadKind::Gc(_) | HeadKind::Meta => self.seal(kind, false, sink),
            }
        }
    }

    /// Seals all open records. Returns the newest record: once everything given to the sink so
    /// far is written and flushed, all records up to it are durable.
    pub fn seal_all(&mut self, sink: &mut impl Sink) -> u64 {
        self.seal_users(false, sink);
        self.seal_gcs(sink);
        self.seq
    }

    fn seal_gcs(&mut self, sink: &mut impl Sink) {
        for head in 0..self.heads.gcs() {
            self.seal(HeadKind::Gc(head), false, sink);
        }
    }

    /// Seals records that have been open for too long. If there has been none for as long, says by an
    /// empty record that what a flush covered is durable: until some header says so, damage to the
    /// newest records looks like writes that were never finished.
    pub fn seal_old(&mut self, sink: &mut impl Sink) {
        let mut any = false;
        if self.has_old(true) {
            self.seal_users(false, sink);
            any = true;
        }
        if self.has_old(false) {
            self.seal_gcs(sink);
            any = true;
        }
        if !any && self.is_due(self.sealed) && self.wants_mark() {
            self.prepare(HeadKind::User(0), None, false, sink);
            self.seal_users(false, sink);
            any = true;
        }
        self.house.sealed |= any;
    }

    /// Whether [`Engine::seal_old`] has something to do.
    #[inline(always)]
    pub(super) fn wants_seal(&mut self) -> bool {
        if self.now >= self.seal_from {
            return self.looks_for_old();
        }
        debug_assert!(!self.has_old(true) && !self.has_old(false) && !self.is_due(self.sealed));
        false
    }

    /// The same; and remembers until when it need not be asked again: what is opened or sealed later is
    /// old later.
    fn looks_for_old(&mut self) -> bool {
        let since = self.heads.iter().filter_map(|head| head.open.as_ref()).map(|open| open.since);
        let first = since.min().unwrap_or(u64::MAX);
        let due = first.saturating_add(self.limits.old) <= self.now;
        // A mark may be wanted at any time from then on.
        self.seal_from = first.min(self.sealed).saturating_add(self.limits.old);
        due || self.is_due(self.sealed) && self.wants_mark()
    }

    /// Whether a record of the client's heads, or of the others, has been open for too long.
    fn has_old(&self, user: bool) -> bool {
        let mut open = self.heads.iter().filter(|head| head.kind.is_user() == user);
        open.any(|head| head.open.is_some_and(|open| self.is_due(open.since)))
    }

    /// Whether that was so long ago that a record is closed.
    pub(super) fn is_due(&self, since: u64) -> bool {
        self.now.saturating_sub(since) >= self.limits.old
    }

    /// Whether no header on its way, and no checkpoint, says that what is durable is.
    fn wants_mark(&self) -> bool {
        let open = self.heads.iter().any(|head| head.open.is_some());
        !open
            && self.content <= self.durable
            && self.content > self.announced.max(self.checkpoint_seq)
            && !self.has(Planted::NoMark)
            && self.room(1)
    }
}
