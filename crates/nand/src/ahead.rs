//! Reads that go first ([`crate::Order::ReadFirst`]).
//!
//! A read waits for reads of its die that were booked before it, and for the operation that is
//! under way when its turn comes, unless it may interrupt that one. It does not wait for programs
//! and erases that were booked and have not begun: they move behind it, by as much as it needs and
//! no more; idle time between them takes some of it up.
//!
//! What it cannot overtake:
//! * what has begun: the first byte of a program is on the bus, or the cells are being erased;
//! * an end that somebody was told, and all that its die does before it: an acknowledged write, a
//!   flush, an erase that another program waits for. Whoever waits for an end is told it at once,
//!   so with a buffer that writes through a read overtakes hardly anything of the host's;
//! * a program of the page that it reads, and what comes before that.
//!
//! Reads go in order among themselves, of whatever cause: those that copy are reads too. Of two
//! that come at the same moment the one that was submitted first is first.

use block::{BlockId, Span, Time};

use crate::die::{Die, position};
use crate::sched::{Bookings, Sched, command};
use crate::shift::Shift;
use crate::{Suspend, Timing};

/// Where a read goes in the queue of its die.
#[derive(Clone, Copy)]
struct Place {
    /// When the die is its own.
    from: Time,
    /// The first operation of the queue that is not over then.
    next: usize,
    /// That one is under way, and makes room.
    interrupts: bool,
    /// It stands still already.
    held: bool,
}

impl Sched {
    /// As [`Sched::read`].
    #[expect(clippy::too_many_arguments, reason = "an operation, its place and its time")]
    pub(crate) fn read_ahead(
        &mut self,
        t: &Timing,
        now: Time,
        at: Time,
        die: u32,
        plane: u32,
        pages: &[(BlockId, u32)],
        pieces: &[u32],
        sense: Span,
    ) -> Bookings {
        let channel = (die / self.dies_per_channel) as usize;
        let last = (plane as usize + pieces.len()).min(self.planes_per_die as usize);
        let planes = plane as usize..last;
        let independent = t.independent_planes && pieces.len() == 1;
        let (bus, cell) = (&mut self.buses[channel], &mut self.dies[die as usize]);
        cell.forget(now);
        let reads = match (independent, t.cache_ops) {
            (true, _) => cell.reads.sent[plane as usize],
            (false, true) => cell.reads.sensed,
            (false, false) => cell.reads.sent.iter().copied().fold(Time::ZERO, Time::max),
        };
        let fixed = cell.told_until.max(cell.reads.behind).max(cell.programmed(pages));
        let place = cell.place(&t.suspend, at, at.max(reads).max(fixed));
        let fresh = place.interrupts && !place.held;
        let from = if fresh { place.from + t.suspend.to_suspend } else { place.from };
        let start = command(bus, t.cmd, now, from);
        let mut sensed = start + sense;
        if t.cache_ops && !place.interrupts {
            sensed = sensed.max(cell.reads.sent[plane as usize]) + t.t_rcbsy;
        }
        let mut end = sensed;
        for n in pieces {
            end = bus.book(now, end, t.transfer[*n as usize]).1;
        }
        self.suspends += u64::from(fresh);
        let cell = &mut self.dies[die as usize];
        let shift = cell.make_way(die, place, from, end, t.suspend.to_resume);
        if let Some(shift) = &shift {
            cell.when.open(shift);
            self.moved += shift.last();
        }
        cell.count(t, now, start, end);
        if let Some(before) = place.next.checked_sub(1) {
            cell.reads.behind = cell.reads.behind.max(cell.queue[before].end);
        }
        let array = if t.cache_ops && !place.interrupts { sensed } else { end };
        cell.reads.sensed = cell.reads.sensed.max(array);
        cell.reads.sent[planes].fill(end);
        cell.follow(t, shift.as_ref(), end, independent);
        self.shifted = shift;
        Bookings { ready: place.from, begin: start, start, end }
    }
}

impl Die {
    /// When the programs of pages that are in the queue have ended.
    fn programmed(&self, pages: &[(BlockId, u32)]) -> Time {
        let holder = self.reads.holder(pages);
        let at = holder.and_then(|number| position(&self.queue, number));
        at.map_or(Time::ZERO, |at| self.queue[at].end)
    }

    /// The place of a read that comes at `at` and has nothing in its way that it cannot overtake
    /// from `wish` on.
    fn place(&self, s: &Suspend, at: Time, wish: Time) -> Place {
        let next = self.queue.partition_point(|op| op.end <= wish);
        let free = Place { from: wish, next, interrupts: false, held: false };
        let Some(op) = self.queue.get(next) else { return free };
        // What begins at the very moment when a read comes has begun; what was to follow another
        // then has not.
        if op.begin > wish || op.begin == wish && wish > at {
            return free;
        }
        if let Some((from, until)) = op.held
            && wish <= until
            && at < until
        {
            return Place { from: wish.max(from), next, interrupts: true, held: true };
        }
        // One that goes on again does so before it can be interrupted again.
        let again = op.held.map_or(Time::ZERO, |(_, until)| until + s.to_resume);
        let from = wish.max(op.start).max(again);
        let may = if op.erase { s.erase } else { s.program };
        if may && op.end > from && op.end - from >= s.min_remaining && op.suspended < s.max_times {
            return Place { from, next, interrupts: true, held: false };
        }
        Place { from: op.end, next: next + 1, interrupts: false, held: false }
    }

    /// Moves what a read at `place` that ends at `end` goes ahead of. The die is its own from
    /// `from` on.
    fn make_way(
        &mut self,
        die: u32,
        place: Place,
        from: Time,
        end: Time,
        to_resume: Span,
    ) -> Option<Shift> {
        let held = place.held;
        let op = self.queue.get_mut(place.next)?;
        let (at, delay) = match op.held.filter(|_| held) {
            Some((_, until)) => (until, end.since(until)),
            None if place.interrupts => (place.from, (end + to_resume).since(place.from)),
            None => (op.begin, end.since(op.begin)),
        };
        if place.interrupts {
            let since = op.held.filter(|_| held).map_or(from, |(since, _)| since);
            op.held = Some((since, at.max(end)));
            op.suspended += u8::from(!held);
            op.end += delay;
        } else {
            op.delay(delay);
        }
        if delay == Span::ZERO {
            return None;
        }
        let mut shift = Shift::new(die, at, place.interrupts, delay);
        let (mut free, mut delay) = (op.end, delay);
        for op in self.queue.range_mut(place.next + 1..) {
            let needed = free.since(op.begin);
            if needed < delay {
                shift.less_from(op.begin, needed);
                delay = needed;
            }
            if delay == Span::ZERO {
                break;
            }
            op.delay(delay);
            free = op.end;
        }
        Some(shift)
    }

    /// What is booked from here on follows a read that ends at `end`, and what it moved.
    fn follow(&mut self, t: &Timing, shift: Option<&Shift>, end: Time, independent: bool) {
        let last = self.queue.back().map_or(Time::ZERO, |op| op.end);
        self.free_from = self.free_from.max(last);
        if !independent {
            self.free_from = self.free_from.max(self.reads.sensed);
        }
        let moved = shift.map_or(Span::ZERO, Shift::last);
        for register in &mut self.register {
            if moved > Span::ZERO {
                *register = if t.cache_ops { *register + moved } else { self.free_from };
            }
            *register = (*register).max(end);
        }
    }
}
