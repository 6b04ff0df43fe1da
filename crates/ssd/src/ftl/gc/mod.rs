//! Garbage collection: one victim at a time, copied slot by slot as fast as the policy of pace
//! says, then queued for its erase.

mod cleaner;
mod copy;

pub(super) use cleaner::Cleaner;

use block::{BlockId, DeviceError, Ppn};
use nand::{Cause, ReadCause};

use super::PageFtl;
use super::lifetime::HOT;
use super::lines::{Line, LineState, NONE};
use crate::config::{Params, Streams};
use cleaner::Cursor;

/// Draws of a victim before the emptiest line is taken instead.
const REDRAWS: u32 = 32;

/// The free-line thresholds of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub start: u32,
    pub stop: u32,
    pub reserve: u32,
}

impl Thresholds {
    pub fn of(p: &Params) -> Thresholds {
        let reserve = super::gc_reserve(p);
        // Between the start and the reserve the pace of cleaning works: at least two lines.
        let start = match p.gc.start {
            0 => (2 + super::head_count(p)).max(reserve + 1),
            n => n.max(reserve + 1),
        };
        Thresholds { start, stop: p.gc.stop.max(start + 1), reserve }
    }
}

impl PageFtl {
    pub(super) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Lines that are free or will be once their erases are booked.
    fn free_soon(&self) -> u32 {
        self.free.count() + self.erases.len()
    }

    /// Sees to it that the slot about to be written has room: starts and stops cleaning, and
    /// cleans whole victims while only the reserve is left.
    pub(super) fn make_room(&mut self) -> Result<(), DeviceError> {
        let limits = self.thresholds;
        let free = self.free_soon();
        if free >= limits.start && !self.cleaner.is_active() {
            return Ok(());
        }
        let active = self.cleaner.is_active() || free < limits.start;
        self.cleaner.set_active(active && free < limits.stop);
        // Where lines gain hardly more than the padding their erases cost, each line is collected
        // once and the host goes on with what that gave.
        let mut victims = self.lines.len();
        if self.cleaner.is_active() && !self.p.gc.credit {
            while self.free_soon() < limits.stop && victims > 0 {
                victims -= 1;
                if !self.collect_whole(true)? {
                    break;
                }
            }
            self.cleaner.set_active(false);
        }
        let before = self.nand.programs_end();
        let mut stalled = false;
        let mut victims = 4 * self.lines.len();
        while self.free.count() < limits.reserve {
            stalled = true;
            if !self.erases.is_empty() {
                self.force_erase()?;
                continue;
            }
            victims = victims.saturating_sub(1);
            if victims == 0 || !self.collect_whole(true)? {
                if self.trims.can_merge() {
                    // What many records say fits into few.
                    self.merge_trims();
                    victims = 4 * self.lines.len();
                    continue;
                }
                if self.can_merge_remaps() {
                    self.merge_remaps()?;
                    victims = 4 * self.lines.len();
                    continue;
                }
                if self.free.count() > 0 && self.free.count() + 1 >= limits.reserve {
                    break;
                }
                return Err(DeviceError::NoSpace("no line gains space by cleaning"));
            }
        }
        if stalled {
            let after = self.nand.programs_end();
            self.cleaner.stalled(after.since(before.max(self.now)));
        }
        Ok(())
    }

    /// After a host slot: copies what it owes of the current victim.
    pub(super) fn pay_debt(&mut self) -> Result<(), DeviceError> {
        if !self.cleaner.is_active() || !self.p.gc.credit {
            return Ok(());
        }
        if self.cleaner.victim().is_none() && !self.choose(false)? {
            return Ok(());
        }
        let Some(cursor) = self.cleaner.victim() else { return Ok(()) };
        let gain =
            i64::from(self.lines.full_slots() - cursor.valid.min(self.lines.full_slots() - 1));
        let mut debt = self.cleaner.owe(cursor.valid);
        while debt >= gain {
            let copied = self.step()?;
            if self.cleaner.victim().is_none() {
                self.cleaner.collected(true);
                self.cleaner.forgive();
                break;
            }
            debt = self.cleaner.pay(gain * i64::from(copied));
        }
        // A victim without valid slots owes nothing, one without invalid ones owes all that it
        // has: either is done at once.
        let even = cursor.valid == 0 || cursor.valid >= self.lines.full_slots();
        if even && self.cleaner.victim().is_some() {
            self.finish_current()?;
            self.cleaner.collected(true);
        }
        Ok(())
    }

    /// Data slots that cleaning has copied: see [`Cleaner::copies_ordered`].
    pub fn copies_ordered(&self) -> u64 {
        self.cleaner.copies_ordered()
    }
    /// Copies that have a place but are not yet programmed.
    pub fn copies_assembled(&self) -> u64 {
        self.heads.assembled().filter(|slot| slot.cause == Cause::Gc).count() as u64
    }

    /// Cleaning while the host is idle until `until`: one page at a time.
    pub fn clean_idle(&mut self, until: block::Time) -> Result<(), DeviceError> {
        if !self.p.gc.background {
            return Ok(());
        }
        let lines = u64::from(self.lines.len());
        let wanted = (lines * self.p.gc.bg_start_ppm / 1_000_000) as u32;
        let mut at = self.now + self.p.gc.idle;
        while at < until && self.free_soon() < wanted {
            self.set_now(at)?;
            if self.cleaner.victim().is_none() && !self.choose(false)? {
                break;
            }
            self.step()?;
            if self.cleaner.victim().is_none() {
                self.cleaner.collected(false);
            }
            // The next page is read when the last copy's read and program have been booked.
            at = at.max(self.nand.sched().busiest()).max(at + block::Span::from_ns(1));
        }
        Ok(())
    }

    /// Collects one victim from start to end; false if there is none worth it.
    pub(super) fn collect_whole(&mut self, foreground: bool) -> Result<bool, DeviceError> {
        // By credit, what is collected whole is what was left too long. In bursts all is: there lines that gain nothing are
        // moved, too, while no line of the reserve is gone.
        let urgent = self.p.gc.credit || self.free.count() < self.thresholds().reserve;
        if self.cleaner.victim().is_none() && !self.choose(urgent)? {
            return Ok(false);
        }
        self.finish_current()?;
        if foreground {
            self.cleaner.collected(true);
        }
        Ok(true)
    }

    fn finish_current(&mut self) -> Result<(), DeviceError> {
        while self.cleaner.victim().is_some() {
            self.step()?;
        }
        self.cleaner.forgive();
        Ok(())
    }

    /// Takes the next victim out of the closed lines. Lines with a failed block and cold lines
    /// due for wear levelling come first; a line without gain is refused, unless the policy takes
    /// lines in turn.
    fn choose(&mut self, urgent: bool) -> Result<bool, DeviceError> {
        let forced = self.forced_victim(urgent);
        let line = match forced {
            Some((line, _)) => Some(line),
            None => self.cleaner.choose(&mut self.lines, self.clock.slots()),
        };
        let Some(mut line) = line else { return Ok(false) };
        if forced.is_none() && !self.gains(line) {
            match self.instead_of(line) {
                Some(other) => line = other,
                None => return Ok(false),
            }
        }
        if self.tx.is_some() && forced.is_none() {
            match self.unlocked_victim(line) {
                Some(other) => line = other,
                None => return Ok(false),
            }
        }
        self.take_victim(line, forced.is_some_and(|(_, wear)| wear));
        Ok(true)
    }

    /// Whether collecting a line gives space.
    fn gains(&self, line: u32) -> bool {
        self.lines.get(line).valid < self.lines.capacity(line).max(1)
    }

    /// What is collected when the policy's choice gains nothing: `None` if no line does.
    fn instead_of(&mut self, choice: u32) -> Option<u32> {
        let emptiest = self.lines.emptiest(true).filter(|line| self.gains(*line));
        // Lines with dead members are full at fewer slots: the emptiest may be one of them.
        let any = emptiest.or_else(|| {
            let hurt = self.spares.bad() > 0;
            let mut closed = self.lines.closed().iter().copied();
            hurt.then(|| closed.find(|line| self.gains(*line))).flatten()
        })?;
        // A policy of turns copies the full line, which goes to the end of the order: some line
        // gains, so its turn comes. Only where padding has eaten into the reserve (lines that
        // gain less than their erases cost) may the order not cost the last line to clean into.
        if self.cleaner.in_turn() && self.free_soon() + 1 >= self.thresholds().reserve {
            return Some(choice);
        }
        // A policy that draws may draw again: to take the emptiest at once would make random
        // choice partly greedy (WAF 14 % low at 7 % spare).
        for _ in 0..REDRAWS {
            if let Some(line) = self.cleaner.choose(&mut self.lines, self.clock.slots())
                && self.gains(line)
            {
                return Some(line);
            }
        }
        Some(any)
    }

    fn take_victim(&mut self, line: u32, wear: bool) {
        let Line { valid, head, opened, .. } = *self.lines.get(line);
        if self.p.streams == Streams::Lifetime && head == HOT {
            self.lifetime.lasted(self.clock.seq().saturating_sub(opened));
        }
        self.lines.take(line, LineState::Victim);
        if let Some(trail) = self.nand.trail_mut() {
            trail.collects(line, valid);
        }
        self.cleaner.take(line, valid, wear);
    }

    /// Collects a closed line, whatever the policy says.
    pub(super) fn collect_line(&mut self, line: u32) -> Result<(), DeviceError> {
        self.finish_current()?;
        if self.lines.get(line).state == LineState::Closed {
            self.take_victim(line, false);
            self.finish_current()?;
        }
        Ok(())
    }

    /// A line that must be moved whatever the policy says, and whether for wear.
    fn forced_victim(&mut self, urgent: bool) -> Option<(u32, bool)> {
        if !urgent && let Some(line) = self.lines.first_hurt() {
            return Some((line, false));
        }
        if urgent || !self.cleaner.wants_cold() {
            return None;
        }
        let erases = |line: u32| self.line_erases(line);
        let coldest = self.lines.closed().iter().copied().min_by_key(|l| (erases(*l), *l))?;
        let most = (0..self.lines.len()).map(erases).max()?;
        (most - erases(coldest) > self.p.wear.delta).then_some((coldest, true))
    }

    /// One step of the victim: reads its next page that holds anything, or, once enough pages
    /// have been read ahead, copies what is still valid of the oldest; returns how many slots.
    /// The victim is done, and queued for its erase, when no page is left.
    ///
    /// Reading ahead keeps the dies busy: a program booked before its data is there would hold
    /// its die until the read ends.
    fn step(&mut self) -> Result<u32, DeviceError> {
        let Some(mut cursor) = self.cleaner.victim() else { return Ok(0) };
        if self.cleaner.reads() < self.read_ahead()
            && let Some((block, page, valid)) = self.next_page(&mut cursor)
        {
            self.cleaner.advance(cursor);
            let pieces = [valid * (self.g.slot_bytes / 4096)];
            let ready = self
                .nand
                .read(self.now, &[(block, page)], &pieces, valid, ReadCause::Gc)
                .map_err(PageFtl::power)?;
            self.cleaner.has_read(self.g.ppn(block, page), ready);
            return Ok(0);
        }
        if self.cleaner.is_untouched() {
            self.touch_ahead();
        }
        if let Some((first, ready)) = self.cleaner.next_read() {
            return self.copy_page(cursor, first, ready);
        }
        self.cleaner.done();
        debug_assert_eq!(self.lines.get(cursor.line).valid, 0, "line {} is not empty", cursor.line);
        self.write_moved_map()?;
        self.queue_erase(cursor.line)?;
        Ok(0)
    }

    /// Pages of the victim read before the first of them is copied.
    fn read_ahead(&self) -> usize {
        (4 * self.g.planes() as usize).clamp(8, 256)
    }

    /// The victim's next page that holds valid slots, and how many.
    fn next_page(&self, cursor: &mut Cursor) -> Option<(BlockId, u32, u32)> {
        let members = self.lines.members(cursor.line);
        let spp = self.g.slots_per_page;
        while cursor.page < self.g.pages_per_block && self.lines.get(cursor.line).valid > 0 {
            let member = members[cursor.member as usize];
            let page = cursor.page;
            cursor.member += 1;
            if cursor.member as usize == members.len() {
                cursor.member = 0;
                cursor.page += 1;
            }
            if member == NONE {
                continue;
            }
            let first = self.g.ppn(BlockId(member), page);
            let valid = (0..spp).filter(|s| self.is_valid(Ppn(first.0 + s))).count() as u32;
            if valid > 0 {
                return Some((BlockId(member), page, valid));
            }
        }
        None
    }

    /// Loads the map entries of the pages that are copied next together: the misses overlap,
    /// where copying slot by slot would wait for each of them in turn.
    fn touch_ahead(&mut self) {
        const AHEAD: usize = 24;
        let (spp, mut sum) = (self.g.slots_per_page, 0u32);
        for first in self.cleaner.waiting().take(AHEAD) {
            for slot in (0..spp).map(|s| Ppn(first.0 + s)).filter(|s| self.is_valid(*s)) {
                sum ^= self.map.get(self.nand.lpn(slot)).unwrap_or(0);
            }
        }
        std::hint::black_box(sum);
        let pages = self.cleaner.reads().min(AHEAD);
        self.cleaner.touch(pages);
    }
}
