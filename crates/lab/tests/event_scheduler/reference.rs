//! The event simulation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::{
    Ask, CHANNELS, DIES, INTERRUPTIONS, LEAST_LEFT, Load, PROGRAM, READ, STAGING, Sched, TO_RESUME,
    TO_SUSPEND,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Arrive(usize),
    /// The die of a read stands still.
    Ready(usize),
    Sensed(usize),
    Moved(usize),
    /// A program ends, unless it was interrupted meanwhile.
    Programmed(usize, u64),
    Resumed(usize),
}

/// What a die does for a page.
struct Job {
    die: usize,
    read: bool,
    /// Requests that wait for it.
    waiters: Vec<usize>,
    /// The first read that follows it.
    read_by: Option<usize>,
    done: bool,
    /// Of a program: when it ends as things are, which of its ends that is, interruptions.
    end: u64,
    turn: u64,
    interruptions: u8,
}

#[derive(Default)]
struct Die {
    reads: VecDeque<usize>,
    programs: VecDeque<usize>,
    /// In order of arrival, whatever they are.
    both: VecDeque<usize>,
    serving: Option<usize>,
    /// The program in whose array time reads are served.
    stopped: Option<usize>,
    resuming: bool,
    /// When what it serves will be over, without others on the bus.
    until: u64,
}

#[derive(Default)]
struct Bus {
    serving: Option<usize>,
    waiting: VecDeque<usize>,
}

pub struct Reference<'a> {
    sched: Sched,
    /// Who waits for a program is told when it ends.
    telling: bool,
    load: Load,
    asks: &'a [Ask],
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now: u64,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    jobs: Vec<Job>,
    /// Pages of the buffer in the order in which they came, and whether they are dirty.
    buffer: VecDeque<u64>,
    dirty: BTreeMap<u64, bool>,
    slots: usize,
    staged: VecDeque<usize>,
    /// Writes that wait until a staged program ends.
    waiting: VecDeque<usize>,
    place: BTreeMap<u64, usize>,
    /// The last program of a page.
    newest: BTreeMap<u64, usize>,
    written: u64,
    left: Vec<usize>,
    started: Vec<u64>,
    done: Vec<u64>,
    next: usize,
}

impl<'a> Reference<'a> {
    pub fn new(
        (sched, telling): (Sched, bool),
        load: &Load,
        asks: &'a [Ask],
        filled: u64,
        slots: usize,
    ) -> Reference<'a> {
        let mut reference = Reference {
            sched,
            telling,
            load: *load,
            asks,
            heap: BinaryHeap::new(),
            sequence: 0,
            now: 0,
            dies: (0..CHANNELS * DIES).map(|_| Die::default()).collect(),
            buses: (0..CHANNELS).map(|_| Bus::default()).collect(),
            jobs: Vec::new(),
            buffer: VecDeque::new(),
            dirty: BTreeMap::new(),
            slots,
            staged: VecDeque::new(),
            waiting: VecDeque::new(),
            place: BTreeMap::new(),
            newest: BTreeMap::new(),
            written: 0,
            left: vec![0; asks.len()],
            started: vec![0; asks.len()],
            done: vec![u64::MAX; asks.len()],
            next: 0,
        };
        for page in 0..filled {
            reference.put(page);
        }
        reference
    }

    fn put(&mut self, page: u64) -> usize {
        let turn = self.written % (CHANNELS * DIES);
        let die = (turn % CHANNELS * DIES + turn / CHANNELS) as usize;
        self.written += 1;
        self.place.insert(page, die);
        die
    }

    fn at(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse((self.now + delay, self.sequence, event)));
    }

    pub fn run(mut self) -> [Vec<u64>; 2] {
        let first = if self.load.depth == 0 { self.asks.len() } else { self.load.depth };
        for request in 0..first {
            self.at(self.asks[request].at, Event::Arrive(request));
        }
        self.next = first;
        while let Some(Reverse((now, _, event))) = self.heap.pop() {
            self.now = now;
            self.step(event);
        }
        let mut latencies = [Vec::new(), Vec::new()];
        for (i, ask) in self.asks.iter().enumerate() {
            assert!(self.done[i] != u64::MAX, "a request never ended");
            latencies[usize::from(ask.read)].push(self.done[i] - self.started[i]);
        }
        latencies
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(request),
            Event::Ready(job) => self.at(READ, Event::Sensed(job)),
            Event::Sensed(job) => self.want_bus(job),
            Event::Moved(job) => {
                let bus = self.jobs[job].die / DIES as usize;
                self.buses[bus].serving = self.buses[bus].waiting.pop_front();
                if let Some(next) = self.buses[bus].serving {
                    self.at(self.load.bus, Event::Moved(next));
                }
                if self.jobs[job].read {
                    self.over(job);
                } else {
                    self.jobs[job].end = self.now + PROGRAM;
                    self.at(PROGRAM, Event::Programmed(job, self.jobs[job].turn));
                    let die = self.jobs[job].die;
                    self.interrupt(die);
                }
            }
            Event::Programmed(job, turn) if self.jobs[job].turn == turn => self.over(job),
            Event::Programmed(..) => {}
            Event::Resumed(die) => {
                let job = self.dies[die].stopped.take().expect("it was stopped");
                (self.dies[die].resuming, self.dies[die].serving) = (false, Some(job));
                let left = self.jobs[job].end;
                self.jobs[job].end = self.now + left;
                self.at(left, Event::Programmed(job, self.jobs[job].turn));
                self.interrupt(die);
            }
        }
    }

    fn arrive(&mut self, request: usize) {
        self.started[request] = self.now;
        let Ask { page, read, .. } = self.asks[request];
        if let Some(dirty) = self.dirty.get_mut(&page) {
            *dirty |= !read;
            return self.finish(request);
        }
        if read {
            self.left[request] = 1;
            let die = self.place[&page];
            if let Some(job) = self.newest.get(&page).filter(|job| !self.jobs[**job].done) {
                // No later read goes before that program either.
                let now = self.jobs.len();
                self.jobs[*job].read_by.get_or_insert(now);
            }
            self.enqueue(die, true, vec![request]);
        }
        if self.buffer.len() == self.slots {
            let old = self.buffer.pop_front().expect("slots");
            if self.dirty.remove(&old) == Some(true) {
                let die = self.put(old);
                let job = self.enqueue(die, false, Vec::new());
                self.staged.push_back(job);
                self.newest.insert(old, job);
            }
        }
        self.buffer.push_back(page);
        self.dirty.insert(page, !read);
        self.press(request, read);
        if self.left[request] == 0 {
            self.finish(request);
        }
    }

    /// Too many programs are in flight: a write waits, a read does not.
    fn press(&mut self, request: usize, read: bool) {
        if self.sched != Sched::InOrder && read {
            // It does not wait: the next write does for all that is too much.
            return;
        }
        if self.sched != Sched::InOrder && self.telling {
            self.staged.retain(|job| !self.jobs[*job].done);
            while self.staged.len() > STAGING {
                let first = self.first_to_end();
                let job = self.staged.remove(first).expect("more than none");
                self.jobs[job].waiters.push(request);
                let now = self.jobs.len();
                self.jobs[job].read_by.get_or_insert(now);
                self.left[request] += 1;
            }
            return;
        }
        if self.sched != Sched::InOrder {
            while self.staged.len() - self.waiting.len() > STAGING {
                self.waiting.push_back(request);
                self.left[request] += 1;
            }
            return;
        }
        while self.staged.len() > STAGING {
            let oldest = self.staged.pop_front().expect("more than none");
            if !read && !self.jobs[oldest].done {
                self.jobs[oldest].waiters.push(request);
                self.left[request] += 1;
            }
        }
        while self.staged.front().is_some_and(|job| self.jobs[*job].done) {
            self.staged.pop_front();
        }
    }

    /// The staged program that ends first if no more reads come.
    fn first_to_end(&self) -> usize {
        let mut ends = BTreeMap::new();
        for die in &self.dies {
            let mut at = self.now.max(die.until);
            if let Some(job) = die.serving.filter(|job| !self.jobs[*job].read) {
                at = if self.jobs[job].end > 0 { self.jobs[job].end } else { die.until };
                ends.insert(job, at);
            }
            // As `serve` does it.
            let mut rest = Die {
                reads: die.reads.clone(),
                programs: die.programs.clone(),
                stopped: die.stopped,
                ..Die::default()
            };
            loop {
                let behind = self.behind(&rest).unwrap_or(usize::MAX);
                if rest.reads.front().is_some_and(|read| *read < behind) {
                    rest.reads.pop_front();
                    at += READ + self.load.bus;
                } else if let Some(job) = rest.stopped.take() {
                    at += TO_RESUME + self.jobs[job].end;
                    ends.insert(job, at);
                } else if let Some(job) = rest.programs.pop_front() {
                    at += self.load.bus + PROGRAM;
                    ends.insert(job, at);
                } else {
                    break;
                }
            }
        }
        let staged = (0..self.staged.len()).min_by_key(|at| ends[&self.staged[*at]]);
        staged.expect("more than none")
    }

    fn enqueue(&mut self, die: usize, read: bool, waiters: Vec<usize>) -> usize {
        let job = self.jobs.len();
        let fresh = Job {
            die,
            read,
            waiters,
            read_by: None,
            done: false,
            end: 0,
            turn: 0,
            interruptions: 0,
        };
        self.jobs.push(fresh);
        let station = &mut self.dies[die];
        station.both.push_back(job);
        if read { &mut station.reads } else { &mut station.programs }.push_back(job);
        if station.serving.is_none() && (station.stopped.is_none() || read && !station.resuming) {
            self.serve(die);
        } else {
            self.interrupt(die);
        }
        job
    }

    /// Reads from this one on may not go before a program in line or under way.
    fn behind(&self, die: &Die) -> Option<usize> {
        let under_way = die.stopped.iter().chain(&die.serving);
        die.programs.iter().chain(under_way).filter_map(|job| self.jobs[*job].read_by).min()
    }

    /// The die is free: who is next?
    fn serve(&mut self, die: usize) {
        let behind = self.behind(&self.dies[die]).unwrap_or(usize::MAX);
        let station = &mut self.dies[die];
        let next = match self.sched {
            Sched::InOrder => station.both.front(),
            _ => station.reads.front().filter(|read| **read < behind).or(station.programs.front()),
        };
        let late = station.reads.front().filter(|_| station.stopped.is_none());
        let next = next.or(late).copied();
        if station.stopped.is_some() && !next.is_some_and(|job| self.jobs[job].read) {
            station.resuming = true;
            return self.at(TO_RESUME, Event::Resumed(die));
        }
        let Some(job) = next else { return };
        for queue in [&mut station.both, &mut station.reads, &mut station.programs] {
            queue.retain(|other| *other != job);
        }
        station.serving = Some(job);
        let array = if self.jobs[job].read { READ } else { PROGRAM };
        station.until = self.now + array + self.load.bus;
        if self.jobs[job].read {
            self.at(READ, Event::Sensed(job));
        } else {
            self.want_bus(job);
        }
    }

    /// Stops the program under way if a read waits and may.
    fn interrupt(&mut self, die: usize) {
        let station = &self.dies[die];
        let (Some(job), Some(read)) = (station.serving, station.reads.front().copied()) else {
            return;
        };
        let behind = self.behind(&self.dies[die]).is_some_and(|behind| behind <= read);
        let program = &mut self.jobs[job];
        let left = program.end.saturating_sub(self.now);
        if self.sched != Sched::Suspend
            || program.read
            || behind
            || left < LEAST_LEFT
            || program.interruptions == INTERRUPTIONS
        {
            return;
        }
        (program.end, program.turn) = (left, program.turn + 1);
        program.interruptions += 1;
        let station = &mut self.dies[die];
        (station.stopped, station.serving) = (Some(job), Some(read));
        station.reads.pop_front();
        station.until = self.now + TO_SUSPEND + READ + self.load.bus;
        station.both.retain(|other| *other != read);
        self.at(TO_SUSPEND, Event::Ready(read));
    }

    fn want_bus(&mut self, job: usize) {
        let bus = &mut self.buses[self.jobs[job].die / DIES as usize];
        if bus.serving.is_some() {
            return bus.waiting.push_back(job);
        }
        bus.serving = Some(job);
        self.at(self.load.bus, Event::Moved(job));
    }

    fn over(&mut self, job: usize) {
        self.jobs[job].done = true;
        if self.sched != Sched::InOrder
            && !self.telling
            && let Some(at) = self.staged.iter().position(|other| *other == job)
        {
            self.staged.remove(at);
            let next = self.waiting.pop_front();
            self.jobs[job].waiters.extend(next);
        }
        for request in std::mem::take(&mut self.jobs[job].waiters) {
            self.left[request] -= 1;
            if self.left[request] == 0 {
                self.finish(request);
            }
        }
        let die = self.jobs[job].die;
        self.dies[die].serving = None;
        self.serve(die);
    }

    fn finish(&mut self, request: usize) {
        self.done[request] = self.now;
        if self.load.depth > 0 && self.next < self.asks.len() {
            self.next += 1;
            self.at(0, Event::Arrive(self.next - 1));
        }
    }
}
