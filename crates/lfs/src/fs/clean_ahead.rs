//! Cleaning ahead of need: it goes on beside the callers, a step at a time whenever an operation comes
//! by, and nobody waits for a copy, a flush or a record as long as a few segments are free.
//!
//! Invariants:
//! * a copied victim is let go only after: its copies were answered, a flush that was submitted then is
//!   done, its record was submitted then, and is durable; or a checkpoint is durable (rule `flush`);
//! * records are in the order of copying, and a write of them begins when the one before is durable;
//! * what was read of a victim counts only as long as it bears its ticket; what of it is copied is
//!   decided when it is copied;
//! * callers wait at [`Fs::floor_free`] only; the cleaner begins at [`Fs::least_free`].

use block::{BlockDevice, Span, Time};

use super::ahead::Reading;
use super::clean::{Contents, Copied, of_summaries};
use super::options::Bug;
use super::outside::Gather;
use super::victim::choose;
use super::{Fs, Trigger};
use crate::disk::For;
use crate::format::{BLOCK_BYTES, Summary};
use crate::{FsError, SegNo};

/// A caller's flush waits for a victim that is there within this: it shares the flush.
const JOIN: Span = Span::from_us(300);
/// Segments that a checkpoint is made at, where only that frees what was cleaned: some more than
/// [`Fs::floor_free`], so that its caller is the only one that waits.
const CHECKPOINT_AT: usize = 8;
/// Checkpoints in a row that may gain nothing.
const STUCK: u32 = 2;

/// Who is in need of what is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nobody,
    /// Somebody waits until what was copied is free.
    Settled,
    /// Somebody waits for free segments.
    Room,
}

impl<D: BlockDevice> Fs<D> {
    /// As [`Fs::make_room`]: one step, and nobody waits unless there is next to nothing free.
    pub(super) fn make_room_ahead(&mut self) -> Result<(), FsError> {
        self.step(Need::Nobody).map_err(of_summaries)?;
        let few = self.segs.free() <= self.dirty_segments() + CHECKPOINT_AT;
        if few && !self.journals() && self.segs.prefree() > 0 {
            self.ask_checkpoint(Trigger::Cleaning)?;
        }
        if self.segs.free() > self.floor_free() {
            self.ahead.answer();
            return Ok(());
        }
        if self.disk.is_outside() {
            return self.press_outside().map_err(of_summaries);
        }
        let start = self.disk.clock();
        let out = self.press();
        self.cleaner.waited();
        self.counted.waited(self.disk.clock().since(start));
        out.map_err(of_summaries)
    }

    /// One step, if that is how this volume cleans.
    pub(super) fn poll_cleaning(&mut self) -> Result<(), FsError> {
        if self.options.ahead > 0 {
            self.step(Need::Nobody).map_err(of_summaries)?;
        }
        Ok(())
    }

    /// A caller waits until what the next operation and a checkpoint need is free.
    fn press(&mut self) -> Result<(), FsError> {
        let mut stuck = 0;
        while self.segs.free() <= self.floor_free() {
            if self.nodes.dirty() > 2 * self.options.dirty {
                self.checkpoint(Trigger::Dirty)?;
            }
            if self.move_on(Need::Room)? {
                continue;
            }
            if stuck == STUCK {
                return Err(FsError::NoSpace);
            }
            let (before, waiting) = (self.segs.free(), self.segs.prefree() > 0);
            let cleaned = waiting && !self.journals();
            self.checkpoint(if cleaned { Trigger::Cleaning } else { Trigger::Emergency })?;
            stuck = if self.segs.free() > before { 0 } else { stuck + 1 };
        }
        Ok(())
    }

    /// The same where somebody else does the jobs: the caller comes again when one of them is done.
    fn press_outside(&mut self) -> Result<(), FsError> {
        self.cleaner.waited();
        while self.step(Need::Room)? {
            if self.segs.free() > self.floor_free() {
                self.ahead.answer();
                return Ok(());
            }
        }
        if self.is_under_way() {
            return Err(FsError::Again);
        }
        if self.ahead.ask(self.segs.free()) > STUCK {
            self.ahead.answer();
            return Err(FsError::NoSpace);
        }
        let cleaned = self.segs.prefree() > 0 && !self.journals();
        self.ask_checkpoint(if cleaned { Trigger::Cleaning } else { Trigger::Emergency })?;
        Err(FsError::Again)
    }

    /// Whether somebody reads for cleaning, or does a job that it waits for.
    fn is_under_way(&self) -> bool {
        let jobs = self.is_frozen() || self.has_jobs() || self.is_job_under_way();
        self.ahead.is_blocked() || jobs
    }

    /// Does what can be done, or waits for what is under way; no: there is neither.
    fn move_on(&mut self, need: Need) -> Result<bool, FsError> {
        if self.step(need)? {
            return Ok(true);
        }
        if self.ahead.is_blocked() || self.disk.is_outside() && self.is_under_way() {
            // Who waits reads it, or does the job, and comes again.
            return Err(FsError::Again);
        }
        let next = self.next_event();
        if let Some(next) = next {
            self.disk.pass(next);
        }
        Ok(next.is_some())
    }

    /// When something happens that a victim on its way waits for.
    fn next_event(&self) -> Option<Time> {
        let flush = self.ahead.copies().and_then(|mark| self.disk.due(mark));
        let events = [self.ahead.recorded_at(), flush, self.ahead.arrives()];
        let to_come = |at: &Time| *at > self.disk.clock() && *at < Time::LIMIT;
        events.into_iter().flatten().filter(to_come).min()
    }

    /// One step of each stage, if it can be done now. Says whether anything was done.
    fn step(&mut self, need: Need) -> Result<bool, FsError> {
        // What is not in memory is read by somebody else; the caller goes on.
        let before = self.disk.set_aside(For::Cleaning);
        let done = self.step_now(need);
        self.disk.go_on(before);
        match done {
            Err(FsError::Again) => {
                self.ahead.block(true);
                Ok(false)
            }
            done => done,
        }
    }

    fn step_now(&mut self, need: Need) -> Result<bool, FsError> {
        let mut done = self.free_recorded();
        done |= self.fill_read()?;
        if self.is_frozen() {
            return Ok(done);
        }
        done |= self.record_copied()?;
        // Each stage is whole in itself: what the one behind it needs can still be read by somebody else.
        self.disk.fresh();
        done |= self.copy_read()?;
        self.disk.fresh();
        done |= self.flush_copied(need != Need::Nobody)?;
        while self.read_more(need)? {
            done = true;
        }
        Ok(done)
    }

    fn free_recorded(&mut self) -> bool {
        if self.ahead.recorded_at().is_none_or(|at| at > self.disk.clock()) {
            return false;
        }
        let victims = self.ahead.take_recorded();
        victims.into_iter().for_each(|victim| self.let_one_go(victim));
        true
    }

    fn record_copied(&mut self) -> Result<bool, FsError> {
        let Some(mark) = self.ahead.copies() else { return Ok(false) };
        let busy = self.ahead.recorded_at().is_some() && !self.options.bug.has(Bug::RecordsCross);
        if busy || !(self.trusts_order() || self.disk.is_durable(mark)) {
            return Ok(false);
        }
        let (mut victims, mut records) = (Vec::new(), Vec::new());
        for Copied { victim, record, .. } in self.ahead.take_copied() {
            victims.push(victim);
            if !record.moves.is_empty() {
                records.push(record);
            }
        }
        if records.is_empty() {
            victims.into_iter().for_each(|victim| self.let_one_go(victim));
        } else if self.trusts_order() {
            self.write_records(&records)?;
            victims.into_iter().for_each(|victim| self.let_one_go(victim));
        } else {
            let until = self.write_records_behind(&records)?;
            self.ahead.record(victims, until);
        }
        Ok(true)
    }

    fn copy_read(&mut self) -> Result<bool, FsError> {
        if self.segs.free() <= self.dirty_segments() + 2 {
            return Ok(false);
        }
        let Some(read) = self.ahead.take_read(self.disk.clock()) else { return Ok(false) };
        let Some(contents) = read.contents else { return Ok(false) };
        let Reading { victim, ticket, until, .. } = read;
        let fresh = self.segs.of(victim).ticket == ticket;
        let is_victim = self.options.bug.has(Bug::AheadStale) && !self.segs.of(victim).copied;
        if !fresh && !is_victim {
            self.cleaner.ahead(false);
            self.cleaner.give_back(contents.blocks);
            return Ok(true);
        }
        let summary = Summary::decode(&contents.summary);
        if let Err(error) = self.prepare_owners(&self.needed_of(victim), &summary) {
            self.ahead.put_back(Reading { victim, ticket, contents: Some(contents), until });
            return Err(error);
        }
        self.segs.set_ticket(victim, 0);
        let mut copied = self.copy_contents(victim, contents)?;
        self.cleaner.ahead(fresh);
        self.count_cleaning(std::mem::take(&mut copied.done));
        if self.journals() {
            self.ahead.copy(copied, self.disk.mark());
        }
        Ok(true)
    }

    /// A flush for what was copied, when there is enough of it or a caller waits: unless another victim
    /// can still join. At once if there is no slot for another.
    fn flush_copied(&mut self, pressed: bool) -> Result<bool, FsError> {
        let Some(mark) = self.ahead.copies() else { return Ok(false) };
        let soon = self.ahead.arrives().is_some_and(|at| at <= self.disk.clock() + JOIN);
        let room = self.ahead.has_room() && self.segs.free() > self.dirty_segments() + 2;
        let wanted = pressed && !(soon && room);
        if !wanted && self.has_slot() && self.ahead.copied() < self.options.ahead as usize {
            return Ok(false);
        }
        Ok(!self.disk.is_durable(mark) && self.disk.flush_behind(mark)?)
    }

    /// Begins to read another victim, if more free segments are wanted than are coming.
    fn read_more(&mut self, need: Need) -> Result<bool, FsError> {
        let pressed = need == Need::Room;
        let under_way = self.ahead.under_way();
        let prefree = if self.journals() { 0 } else { self.segs.prefree() };
        let enough = self.segs.free() + under_way + prefree > self.least_free();
        // A victim that is read takes room before it gives some.
        let room = self.segs.free() > self.dirty_segments() + 3 + self.ahead.reading();
        let most = self.options.depth as usize;
        if enough && !pressed || !room || self.ahead.reading() >= most || need == Need::Settled {
            return Ok(false);
        }
        if !self.has_slot() {
            if under_way == 0 {
                // Nothing on its way frees a slot: a checkpoint voids them all.
                self.ask_checkpoint(Trigger::JournalFull)?;
            }
            return Ok(false);
        }
        let Some(victim) = choose(&self.segs, self.options.victim) else { return Ok(false) };
        // Cheaper ones will come by while nobody is in need.
        let needed = u32::from(self.segs.of(victim).needed);
        if !pressed && needed * 8 > self.layout.per_seg * 7 {
            return Ok(false);
        }
        self.read_victim(victim, false)?;
        Ok(true)
    }

    /// Whether another victim's record has a place beside those of all that are on their way.
    fn has_slot(&self) -> bool {
        !self.journals() || self.journal.left() as usize > self.ahead.under_way()
    }

    fn read_victim(&mut self, victim: SegNo, first: bool) -> Result<(), FsError> {
        let (contents, until) = match self.fetch_contents(victim) {
            Ok((contents, until)) => (Some(contents), until),
            Err(FsError::Again) => (None, self.disk.clock()),
            Err(error) => return Err(error),
        };
        let ticket = self.ahead.ticket();
        self.segs.set_ticket(victim, ticket);
        self.ahead.read(Reading { victim, ticket, contents, until }, first);
        Ok(())
    }

    /// Begins to clean up to so many victims that `choose` names; how many.
    pub(super) fn read_some(
        &mut self,
        most: u32,
        choose: impl Fn(&Fs<D>) -> Option<SegNo>,
    ) -> Result<u32, FsError> {
        let before = self.disk.set_aside(For::Cleaning);
        let begun = self.read_some_now(most, choose);
        self.disk.go_on(before);
        self.poll_cleaning()?;
        begun
    }

    fn read_some_now(
        &mut self,
        most: u32,
        choose: impl Fn(&Fs<D>) -> Option<SegNo>,
    ) -> Result<u32, FsError> {
        let mut begun = 0;
        while begun < most
            && self.ahead.reading() < self.options.depth as usize
            && self.has_slot()
            && self.segs.free() > self.floor_free() + self.ahead.reading()
            && let Some(victim) = choose(self)
        {
            self.read_victim(victim, false)?;
            begun += 1;
        }
        Ok(begun)
    }

    fn fetch_contents(&mut self, victim: SegNo) -> Result<(Contents, Time), FsError> {
        let (summary, there) = self.fetch_summary(victim)?;
        let addrs = self.wanted_blocks(victim, &summary);
        let bytes = addrs.len() * BLOCK_BYTES;
        let mut blocks = self.cleaner.buffer(bytes);
        match self.disk.fetch_all(&addrs, &mut blocks[..bytes]) {
            Ok(until) => Ok((Contents { summary, addrs, blocks }, until.max(there))),
            Err(error) => {
                self.cleaner.give_back(blocks);
                Err(error)
            }
        }
    }

    /// What somebody else read of victims.
    fn fill_read(&mut self) -> Result<bool, FsError> {
        let mut filled = false;
        let mut gather = Gather::default();
        for (at, victim) in self.ahead.unread() {
            let found = self.fetch_contents(victim);
            if let Some((contents, until)) = gather.note(found)? {
                self.ahead.fill(at, contents, until);
                filled = true;
            }
        }
        self.ahead.block(gather.end().is_err());
        Ok(filled)
    }

    /// Copies a victim now; its record has its place among those of the others. No: there is no room.
    pub(super) fn clean_in_queue(&mut self, victim: SegNo) -> Result<bool, FsError> {
        while !self.has_slot() {
            if !self.move_on(Need::Settled).map_err(of_summaries)? {
                self.checkpoint(Trigger::JournalFull)?;
                break;
            }
        }
        // It may have gone its way meanwhile, or be without anything to copy.
        if !self.has_slot() || self.segs.rule().cost(self.segs.of(victim)).is_none() {
            return Ok(false);
        }
        self.read_victim(victim, true)?;
        let before = self.cleaner.counts().segments;
        while self.cleaner.counts().segments == before {
            if !self.move_on(Need::Settled).map_err(of_summaries)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until what was copied is free.
    pub(super) fn finish_ahead(&mut self) -> Result<(), FsError> {
        while !self.ahead.is_settled() && self.move_on(Need::Settled).map_err(of_summaries)? {}
        Ok(())
    }

    /// A checkpoint is durable: what was copied is free with it.
    pub(super) fn let_go_all(&mut self) {
        let mut victims = self.ahead.take_recorded();
        victims.extend(self.ahead.take_copied().into_iter().map(|copied| copied.victim));
        victims.into_iter().for_each(|victim| self.let_one_go(victim));
    }
}
