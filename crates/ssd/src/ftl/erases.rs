//! Which lines wait for their erase, and which free lines a booked erase has not emptied yet.
//!
//! | | |
//! | --- | --- |
//! | owns | the queue of waiting lines with what each waits for; the erases that are booked and had not ended when last looked at |
//! | invariants | lines wait in order of arrival, those that are not proven behind the others after power-on; a line is in at most one of the two lists, and in neither once a head has opened it |
//! | offers | the front of the queue, its stages, and the time of the first booked erase that ends |
//! | does not | decide what is safe, or erase |
//! | callers | `erase.rs` (stages and erases), `head.rs` (openings, room), recovery (lines found empty), cleaning and commits (whether anything waits) |

use std::collections::VecDeque;

use block::Time;
use nand::Mark;

/// A line that waits for its erase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub line: u32,
    /// Assemblies up to this one must be programmed.
    pub assembly: u64,
    /// A state record says what the line proves of commits.
    pub proven: bool,
    /// Power-on found it empty: it waits until it is needed.
    pub found: bool,
    /// The time all programs that were booked when it was set end by, and which they are.
    pub safe: Option<(Time, Mark)>,
}

/// A free line whose erase is booked: a power cut before its end can still find old data there.
#[derive(Clone, Copy, Debug)]
struct Emptying {
    line: u32,
    end: Time,
    mark: Mark,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Erases {
    waiting: VecDeque<Waiting>,
    emptying: Vec<Emptying>,
    /// Of those that wait, lines that power-on found empty.
    found: u32,
}

impl Erases {
    /// Whether no line waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// Lines that wait.
    pub fn len(&self) -> u32 {
        self.waiting.len() as u32
    }
    /// The line that has waited longest.
    pub fn front(&self) -> Option<Waiting> {
        self.waiting.front().copied()
    }
    /// A line waits until assemblies up to `assembly` are programmed.
    pub fn push(&mut self, line: u32, assembly: u64) {
        let entry = Waiting { line, assembly, proven: true, found: false, safe: None };
        self.waiting.push_back(entry);
    }
    /// Power-on found a line that holds nothing that counts.
    pub fn found(&mut self, line: u32) {
        self.push(line, 0);
        if let Some(entry) = self.waiting.back_mut() {
            entry.found = true;
            self.found += 1;
        }
    }
    /// A line waits again, with what is known of it now.
    pub fn push_again(&mut self, entry: Waiting) {
        self.waiting.push_back(entry);
    }
    /// The front line is safe to erase when these programs have ended.
    pub fn set_safe(&mut self, safe: (Time, Mark)) {
        if let Some(front) = self.waiting.front_mut() {
            front.safe = Some(safe);
        }
    }
    /// The front line is about to be erased.
    pub fn pop(&mut self) {
        let entry = self.waiting.pop_front();
        self.found -= u32::from(entry.is_some_and(|entry| entry.found));
    }
    /// Lines that wait since power-on, until they are needed.
    pub fn left_from_power_on(&self) -> u32 {
        self.found
    }
    /// Lines of which `proven` is false go behind the others, and wait for a state record.
    pub fn sort(&mut self, proven: impl Fn(u32) -> bool) {
        for entry in &mut self.waiting {
            entry.proven = proven(entry.line);
        }
        self.waiting.make_contiguous().sort_by_key(|entry| !entry.proven);
    }
    /// Takes out the lines that wait for a state record.
    pub fn take_unproven(&mut self) -> Vec<Waiting> {
        let unproven = self.waiting.iter().filter(|entry| !entry.proven).copied().collect();
        self.waiting.retain(|entry| entry.proven);
        unproven
    }

    /// The erases `mark` of a line, free from now on, are booked.
    pub fn booked(&mut self, line: u32, end: Time, mark: Mark) {
        self.emptying.push(Emptying { line, end, mark });
    }
    /// A free line has been opened.
    pub fn opened(&mut self, line: u32) {
        self.emptying.retain(|e| e.line != line);
    }
    /// Whether a booked erase had not ended when last looked at.
    #[inline(always)]
    pub fn any_booked(&self) -> bool {
        !self.emptying.is_empty()
    }
    /// When the first line's booked erases end, and which they are, if no one of `free` lines is
    /// empty at `now`. `ended_by` says when those of a mark end.
    pub fn first_end(
        &mut self,
        now: Time,
        free: u32,
        ended_by: impl Fn(Mark, Time) -> Time,
    ) -> Option<(Time, Mark)> {
        self.emptying.retain(|e| ended_by(e.mark, e.end) > now);
        if free as usize > self.emptying.len() {
            return None;
        }
        let ends = self.emptying.iter().map(|e| (ended_by(e.mark, e.end), e.mark));
        Some(ends.min_by_key(|(end, _)| *end).unwrap_or_default())
    }
}
