//! What each die did, and what each operation waited for: enough to say, going back from the end of
//! a request, what its time went to.
//!
//! Nothing here is decided upon: bookings are noted after they were made, and only if somebody
//! asked for it ([`crate::Nand::keep_trail`]).
//!
//! Invariants:
//! * `ends` has, for every moment after the current request's submission at which an operation
//!   of a die ends, the one booked last that ends then;
//! * the pieces of a die are what it did, in order of their beginnings; all that end after that
//!   submission are there. An operation that a read interrupts becomes two pieces;
//! * what ended before the request before that came is forgotten, or, if a window of pieces is kept,
//!   kept there: it cannot change any more.

use std::collections::{BTreeMap, VecDeque};

use block::{BlockId, Span, Time};

use crate::shift::Shift;
use crate::{Bookings, Breakdown, Cause, Order, PageProgram, ReadCause, Spent, Work};

/// A time without interruption in which a die did one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The die.
    pub die: u32,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// What it was.
    pub work: Work,
    /// Number of the operation: two pieces of an interrupted one have the same.
    pub operation: u64,
    /// The request that ordered it.
    pub request: u64,
    /// The first block of the operation.
    pub block: BlockId,
    /// Its page in the block.
    pub page: u32,
    /// Pages of the operation, of all planes.
    pub pages: u32,
    /// Of cleaning: number of the victim that was being collected when it was booked.
    pub victim: u64,
}

/// A line that cleaning collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its number: victims count from 1.
    pub number: u64,
    /// The line.
    pub line: u32,
    /// Slots that were valid in it.
    pub valid: u32,
}

/// An operation, and what it waited for.
#[derive(Clone, Copy, Debug)]
struct Operation {
    die: u32,
    number: u64,
    request: u64,
    work: Work,
    /// When it could have begun: its data was there, or what it follows had ended.
    at: Time,
    /// When the die was its own.
    ready: Time,
    /// How long it then waited for the channel.
    bus: Span,
    /// For how long reads interrupted it.
    interrupted: Span,
}

/// An operation as booked, to be noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booked {
    pub die: u32,
    pub work: Work,
    pub at: Time,
    pub ready: Time,
    pub bus: Span,
    /// When the die began to be busy with it.
    pub begin: Time,
    pub end: Time,
    pub block: BlockId,
    pub page: u32,
    pub pages: u32,
}

/// Pieces that are kept for a timeline.
#[derive(Clone, Debug)]
struct Window {
    from: Time,
    to: Time,
    most: usize,
    pieces: Vec<Piece>,
    victims: Vec<Victim>,
    /// There were more than are kept.
    full: bool,
}

/// What a trail has kept of a window of time.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// What dies did, by die and in order of time.
    pub pieces: Vec<Piece>,
    /// The victims of those that are cleaning's.
    pub victims: Vec<Victim>,
    /// There was more than is kept.
    pub full: bool,
}

/// What the time of one request went to, and which operations took it.
#[derive(Clone, Debug)]
pub struct Account {
    /// The time by cause.
    pub by_cause: Breakdown,
    /// Operations that it waited for, its own included, by [`Work::index`].
    pub operations: [u32; Work::KINDS],
    /// Their numbers, in the order in which they were found: from the request's end backwards.
    pub numbers: Vec<u64>,
    /// The die of the one that ended last.
    pub die: Option<u32>,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            by_cause: Breakdown::default(),
            operations: [0; Work::KINDS],
            numbers: Vec::new(),
            die: None,
        }
    }
}

impl Account {
    /// Nothing, in the same memory.
    pub fn clear(&mut self) {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        *self = Account { numbers, ..Account::default() };
    }

    fn waited_for(&mut self, die: u32, work: Work, number: u64) {
        // Of one that was interrupted both pieces may stand in the way.
        if !self.numbers.contains(&number) {
            self.operations[work.index()] += 1;
            self.numbers.push(number);
        }
        self.die.get_or_insert(die);
    }
}

/// See above.
#[derive(Clone, Debug)]
pub struct Trail {
    dies: Vec<VecDeque<Piece>>,
    ends: BTreeMap<(Time, u32), Operation>,
    /// A piece may have been booked after what it stands in the way of.
    overtakes: bool,
    request: u64,
    /// When that was submitted.
    submitted: Time,
    operations: u64,
    victim: Option<Victim>,
    window: Option<Window>,
}

impl Trail {
    /// Nothing noted, of so many dies, where reads overtake or do not.
    pub(crate) fn new(dies: u32, overtakes: bool) -> Trail {
        Trail {
            dies: vec![VecDeque::new(); dies as usize],
            ends: BTreeMap::new(),
            overtakes,
            request: 0,
            submitted: Time::ZERO,
            operations: 0,
            victim: None,
            window: None,
        }
    }

    /// Keeps the pieces between two moments, at most `most` of them.
    pub fn keep_window(&mut self, from: Time, to: Time, most: usize) {
        let (pieces, victims) = (Vec::new(), Vec::new());
        self.window = Some(Window { from, to, most, pieces, victims, full: false });
    }

    /// What was kept. What has not ended by now is among it as it is booked.
    pub fn window(&self) -> Kept {
        let Some(window) = &self.window else { return Kept::default() };
        let mut copy = window.clone();
        self.dies.iter().flatten().for_each(|piece| copy.keep(*piece));
        copy.pieces.sort_by_key(|p| (p.die, p.start, p.end, p.operation));
        Kept { pieces: copy.pieces, victims: copy.victims, full: copy.full }
    }

    /// Cleaning begins to collect a line.
    pub fn collects(&mut self, line: u32, valid: u32) {
        let number = self.victim.map_or(1, |last| last.number + 1);
        self.victim = Some(Victim { number, line, valid });
    }

    /// Operations from here on are ordered by request `number`, submitted at `at`: nobody asks about
    /// times before that any more. What the drive does in the pause before it may still move what
    /// ends then, so only what ended before the last request is over.
    pub fn begin(&mut self, number: u64, at: Time) {
        self.request = number;
        let at = std::mem::replace(&mut self.submitted, at);
        while self.ends.first_key_value().is_some_and(|((end, _), _)| *end <= at) {
            self.ends.pop_first();
        }
        for die in &mut self.dies {
            while let Some(piece) = die.front().copied().filter(|piece| piece.end <= at) {
                if let Some(window) = &mut self.window {
                    window.keep(piece);
                }
                die.pop_front();
            }
        }
    }

    /// Notes an operation that was booked.
    pub(crate) fn note(&mut self, booked: &Booked) {
        if booked.end <= booked.at {
            return;
        }
        self.operations += 1;
        let b = booked;
        let operation = Operation {
            die: b.die,
            number: self.operations,
            request: self.request,
            work: b.work,
            at: b.at,
            ready: b.ready,
            bus: b.bus,
            interrupted: Span::ZERO,
        };
        self.ends.insert((b.end, b.die), operation);
        let piece = Piece {
            die: b.die,
            start: b.begin,
            end: b.end,
            work: b.work,
            operation: self.operations,
            request: self.request,
            block: b.block,
            page: b.page,
            pages: b.pages,
            victim: self.victim_of(b),
        };
        insert(&mut self.dies[b.die as usize], piece);
    }

    /// The victim that an operation belongs to; 0 for none.
    fn victim_of(&mut self, booked: &Booked) -> u64 {
        let cleaning = matches!(booked.work, Work::Read(ReadCause::Gc) | Work::Program(Cause::Gc));
        let Some(victim) = self.victim.filter(|_| cleaning) else { return 0 };
        if let Some(window) = &mut self.window
            && booked.begin < window.to
            && booked.end > window.from
            && window.victims.last() != Some(&victim)
        {
            window.victims.push(victim);
        }
        victim.number
    }

    /// A read goes first: what it interrupts or overtakes, and all behind it, moves.
    pub(crate) fn shift(&mut self, shift: &Shift) {
        let die = &mut self.dies[shift.die as usize];
        let moves = |piece: &Piece| piece.end > shift.at && !matches!(piece.work, Work::Read(_));
        let mut rest = Vec::new();
        for piece in die.iter_mut().filter(|piece| moves(piece)) {
            let delay = shift.delay(piece.end);
            if piece.start < shift.at {
                // What is left of it comes after the interruption.
                rest.push(Piece { start: shift.at + delay, end: piece.end + delay, ..*piece });
                piece.end = shift.at;
            } else {
                piece.start += delay;
                piece.end += delay;
            }
        }
        rest.into_iter().for_each(|piece| insert(die, piece));
        let of_die = |((end, die), o): &(&(Time, u32), &Operation)| {
            *end > shift.at && *die == shift.die && !matches!(o.work, Work::Read(_))
        };
        let later = self.ends.range((shift.at, 0)..).filter(of_die);
        let later: Vec<(Time, u32)> = later.map(|(key, _)| *key).collect();
        for (end, die) in later.into_iter().rev() {
            let Some(mut operation) = self.ends.remove(&(end, die)) else { continue };
            let delay = shift.delay(end);
            if shift.moves_start(operation.ready) {
                operation.ready += delay;
            } else {
                operation.interrupted += delay;
            }
            self.ends.insert((end + delay, die), operation);
        }
    }

    /// The request that ordered the operation which ends at `end`, if one does.
    pub fn ending(&self, end: Time) -> Option<u64> {
        self.last_to_end(end).map(|operation| operation.request)
    }

    fn last_to_end(&self, end: Time) -> Option<&Operation> {
        let at_once = self.ends.range((end, 0)..=(end, u32::MAX));
        at_once.map(|(_, operation)| operation).max_by_key(|operation| operation.number)
    }

    /// The last moment before `end` at which an operation ended.
    pub fn before(&self, end: Time) -> Option<Time> {
        self.ends.range(..(end, 0)).next_back().map(|((end, _), _)| *end)
    }

    /// Accounts for the time from `from` to `end`, as far as the operation that ends then explains
    /// it; up to which moment that is.
    pub fn explain(&self, from: Time, end: Time, account: &mut Account) -> Option<Time> {
        let operation = self.last_to_end(end)?;
        let o = *operation;
        let own = o.request == self.request;
        account.waited_for(o.die, o.work, o.number);
        let begin = o.ready.max(from);
        let mut left = end.since(begin);
        for (cause, span) in [(Spent::Bus, o.bus), (Spent::HostRead, o.interrupted)] {
            let span = span.min(left);
            account.by_cause.add(cause, span);
            left = Span::from_ps(left.as_ps() - span.as_ps());
        }
        account.by_cause.add(o.work.spent(own), left);
        let wished = o.at.max(from);
        if wished < begin {
            self.stood_behind(&o, wished, begin, account);
        }
        Some(wished)
    }

    /// Accounts for a wait for a die, from `from` to `to`: by what the die did then. Time in which it
    /// stood idle, because the next operation was booked ahead, counts as that operation.
    fn stood_behind(&self, o: &Operation, from: Time, to: Time, account: &mut Account) {
        let mut at = from;
        for piece in &self.dies[o.die as usize] {
            let later = piece.operation >= o.number && !self.overtakes;
            if later || piece.operation == o.number || piece.end <= at {
                continue;
            }
            let until = piece.end.min(to);
            let own = piece.request == self.request;
            account.by_cause.add(piece.work.spent(own), until.since(at));
            account.waited_for(o.die, piece.work, piece.operation);
            at = until;
            if at >= to {
                return;
            }
        }
        account.by_cause.add(Spent::Other, to.since(at));
    }
}

impl Window {
    fn keep(&mut self, piece: Piece) {
        if piece.end <= self.from || piece.start >= self.to || piece.start == piece.end {
            return;
        }
        match self.pieces.len() < self.most {
            true => self.pieces.push(piece),
            false => self.full = true,
        }
    }
}

/// Puts a piece in its place.
fn insert(die: &mut VecDeque<Piece>, piece: Piece) {
    let at = die.iter().rposition(|other| other.start <= piece.start).map_or(0, |at| at + 1);
    die.insert(at, piece);
}

impl crate::Nand {
    /// From here on what operations wait for is noted; nothing that was booked before is.
    pub fn keep_trail(&mut self) {
        let overtakes = self.timing.order == Order::ReadFirst;
        self.trail = Some(Box::new(Trail::new(self.geometry.dies(), overtakes)));
    }
    /// What was noted, if anything is.
    pub fn trail(&self) -> Option<&Trail> {
        self.trail.as_deref()
    }
    /// The same, to tell of requests.
    pub fn trail_mut(&mut self) -> Option<&mut Trail> {
        self.trail.as_deref_mut()
    }

    #[cold]
    pub(crate) fn note_program(&mut self, at: Time, pages: &[PageProgram<'_>], booked: Bookings) {
        let (block, t) = (pages[0].block, &self.timing);
        let slots = || pages.iter().flat_map(|page| page.slots);
        // A page holds slots of one head: what its first slot is for, it is for.
        let cause = slots().map(|slot| slot.cause).find(|cause| *cause != Cause::Padding);
        let data_in = t.cmd + t.transfer[t.transfer.len() - 1] + t.transfer_oob;
        let moved = data_in.times(pages.len() as u64);
        let waited = booked.start.since(booked.ready);
        let noted = Booked {
            die: self.die_of(block),
            work: Work::Program(cause.unwrap_or(Cause::Padding)),
            at,
            ready: booked.ready,
            bus: Span::from_ps(waited.as_ps().saturating_sub(moved.as_ps())),
            begin: booked.begin,
            end: booked.end,
            block,
            page: self.image.meta[block.index()].next_page,
            pages: pages.len() as u32,
        };
        self.note(&noted);
    }

    #[cold]
    pub(crate) fn note_erase(&mut self, at: Time, block: BlockId, booked: Bookings) {
        let noted = Booked {
            die: self.die_of(block),
            work: Work::Erase,
            at,
            ready: booked.ready,
            bus: Span::ZERO,
            begin: booked.begin,
            end: booked.end,
            block,
            page: 0,
            pages: 1,
        };
        self.note(&noted);
    }

    #[cold]
    #[expect(clippy::too_many_arguments, reason = "an operation, its place and its time")]
    pub(crate) fn note_read(
        &mut self,
        at: Time,
        pages: &[(BlockId, u32)],
        pieces: &[u32],
        sense: Span,
        cause: ReadCause,
        booked: Bookings,
        shift: Option<&Shift>,
    ) {
        if let (Some(trail), Some(shift)) = (&mut self.trail, shift) {
            trail.shift(shift);
        }
        let ((block, page), t) = (pages[0], &self.timing);
        let moved = pieces.iter().fold(Span::ZERO, |sum, n| sum + t.transfer[*n as usize]);
        let cached = if t.cache_ops { t.t_rcbsy } else { Span::ZERO };
        let own = booked.start.since(booked.ready) + sense + cached + moved;
        let taken = booked.end.since(booked.ready);
        let noted = Booked {
            die: self.die_of(block),
            work: Work::Read(cause),
            at,
            ready: booked.ready,
            bus: Span::from_ps(taken.as_ps().saturating_sub(own.as_ps())),
            begin: booked.begin,
            end: booked.end,
            block,
            page,
            pages: pages.len() as u32,
        };
        self.note(&noted);
    }

    fn note(&mut self, booked: &Booked) {
        if let Some(trail) = &mut self.trail {
            trail.note(booked);
        }
    }
}
