//! Keeping house: what is due beside requests. Both shells ask [`Engine::next`] and do what they are
//! told, so what is searched for broken promises in virtual time is what runs live.
//!
//! Invariants:
//! * what is owed follows from what was written, never from how long anything took;
//! * one victim and one checkpoint are under way at most;
//! * an answer stays the same until the shell says that it was done, or something was admitted, became
//!   durable or free: asking changes nothing that shows.
//!
//! | A shell told | does | and says |
//! | --- | --- | --- |
//! | [`Work::Seal`] | sends what sealing gives | [`Engine::seal_old`] |
//! | [`Work::Flush`] | sends all, flushes | [`Engine::flush_begin`], [`Engine::flush_end`] |
//! | [`Work::Batch`] | empties the buffer, sends all, flushes | [`Engine::batch_next`], [`Engine::evict`], [`Engine::batch_end`]; as for a flush |
//! | [`Work::Checkpoint`] | the same without the flush; sends what sealing gives | [`Engine::checkpoint_begin`] |
//! | [`Work::Write`] | writes so many blocks of it | [`Engine::checkpoint_write`] |
//! | [`Work::RootFlush`] | waits for what it sent, flushes | [`Engine::root_flush_begin`], [`Engine::root_flush_end`] |
//! | [`Work::RootHeader`] | writes it | [`Engine::root_header`], [`Engine::root_header_written`] |
//! | [`Work::Victim`] | lists what is live in it | [`Engine::pick_victim`], [`Engine::listed`] |
//! | [`Work::Copy`] | reads and moves blocks | [`Engine::relocate`], [`Engine::copied`] |

use super::Engine;
use crate::geometry::Seg;

/// Writes whose copies may be owed before a request makes them itself.
const LATE: u64 = 8;

/// For whom house is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occasion {
    /// A request was just admitted: of copies only those that pauses were too short for.
    Request,
    /// Nobody waits.
    Pause,
    /// Somebody waits for room for so many blocks.
    Room(u32),
}

/// What is due next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Records have been open for too long.
    Seal,
    /// What was admitted should be durable.
    Flush,
    /// What is buffered goes into the log, the batch ends, and should be durable.
    Batch,
    /// A checkpoint begins.
    Checkpoint,
    /// So many blocks of the checkpoint, at most.
    Write(u32),
    /// What the checkpoint wrote so far should be durable.
    RootFlush,
    /// A header of the checkpoint's root.
    RootHeader,
    /// A segment is chosen and listed.
    Victim,
    /// So many blocks of the victim are moved before the next question.
    Copy(u32),
    /// Nothing, until a flush under way has ended or a reader has let go of a segment.
    Wait,
    /// Nothing makes room.
    Full,
    /// Nothing is due.
    Nothing,
}

/// A victim under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    seg: Seg,
    /// Blocks that it frees.
    gain: u64,
    /// Blocks that were live when it was listed.
    cost: u64,
    /// Of these, not moved yet.
    left: u64,
    /// Copies that are due, in parts of a `gain`.
    due: u64,
}

/// Free segments below which cleaning runs, and below which requests wait: taken once for a decision,
/// behind every request.
#[derive(Clone, Copy)]
struct Marks {
    start: u32,
    floor: u32,
}

impl Marks {
    /// Segments between them, one at least.
    fn float(self) -> u32 {
        self.start.saturating_sub(self.floor).max(1)
    }
}

/// What the house knows beside the tables.
#[derive(Debug, Default)]
pub(super) struct House {
    pub(super) victim: Option<Victim>,
    /// What was spent, and admitted, when the copies for it were last booked.
    spent: u64,
    asked: u64,
    /// Copies that the request at hand makes itself.
    quota: u64,
    /// Flushes under way.
    pub(super) flushing: u32,
    /// A record was sealed for its age: if nobody writes, nobody else flushes it.
    pub(super) sealed: bool,
    /// No segment was worth cleaning then.
    barren: Option<[u64; 4]>,
    /// What was tried since a request was last admitted.
    pub(super) tries: u64,
}

impl Engine {
    /// What is due next.
    pub fn next(&mut self, occasion: Occasion) -> Work {
        match occasion {
            Occasion::Room(blocks) => self.next_for_room(blocks),
            Occasion::Request | Occasion::Pause => self.next_at_leisure(occasion),
        }
    }

    #[inline(always)]
    fn next_at_leisure(&mut self, occasion: Occasion) -> Work {
        if self.wants_seal() {
            return Work::Seal;
        }
        if self.wants_batch() || occasion == Occasion::Pause && self.batch_is_old() {
            return Work::Batch;
        }
        let frees = self.wants_freeing_flush() && self.house.flushing == 0 && self.dirty();
        if self.wants_flush() || frees {
            return Work::Flush;
        }
        if let Some(work) = self.next_of_checkpoint(false) {
            return work;
        }
        if let Some(work) = self.next_of_cleaning(occasion) {
            return work;
        }
        // What was sealed may be durable by now: a checkpoint flushes too.
        match self.house.sealed
            && self.dirty()
            && occasion == Occasion::Pause
            && self.house.flushing == 0
        {
            true => Work::Flush,
            false => Work::Nothing,
        }
    }

    fn next_for_room(&mut self, blocks: u32) -> Work {
        if self.room(blocks) {
            return Work::Nothing;
        }
        let g = &self.geometry;
        // A victim gains a block at least, and a try or two more go to the flush behind it.
        if self.house.tries > 16 * u64::from(g.segments + g.segment) {
            return Work::Full;
        }
        let (flush, checkpoint) = self.waiting();
        if flush > 0 && self.dirty() {
            return Work::Flush;
        }
        if checkpoint > self.worth_a_checkpoint() {
            return self.next_of_checkpoint(true).unwrap_or(Work::Checkpoint);
        }
        match self.house.victim {
            Some(victim) if self.copies_fit(victim) => return Work::Copy(self.batch(victim.left)),
            // What follows makes room for them.
            Some(_) => {}
            None if self.house.barren != Some(self.state()) => return Work::Victim,
            None => {}
        }
        // One under way frees the places of the map pages it has written anew.
        match self.next_of_checkpoint(true) {
            Some(work) => work,
            None if checkpoint > 0 => Work::Checkpoint,
            None if self.batch_holds_room() => Work::Batch,
            None if flush > 0 || self.segments.held() > 0 => Work::Wait,
            None => Work::Full,
        }
    }

    /// What follows in the checkpoint under way, or that one begins; with `hurry` it is not spread
    /// over what is written.
    #[inline(always)]
    fn next_of_checkpoint(&mut self, hurry: bool) -> Option<Work> {
        if self.checkpoint_is_under_way() {
            return self.checkpoint_next(hurry);
        }
        let due = self.wants_checkpoint() || self.wants_freeing_checkpoint();
        (due && !hurry).then_some(Work::Checkpoint)
    }

    fn next_of_cleaning(&mut self, occasion: Occasion) -> Option<Work> {
        if !self.wants_cleaning() {
            // What is owed so far is paid; nothing more is booked.
            self.book_nothing();
        } else if self.house.victim.is_some() {
            self.book_copies();
        } else if self.house.barren != Some(self.state()) {
            return Some(Work::Victim);
        } else {
            self.book_nothing();
        }
        let victim = self.house.victim.filter(|victim| self.copies_fit(*victim))?;
        let due = victim.due / victim.gain.max(1);
        let copies = match occasion {
            Occasion::Request => due.min(self.house.quota).min(victim.left) as u32,
            Occasion::Pause | Occasion::Room(_) => self.batch(due.min(victim.left)),
        };
        (copies > 0).then_some(Work::Copy(copies))
    }

    /// Whether the next copies leave a checkpoint its segments. There were enough for all when the victim was chosen,
    /// but each flush that comes between two copies ends their record, and the next one has a header of its own.
    fn copies_fit(&self, victim: Victim) -> bool {
        self.segments.free() >= self.taken_by(self.batch(victim.left))
    }

    /// Of so many copies those that are made before anything else is asked for.
    fn batch(&self, copies: u64) -> u32 {
        copies.min(u64::from(self.options.gc_batch)) as u32
    }

    /// Each block that is written owes the copies that make room for it. A request makes them itself
    /// if too many are owed, or free segments run out: never many at a time.
    fn book_copies(&mut self) {
        let (spent, asked) = (self.counters.spent(), self.asked());
        let blocks = spent - std::mem::replace(&mut self.house.spent, spent);
        let requests = asked - std::mem::replace(&mut self.house.asked, asked);
        if blocks + requests == 0 {
            return;
        }
        let marks = self.marks();
        let ((faster, than), short) = (self.hurry(marks), self.is_short(marks));
        if let Some(victim) = &mut self.house.victim {
            let (owed, gain) = (victim.cost * faster, victim.gain.max(1) * than);
            victim.due += blocks * victim.cost * faster / than;
            let most = owed.div_ceil(gain) * requests;
            let late = victim.due / victim.gain.max(1) > LATE * most;
            self.house.quota = if late || short { most } else { 0 };
        }
    }

    fn book_nothing(&mut self) {
        (self.house.spent, self.house.asked) = (self.counters.spent(), self.asked());
        self.house.quota = 0;
    }

    /// Blocks that requests wrote; a trim is one.
    fn asked(&self) -> u64 {
        self.counters.user + self.counters.trims
    }

    /// Changes when a segment may have become worth cleaning.
    fn state(&self) -> [u64; 4] {
        let free = u64::from(self.segments.free());
        [self.written, self.counters.trims, free, u64::from(self.segments.closed())]
    }

    /// Segments that must wait for a checkpoint before one is made for their sake.
    fn worth_a_checkpoint(&self) -> u32 {
        (self.geometry.segments / 128).max(2)
    }

    /// Whether a checkpoint frees so many segments that are wanted that one should be made now.
    fn wants_freeing_checkpoint(&self) -> bool {
        let (_, checkpoint) = self.waiting();
        checkpoint > self.worth_a_checkpoint() && self.runs_short()
    }

    /// Whether a flush frees segments which are wanted.
    fn wants_freeing_flush(&self) -> bool {
        let (flush, _) = self.waiting();
        if flush == 0 {
            return false;
        }
        let marks = self.marks();
        4 * flush >= marks.float() || self.is_short(marks)
    }

    /// Segments that a flush, a checkpoint, or a reader who lets go of them will free.
    fn coming(&self) -> u32 {
        let (flush, checkpoint) = self.waiting();
        flush + checkpoint + self.segments.held()
    }

    /// Whether cleaning should run: what is coming is as good as free.
    fn wants_cleaning(&self) -> bool {
        self.segments.free() + self.coming() < self.gc_start()
    }

    /// Whether free segments are about to run out: fewer are left than a quarter of those between
    /// the reserve and where cleaning starts.
    pub fn runs_short(&self) -> bool {
        self.is_short(self.marks())
    }

    fn is_short(&self, marks: Marks) -> bool {
        let between = marks.start.saturating_sub(marks.floor);
        self.segments.free() < marks.floor + between.div_ceil(4)
    }

    fn marks(&self) -> Marks {
        Marks { start: self.gc_start(), floor: self.floor() }
    }

    /// Free segments below which requests wait: what is buffered has its room.
    pub(super) fn floor(&self) -> u32 {
        self.gc_reserve() + self.buffer_needs()
    }

    /// How much faster than what is written needs it cleaning should run, as a fraction: the more,
    /// the further free segments have fallen below where it starts.
    fn hurry(&self, marks: Marks) -> (u64, u64) {
        let free = self.segments.free() + self.coming();
        let (float, missing) =
            (u64::from(marks.float()), u64::from(marks.start.saturating_sub(free)));
        (float + 2 * missing, float)
    }

    /// Nothing was worth cleaning.
    pub(super) fn found_barren(&mut self) {
        self.house.barren = Some(self.state());
    }

    /// So many blocks of the victim that was picked are live and will be moved, in the order of the
    /// shell's list.
    pub fn listed(&mut self, seg: Seg, live: u32, count: usize, freed: &mut Vec<Seg>) {
        let (gain, cost) = (u64::from(self.geometry.segment - live), count as u64);
        self.house.victim = Some(Victim { seg, gain, cost, left: cost, due: 0 });
        self.copied(0, freed);
    }

    /// So many blocks of the list are done with: moved, gone meanwhile, or not to be moved. The last
    /// ends the victim.
    pub fn copied(&mut self, count: usize, freed: &mut Vec<Seg>) {
        let count = count as u64;
        let Some(victim) = &mut self.house.victim else { return };
        victim.left = victim.left.saturating_sub(count);
        victim.due = victim.due.saturating_sub(count * victim.gain);
        self.house.quota = self.house.quota.saturating_sub(count);
        if victim.left == 0 {
            let seg = victim.seg;
            self.house.victim = None;
            self.end_cleaning(seg);
            self.reclaim(freed);
        }
    }
}
