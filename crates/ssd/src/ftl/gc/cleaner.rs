//! The cleaner: the victim being collected, the policy that chooses it, and what is counted.
//!
//! | what | promise |
//! | --- | --- |
//! | victim | one at a time; none means that nothing read of it waits to be copied |
//! | debt | copies owed, in units of (line slots - valid of the victim); may be in advance (< 0) |
//! | read | pages of the victim that were read and not yet copied, in the order of reading |
//! | counters | since they were reset last; they decide nothing |

use std::collections::VecDeque;

use block::{Ppn, Rng, Span, Time};

use crate::config::Params;
use crate::ftl::lines::LineTable;
use crate::ftl::victim::{Choice, Victim};
use crate::stats::GcStats;

/// How far the victim has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub line: u32,
    pub page: u32,
    pub member: u32,
    /// Valid slots when it was chosen.
    pub valid: u32,
    /// It is moved for wear.
    pub wear: bool,
}

/// See above.
#[derive(Debug)]
pub(in crate::ftl) struct Cleaner {
    policy: Box<dyn Victim>,
    rng: Rng,
    /// Whether policies look at all lines.
    exact: bool,
    victim: Option<Cursor>,
    debt: i64,
    active: bool,
    /// Erases since the drive was new: every so many a static wear-levelling move is due.
    erases: u64,
    move_cold: bool,
    /// Pages next to be copied whose map entries are known to be in the processor's cache.
    touched: u32,
    read: VecDeque<(Ppn, Time)>,
    stats: GcStats,
    /// Slots of translation pages that were moved: among `stats.pages`, but programmed as `map`.
    moved_map_slots: u64,
    /// Free lines seen whenever a line was opened: their sum, and how often.
    free: (u128, u64),
}

impl Clone for Cleaner {
    fn clone(&self) -> Cleaner {
        Cleaner {
            policy: self.policy.boxed(),
            rng: self.rng.clone(),
            read: self.read.clone(),
            ..*self
        }
    }
}

impl Cleaner {
    pub fn new(p: &Params, lines: u32) -> Cleaner {
        Cleaner {
            policy: p.gc.victim.build(),
            rng: Rng::stream(p.seed, "ssd/victim"),
            exact: p.gc.exact.unwrap_or(lines < 4096),
            victim: None,
            debt: 0,
            active: false,
            erases: 0,
            move_cold: false,
            touched: 0,
            read: VecDeque::new(),
            stats: GcStats::default(),
            moved_map_slots: 0,
            free: (0, 0),
        }
    }

    /// Whether cleaning goes on beside the host.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.active
    }
    pub(super) fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    /// The policy's choice among the closed lines, which it may refuse.
    pub(super) fn choose(&mut self, lines: &mut LineTable, now: u64) -> Option<u32> {
        self.policy.choose(Choice { lines, now, rng: &mut self.rng, exact: self.exact })
    }
    /// Whether the policy takes lines in turn.
    pub(super) fn in_turn(&self) -> bool {
        self.policy.in_turn()
    }

    /// The victim being collected.
    #[inline]
    pub(super) fn victim(&self) -> Option<Cursor> {
        self.victim
    }
    /// A line with so many valid slots becomes the victim.
    pub(super) fn take(&mut self, line: u32, valid: u32, wear: bool) {
        self.stats.victims += 1;
        self.stats.valid_at_choice += u64::from(valid);
        self.touched = 0;
        self.victim = Some(Cursor { line, page: 0, member: 0, valid, wear });
    }
    /// The victim has been read as far as this.
    pub(super) fn advance(&mut self, cursor: Cursor) {
        self.victim = Some(cursor);
    }
    /// The victim is collected.
    pub(super) fn done(&mut self) {
        debug_assert!(self.read.is_empty(), "what was read is copied first");
        self.victim = None;
    }

    /// A host slot owes so many copies; what is owed now.
    pub(super) fn owe(&mut self, copies: u32) -> i64 {
        self.debt += i64::from(copies);
        self.debt
    }
    /// So much was paid; what is owed still.
    pub(super) fn pay(&mut self, paid: i64) -> i64 {
        self.debt -= paid;
        self.debt
    }
    /// Nothing is owed any more.
    pub(super) fn forgive(&mut self) {
        self.debt = 0;
    }

    /// Pages that wait to be copied.
    pub(super) fn reads(&self) -> usize {
        self.read.len()
    }
    /// A page of the victim was read, and is there at `ready`.
    pub(super) fn has_read(&mut self, first: Ppn, ready: Time) {
        self.read.push_back((first, ready));
    }
    /// The first of the pages that wait to be copied, and the following ones.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.read.iter().map(|(first, _)| *first)
    }
    /// Whether map entries of the next page are to be touched first.
    pub(super) fn is_untouched(&self) -> bool {
        self.touched == 0
    }
    /// Map entries of so many pages were touched.
    pub(super) fn touch(&mut self, pages: usize) {
        self.touched = pages as u32;
    }
    /// The page to copy next.
    pub(super) fn next_read(&mut self) -> Option<(Ppn, Time)> {
        let next = self.read.pop_front()?;
        self.touched -= 1;
        Some(next)
    }
    /// The page taken last could not be copied: it is still the next.
    pub(super) fn unread(&mut self, first: Ppn, ready: Time) {
        self.read.push_front((first, ready));
        self.touched += 1;
    }

    /// A line was erased: static wear levelling may be due.
    pub(in crate::ftl) fn count_erase(&mut self, p: &Params) {
        self.erases += 1;
        if p.wear.static_moves && self.erases.is_multiple_of(p.wear.period) {
            self.move_cold = true;
        }
    }
    /// Whether a cold line is to be moved; asked once.
    pub(super) fn wants_cold(&mut self) -> bool {
        std::mem::take(&mut self.move_cold)
    }

    /// A victim was collected before the host's eyes, or while it was idle.
    pub(super) fn collected(&mut self, foreground: bool) {
        let count =
            if foreground { &mut self.stats.foreground } else { &mut self.stats.background };
        *count += 1;
    }
    /// A slot is copied.
    #[inline]
    pub(super) fn copied(&mut self, wear: bool) {
        self.stats.pages += 1;
        self.stats.wl_pages += u64::from(wear);
    }
    /// Slots copied because a lock kept a better victim back.
    pub(in crate::ftl) fn copied_for_locks(&mut self, slots: u32) {
        self.stats.lock_pages += u64::from(slots);
    }
    /// A translation page of so many slots was moved.
    pub(in crate::ftl) fn moved_map(&mut self, slots: u32) {
        self.stats.pages += u64::from(slots);
        self.moved_map_slots += u64::from(slots);
    }
    /// Host writes stood still so long.
    pub(super) fn stalled(&mut self, span: Span) {
        self.stats.stall += span;
    }
    /// A line was opened while so many were free.
    pub(in crate::ftl) fn saw_free(&mut self, lines: u32) {
        self.free.0 += u128::from(lines);
        self.free.1 += 1;
    }
    /// Slots of free lines of `line` slots each, in the mean; `None` if none was opened yet.
    pub(in crate::ftl) fn mean_free_slots(&self, line: u128) -> Option<u128> {
        (self.free.1 > 0).then(|| self.free.0 * line / u128::from(self.free.1))
    }
    /// What was counted.
    pub(in crate::ftl) fn stats(&self) -> GcStats {
        self.stats
    }
    /// Data slots copied since the counters were reset (copies that were being assembled then are
    /// not among them).
    pub(in crate::ftl) fn copies_ordered(&self) -> u64 {
        self.stats.pages - self.moved_map_slots
    }
    /// Counts from 0 again.
    pub(in crate::ftl) fn reset_stats(&mut self) {
        self.stats = GcStats::default();
        self.moved_map_slots = 0;
        self.free = (0, 0);
    }
}
