//! What is booked on a die: when its array and its registers are free, and, where reads may move what
//! is booked, the queue of its programs and erases.
//!
//! Invariants: the queue is in the order of bookings, and what it holds does not overlap; what ended
//! before the request being served may be missing; numbers follow each other.

use std::collections::VecDeque;

use block::{BlockId, Span, Time};

use crate::busy::Busy;
use crate::{Mark, Timing};

/// A program or an erase in the queue of its die.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// Its number on the die.
    pub number: u64,
    /// Its number among those of all dies.
    pub overall: u64,
    /// When the die begins to be busy with it.
    pub begin: Time,
    /// When the cells begin to change.
    pub start: Time,
    pub end: Time,
    pub erase: bool,
    pub suspended: u8,
    /// Where reads go first and interrupt it: from when to when the die is theirs.
    pub held: Option<(Time, Time)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Die {
    pub free_from: Time,
    pub register: Vec<Time>,
    pub queue: VecDeque<Queued>,
    /// Ends up to here have been told to somebody: they cannot move any more.
    pub told_until: Time,
    pub next_number: u64,
    pub busy: Span,
    /// When it was, where operations overlap.
    pub when: Busy,
    /// Where reads go first: what they left.
    pub reads: Reads,
}

impl Queued {
    /// It begins, and ends, later by `delay`.
    pub fn delay(&mut self, delay: Span) {
        self.begin += delay;
        self.start += delay;
        self.end += delay;
    }
}

/// What reads that go first must know of a die.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// When the last read has left the register of each plane.
    pub sent: Vec<Time>,
    /// When the last read has left the array.
    pub sensed: Time,
    /// The end of the last program or erase that a read was put behind.
    pub behind: Time,
    /// Pages that programs of the queue hold, block and page in one number: every read looks for its
    /// own among them.
    pub pages: VecDeque<u64>,
    /// The number of each one's program.
    pub programs: VecDeque<u64>,
}

impl Reads {
    fn page((block, page): (BlockId, u32)) -> u64 {
        u64::from(block.0) << 32 | u64::from(page)
    }
    /// Program `number` of the queue holds a page.
    pub fn hold(&mut self, number: u64, page: (BlockId, u32)) {
        self.pages.push_back(Reads::page(page));
        self.programs.push_back(number);
    }
    /// The number of the last program of the queue that holds one of `pages`.
    pub fn holder(&self, pages: &[(BlockId, u32)]) -> Option<u64> {
        let of = |page: &(BlockId, u32)| {
            let page = Reads::page(*page);
            let (old, new) = self.pages.as_slices();
            let in_new = new.iter().rposition(|other| *other == page).map(|at| old.len() + at);
            in_new.or_else(|| old.iter().rposition(|other| *other == page))
        };
        pages.iter().filter_map(of).max().map(|at| self.programs[at])
    }
}

impl Die {
    /// Counts an operation. Only cached operations and planes that read on their own overlap with
    /// others of the die; it is no busier for that.
    pub fn count(&mut self, t: &Timing, now: Time, start: Time, end: Time) {
        self.busy += match t.cache_ops || t.independent_planes {
            true => self.when.add(now, start, end),
            false => end - start,
        };
    }
    /// Forgets what has ended: nothing can move it.
    pub fn forget(&mut self, now: Time) {
        while self.queue.front().is_some_and(|first| first.end <= now) {
            self.queue.pop_front();
        }
        let first = self.queue.front().map_or(u64::MAX, |op| op.number);
        while self.reads.programs.front().is_some_and(|number| *number < first) {
            self.reads.programs.pop_front();
            self.reads.pages.pop_front();
        }
    }
    /// The end of the last operation of `mark` in the queue.
    pub fn last_of(&self, mark: Mark) -> Option<Time> {
        let after = self.queue.partition_point(|op| op.overall <= mark.to);
        let last = &self.queue[after.checked_sub(1)?];
        (last.overall > mark.from).then_some(last.end)
    }
    /// When the array and every register are free: planes that read on their own may outlast the
    /// array's last common operation.
    pub fn idle_from(&self) -> Time {
        self.register.iter().copied().fold(self.free_from, Time::max)
    }
    /// When programs and erases, which every plane takes part in, leave the die to reads.
    pub fn queue_floor(&self) -> Time {
        self.free_from
    }
}

/// Where in a queue the operation of a number is: numbers follow each other.
pub(crate) fn position(queue: &VecDeque<Queued>, number: u64) -> Option<usize> {
    let first = queue.front()?.number;
    usize::try_from(number.checked_sub(first)?).ok().filter(|at| *at < queue.len())
}
