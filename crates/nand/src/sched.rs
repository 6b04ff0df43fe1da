//! Who uses which die and which bus when. Contention is reservation: every booking is made at
//! once and its end returned; there is no event queue.
//!
//! State of a die: `free_from` (its array), `register` (its page register, which is what a
//! cached operation may overlap) and, only where reads may move what is booked (suspension,
//! [`Order::ReadFirst`]), the queue of its programs and erases.
//!
//! Invariants:
//! * programs and erases of a die keep the order in which they were booked, and do not overlap;
//! * what a read moves is in the queue, and the read says so by a `Shift`; nothing else moves;
//! * an end that somebody was told (`tell`, a read's) never moves, nor what comes before it;
//! * time on a bus never moves: the data of a program that is moved was sent when it was booked.

use block::{BlockId, Span, Time};

use crate::die::{Die, Queued, Reads, position};
use crate::shift::Shift;
use crate::{Geometry, Order, Suspend, Timeline, Timing};

/// The start of the array's work and the end of the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bookings {
    /// When the die was free for it.
    pub ready: Time,
    /// When the die began to be busy with it.
    pub begin: Time,
    /// When the cells begin to change or to be sensed.
    pub start: Time,
    /// When the operation is done (reads: the last byte has left the bus).
    pub end: Time,
}

impl Bookings {
    /// Time stands still.
    fn nothing(at: Time) -> Bookings {
        Bookings { ready: at, begin: at, start: at, end: at }
    }
}

/// A claim on the end of a detached operation, which a read may still move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticket {
    /// The end as booked.
    pub end: Time,
    die: u32,
    number: u64,
}

/// Programs and erases of all dies that were booked between two moments, to ask later when they
/// have ended for certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// How far ends had moved when it was made.
    moved: Span,
}

/// The timelines of an array.
#[derive(Clone, Debug)]
pub struct Sched {
    pub(crate) buses: Vec<Timeline>,
    pub(crate) dies: Vec<Die>,
    pub(crate) dies_per_channel: u32,
    pub(crate) planes_per_die: u32,
    pub(crate) suspends: u64,
    /// Programs and erases that were ever in a queue.
    queued: u64,
    pub(crate) moved: Span,
    /// The last move not yet asked for.
    pub(crate) shifted: Option<Shift>,
}

impl Sched {
    /// Idle timelines for `geometry`, where dies serve in `order`.
    pub fn new(geometry: &Geometry, order: Order) -> Sched {
        // Reads that go first need the idle time before what is booked far ahead.
        let bus = match order {
            Order::InOrder => Timeline::default(),
            Order::ReadFirst => Timeline::ahead(),
        };
        let planes = vec![Time::ZERO; geometry.planes_per_die as usize];
        let reads = Reads { sent: planes.clone(), ..Reads::default() };
        let die = Die { register: planes, reads, ..Die::default() };
        Sched {
            buses: vec![bus; geometry.channels as usize],
            dies: vec![die; geometry.dies() as usize],
            dies_per_channel: geometry.dies_per_channel,
            planes_per_die: geometry.planes_per_die,
            suspends: 0,
            queued: 0,
            moved: Span::ZERO,
            shifted: None,
        }
    }

    /// Books a read of pages on one die: one sense time, then one transfer per plane in turn.
    /// `plane` is the first page's plane within its die; `pieces` are 4 KiB pieces to move for
    /// each page; `sense` is the longest of the pages' sense times. `pages` are the pages.
    #[expect(clippy::too_many_arguments, reason = "an operation, its place and its time")]
    #[inline(always)] // one caller, for each page that is read
    pub fn read(
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
        if !t.enabled {
            return Bookings::nothing(at);
        }
        if t.order == Order::ReadFirst {
            return self.read_ahead(t, now, at, die, plane, pages, pieces, sense);
        }
        let channel = (die / self.dies_per_channel) as usize;
        let suspended = if t.suspend.program || t.suspend.erase {
            self.try_suspend(&t.suspend, at, die)
        } else {
            None
        };
        let (bus, cell) = (&mut self.buses[channel], &mut self.dies[die as usize]);
        let independent = t.independent_planes && pieces.len() == 1;
        let array_free = match suspended {
            Some(start) => start,
            None if independent => cell.register[plane as usize].max(cell.queue_floor()),
            None => cell.free_from,
        };
        let ready = at.max(array_free);
        let start = command(bus, t.cmd, now, ready);
        let mut sensed = start + sense;
        if t.cache_ops && suspended.is_none() {
            // The sensed page waits in the array until the register has sent the last one. (An
            // interrupted operation has given up the register with the array.)
            sensed = sensed.max(cell.register[plane as usize]) + t.t_rcbsy;
        }
        let mut end = sensed;
        for n in pieces {
            let span = t.transfer[*n as usize];
            end = bus.book(now, end, span).1;
        }
        if let Some(resume_from) = suspended {
            // In time of the die's that nobody else has: what it interrupts is moved.
            cell.busy += end - start;
            let delay = (end - resume_from) + t.suspend.to_suspend + t.suspend.to_resume;
            self.shift(die, at, delay);
            return Bookings { ready: at, begin: start, start, end };
        }
        cell.count(t, now, start, end);
        let last = plane as usize + pieces.len();
        for register in &mut cell.register[plane as usize..last.min(self.planes_per_die as usize)] {
            *register = end;
        }
        if !independent {
            cell.free_from = cell.free_from.max(if t.cache_ops { sensed } else { end });
        }
        Bookings { ready, begin: start, start, end }
    }

    /// Books a program of `pages` pages on one die (planes and word-line pages programmed
    /// together): data-in one after another, then one array time.
    #[expect(clippy::too_many_arguments, reason = "an operation, its place and its time")]
    #[inline(always)] // one caller, for each page that is programmed
    pub fn program(
        &mut self,
        t: &Timing,
        now: Time,
        at: Time,
        die: u32,
        pages: u32,
        array: Span,
        told: bool,
    ) -> Bookings {
        if !t.enabled {
            return Bookings::nothing(at);
        }
        let channel = (die / self.dies_per_channel) as usize;
        let (bus, cell) = (&mut self.buses[channel], &mut self.dies[die as usize]);
        let data_in = t.cmd + t.transfer[t.transfer.len() - 1] + t.transfer_oob;
        let ready = if t.cache_ops { at.max(cell.register[0]) } else { at.max(cell.idle_from()) };
        let (mut loaded, array_free) = (ready, cell.free_from);
        let mut first = None;
        for _ in 0..pages {
            let (begin, done) = bus.book(now, loaded, data_in);
            first.get_or_insert(begin);
            loaded = done;
        }
        let begin = if t.cache_ops {
            let start = loaded.max(cell.free_from) + t.t_cbsy;
            cell.register.fill(start);
            start
        } else {
            first.unwrap_or(loaded)
        };
        let start = if t.cache_ops { begin } else { loaded };
        let end = start + array;
        cell.count(t, now, begin, end);
        cell.free_from = end;
        if !t.cache_ops {
            cell.register.fill(end);
        }
        self.enqueue(t, now, die, Queued { begin, start, end, ..Queued::default() }, told);
        // Data that comes in while the array works waits for the array, not for the bus.
        let ready = if t.cache_ops { ready.max(array_free.min(start)) } else { ready };
        Bookings { ready, begin, start, end }
    }

    /// Books an erase of a block of a die, which takes `array`.
    pub fn erase(
        &mut self,
        t: &Timing,
        now: Time,
        at: Time,
        die: u32,
        array: Span,
        told: bool,
    ) -> Bookings {
        if !t.enabled {
            return Bookings::nothing(at);
        }
        let channel = (die / self.dies_per_channel) as usize;
        let cell = &self.dies[die as usize];
        let at = at.max(cell.idle_from());
        let start = command(&mut self.buses[channel], t.cmd, now, at);
        let cell = &mut self.dies[die as usize];
        let end = start + array;
        cell.count(t, now, start, end);
        cell.free_from = end;
        cell.register.fill(end);
        self.enqueue(
            t,
            now,
            die,
            Queued { begin: start, start, end, erase: true, ..Queued::default() },
            told,
        );
        Bookings { ready: at, begin: start, start, end }
    }

    /// A claim on the operation booked last on `die`.
    pub fn ticket(&self, die: u32, end: Time) -> Ticket {
        Ticket { end, die, number: self.dies[die as usize].next_number }
    }

    /// When a ticket's operation ends as booked now; a later read may still move it.
    pub fn peek(&self, ticket: Ticket) -> Time {
        let queue = &self.dies[ticket.die as usize].queue;
        position(queue, ticket.number).map_or(ticket.end, |at| queue[at].end)
    }

    /// When a ticket's operation ends; from now on it cannot be moved.
    pub fn tell(&mut self, ticket: Ticket) -> Time {
        let cell = &mut self.dies[ticket.die as usize];
        match position(&cell.queue, ticket.number) {
            Some(at) => {
                let end = cell.queue[at].end;
                cell.told_until = cell.told_until.max(end);
                end
            }
            None => ticket.end,
        }
    }

    /// Pins every program in every queue, and what its die does before it; the latest end among
    /// them (zero if none). Erases booked behind them may still be moved.
    pub fn tell_programs(&mut self) -> Time {
        let mut last = Time::ZERO;
        for die in &mut self.dies {
            if let Some(op) = die.queue.iter().rfind(|op| !op.erase) {
                die.told_until = die.told_until.max(op.end);
                last = last.max(op.end);
            }
        }
        last
    }

    /// The end of the last booking of any die.
    pub fn busiest(&self) -> Time {
        self.dies.iter().map(|die| die.free_from).max().unwrap_or_default()
    }

    /// When nothing that is booked on a die or a bus goes on any more.
    pub fn booked_until(&self) -> Time {
        let buses = self.buses.iter().map(Timeline::free_from).max().unwrap_or_default();
        // A plane that reads on its own leaves the array free for the others.
        self.dies.iter().map(Die::idle_from).fold(buses, Time::max)
    }

    /// When a die's array is free.
    pub fn free_from(&self, die: u32) -> Time {
        self.dies[die as usize].free_from
    }

    /// How many programs and erases have been in a queue so far.
    pub fn queued(&self) -> u64 {
        self.queued
    }
    /// Those booked since there were `from`, up to now.
    pub fn mark(&self, from: u64) -> Mark {
        Mark { from, to: self.queued, moved: self.moved }
    }
    /// When all of `mark` have ended for certain, as booked now; `end` was the latest of their ends
    /// when it was made.
    pub fn ended_by(&self, t: &Timing, mark: Mark, end: Time) -> Time {
        if t.order == Order::InOrder {
            // No end moves by more than all suspensions together.
            return end + Span::from_ps(self.moved.as_ps() - mark.moved.as_ps());
        }
        self.dies.iter().filter_map(|die| die.last_of(mark)).fold(end, Time::max)
    }
    /// Somebody relies on the ends of `mark`: they do not move any more.
    pub fn rely(&mut self, mark: Mark) {
        for die in &mut self.dies {
            if let Some(end) = die.last_of(mark) {
                die.told_until = die.told_until.max(end);
            }
        }
    }
    /// The program booked last on `die` holds a page.
    pub(crate) fn holds(&mut self, die: u32, block: BlockId, page: u32) {
        let cell = &mut self.dies[die as usize];
        cell.reads.hold(cell.next_number, (block, page));
    }
    /// Whether the last read moved anything and nobody asked what.
    #[inline(always)]
    pub(crate) fn has_shifted(&self) -> bool {
        self.shifted.is_some()
    }
    /// The move made by the last read, if it made one and nobody asked before.
    pub(crate) fn take_shift(&mut self) -> Option<Shift> {
        self.shifted.take()
    }
    /// Restarts the busy times and counts; bookings stay.
    pub fn reset_stats(&mut self) {
        self.suspends = 0;
        for die in &mut self.dies {
            die.busy = Span::ZERO;
        }
        for bus in &mut self.buses {
            bus.reset_stats();
        }
    }
    /// Number of suspensions.
    pub fn suspends(&self) -> u64 {
        self.suspends
    }
    /// Busy time per channel bus.
    pub fn channel_busy(&self) -> Vec<Span> {
        self.buses.iter().map(Timeline::busy).collect()
    }
    /// Busy time per die: while it did anything, however much at a time.
    pub fn die_busy(&self) -> Vec<Span> {
        self.dies.iter().map(|die| die.busy).collect()
    }
    /// Gaps forgotten by all buses.
    pub fn gaps_dropped(&self) -> u64 {
        self.buses.iter().map(Timeline::dropped).sum()
    }

    fn enqueue(&mut self, t: &Timing, now: Time, die: u32, mut op: Queued, told: bool) {
        let cell = &mut self.dies[die as usize];
        cell.next_number += 1;
        if !t.moves() {
            return;
        }
        cell.forget(now);
        self.queued += 1;
        (op.number, op.overall) = (cell.next_number, self.queued);
        if told {
            cell.told_until = cell.told_until.max(op.end);
        }
        cell.queue.push_back(op);
    }

    /// If the operation in progress at `at` may be interrupted: when the read may start.
    fn try_suspend(&mut self, s: &Suspend, at: Time, die: u32) -> Option<Time> {
        let cell = &mut self.dies[die as usize];
        let current = cell.queue.partition_point(|op| op.end <= at);
        if cell.queue.get(current)?.start > at {
            return None;
        }
        // A read booked behind the queue has been told its end: nothing before it may move.
        let last_end = cell.queue.back().map(|op| op.end)?;
        if cell.free_from > last_end || cell.told_until > at {
            return None;
        }
        let op = &mut cell.queue[current];
        let allowed = if op.erase { s.erase } else { s.program };
        if !allowed || op.end - at < s.min_remaining || op.suspended >= s.max_times {
            return None;
        }
        op.suspended += 1;
        self.suspends += 1;
        Some(at + s.to_suspend)
    }

    /// Moves every operation of the die that has not ended at `at` by `delay`.
    fn shift(&mut self, die: u32, at: Time, delay: Span) {
        let shift = Shift::new(die, at, true, delay);
        let cell = &mut self.dies[die as usize];
        for op in &mut cell.queue {
            shift.apply(&mut op.start, &mut op.end);
        }
        cell.when.change(|start, end| shift.apply(start, end));
        self.shifted = Some(shift);
        cell.free_from += delay;
        for register in &mut cell.register {
            *register = (*register).max(cell.free_from);
        }
        self.moved += delay;
    }
}

/// Sends the command of an operation of a die that is free at `at`; when the array may begin.
///
/// Command cycles take bus time and slip in between data: they do not wait for transfers that
/// are booked ahead. If they did, a sense would begin only when all data booked so far has left,
/// and a busy bus would stand idle for a sense time once per round of requests.
pub(crate) fn command(bus: &mut Timeline, cmd: Span, now: Time, at: Time) -> Time {
    if cmd > Span::ZERO {
        bus.book(now, at, cmd);
    }
    at + cmd
}
