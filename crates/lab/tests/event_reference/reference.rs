//! The event simulation.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::{Ask, Load, Outcome, Shape};

/// One server, first come first served.
#[derive(Default)]
struct Station {
    busy: bool,
    queue: VecDeque<usize>,
}

/// A bus: who is served since when, and who waits with how much left.
#[derive(Default)]
struct Bus {
    serving: Option<(usize, u64, u64)>,
    waiting: Vec<(usize, u64)>,
    /// Events of servings that were interrupted are stale.
    turn: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(usize),
    Firmware(usize),
    Decided(usize),
    Down(usize),
    Sensed(usize),
    Bus(usize, u64),
    Programmed(usize),
    Up(usize),
}

/// One page of a request.
#[derive(Clone, Copy)]
struct Job {
    request: usize,
    die: usize,
    /// A read's command is on the bus before its data.
    commanded: bool,
}

pub struct Reference<'a> {
    shape: Shape,
    asks: &'a [Ask],
    depth: usize,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now: u64,
    firmware: Station,
    down: Station,
    up: Station,
    buses: Vec<Bus>,
    oldest_first: bool,
    dies: Vec<Station>,
    jobs: Vec<Job>,
    /// Die of each logical page, and pages written so far: writes go round the dies.
    place: BTreeMap<u64, usize>,
    written: u64,
    left: Vec<u64>,
    started: Vec<u64>,
    done: Vec<u64>,
    next: usize,
}

impl<'a> Reference<'a> {
    pub fn new(load: &Load, asks: &'a [Ask], filled: u64, oldest_first: bool) -> Reference<'a> {
        let shape = load.shape;
        let dies = (shape.channels * shape.dies) as usize;
        let mut reference = Reference {
            shape,
            asks,
            depth: load.depth,
            heap: BinaryHeap::new(),
            sequence: 0,
            now: 0,
            firmware: Station::default(),
            down: Station::default(),
            up: Station::default(),
            buses: (0..shape.channels).map(|_| Bus::default()).collect(),
            oldest_first,
            dies: (0..dies).map(|_| Station::default()).collect(),
            jobs: Vec::new(),
            place: BTreeMap::new(),
            written: 0,
            left: asks.iter().map(|ask| ask.pages).collect(),
            started: vec![0; asks.len()],
            done: vec![0; asks.len()],
            next: 0,
        };
        for page in 0..filled {
            reference.put(page);
        }
        reference
    }

    /// The next page of the log: channel first, then die.
    fn put(&mut self, page: u64) -> usize {
        let turn = self.written % (self.shape.channels * self.shape.dies);
        let (channel, way) = (turn % self.shape.channels, turn / self.shape.channels);
        let die = (channel * self.shape.dies + way) as usize;
        self.written += 1;
        self.place.insert(page, die);
        die
    }

    fn at(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse((self.now + delay, self.sequence, event)));
    }

    pub fn run(mut self) -> Outcome {
        let first = if self.depth == 0 { self.asks.len() } else { self.depth };
        for request in 0..first.min(self.asks.len()) {
            let delay = self.asks[request].at;
            self.at(delay, Event::Arrive(request));
        }
        self.next = first;
        while let Some(Reverse((now, _, event))) = self.heap.pop() {
            self.now = now;
            self.step(event);
        }
        assert!(self.left.iter().all(|n| *n == 0), "a request never ended");
        let latencies = self.done.iter().zip(&self.started).map(|(done, start)| done - start);
        Outcome { latencies: latencies.collect(), span: self.now - self.asks[0].at }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => {
                self.started[request] = self.now;
                if enter(&mut self.firmware, request) {
                    self.serve_firmware(request);
                }
            }
            Event::Firmware(request) => {
                if let Some(next) = leave(&mut self.firmware) {
                    self.serve_firmware(next);
                }
                let (read, write) = self.shape.latency;
                let delay = if self.asks[request].read { read } else { write };
                self.at(delay, Event::Decided(request));
            }
            Event::Decided(request) => {
                if self.asks[request].read {
                    self.spread(request);
                } else if enter(&mut self.down, request) {
                    self.at(self.shape.link, Event::Down(request));
                }
            }
            Event::Down(request) => {
                if let Some(next) = leave(&mut self.down) {
                    self.at(self.shape.link, Event::Down(next));
                }
                self.spread(request);
            }
            Event::Sensed(job) => self.want_bus(job, self.shape.bus),
            Event::Bus(channel, turn) if self.buses[channel].turn == turn => self.bus_free(channel),
            Event::Bus(..) => {}
            Event::Programmed(job) => {
                self.free_die(job);
                self.page_done(job);
            }
            Event::Up(request) => {
                if let Some(next) = leave(&mut self.up) {
                    self.at(self.shape.link, Event::Up(next));
                }
                self.finish(request);
            }
        }
    }

    fn serve_firmware(&mut self, request: usize) {
        let read = self.asks[request].read;
        let time = if read { self.shape.fw_read } else { self.shape.fw_write };
        self.at(time, Event::Firmware(request));
    }

    /// Every page of a request joins the queue of its die.
    fn spread(&mut self, request: usize) {
        let ask = self.asks[request];
        for page in ask.first..ask.first + ask.pages {
            let die = if ask.read { self.place[&page] } else { self.put(page) };
            let job = self.jobs.len();
            self.jobs.push(Job { request, die, commanded: false });
            if enter(&mut self.dies[die], job) {
                self.serve_die(job);
            }
        }
    }

    fn serve_die(&mut self, job: usize) {
        let read = self.asks[self.jobs[job].request].read;
        if read && self.shape.cmd == 0 {
            self.at(self.shape.read, Event::Sensed(job));
        } else {
            self.want_bus(job, if read { self.shape.cmd } else { self.shape.bus });
        }
    }

    fn want_bus(&mut self, job: usize, length: u64) {
        let channel = self.jobs[job].die / self.shape.dies as usize;
        let (now, request) = (self.now, self.jobs[job].request);
        match self.buses[channel].serving {
            None => return self.begin(channel, job, length),
            Some((other, since, left))
                if (self.oldest_first && self.jobs[other].request > request)
                    || length == self.shape.cmd =>
            {
                // Command cycles slip in between data.
                self.buses[channel].waiting.push((other, left - (now - since)));
                return self.begin(channel, job, length);
            }
            Some(_) => {}
        }
        self.buses[channel].waiting.push((job, length));
    }

    fn begin(&mut self, channel: usize, job: usize, length: u64) {
        let bus = &mut self.buses[channel];
        bus.turn += 1;
        bus.serving = Some((job, self.now, length));
        let turn = bus.turn;
        self.at(length, Event::Bus(channel, turn));
    }

    fn bus_free(&mut self, channel: usize) {
        let bus = &mut self.buses[channel];
        let (job, ..) = bus.serving.take().expect("a turn has ended");
        if !bus.waiting.is_empty() {
            let oldest =
                (0..bus.waiting.len()).min_by_key(|i| self.jobs[bus.waiting[*i].0].request);
            let next = if self.oldest_first { oldest.unwrap() } else { 0 };
            let (next, length) = bus.waiting.remove(next);
            self.begin(channel, next, length);
        }
        if !self.asks[self.jobs[job].request].read {
            self.at(self.shape.program, Event::Programmed(job));
        } else if self.shape.cmd > 0 && !self.jobs[job].commanded {
            self.jobs[job].commanded = true;
            self.at(self.shape.read, Event::Sensed(job));
        } else {
            self.free_die(job);
            self.page_done(job);
        }
    }

    fn free_die(&mut self, job: usize) {
        if let Some(next) = leave(&mut self.dies[self.jobs[job].die]) {
            self.serve_die(next);
        }
    }

    fn page_done(&mut self, job: usize) {
        let request = self.jobs[job].request;
        self.left[request] -= 1;
        if self.left[request] > 0 {
            return;
        }
        if self.asks[request].read && self.shape.link > 0 {
            if enter(&mut self.up, request) {
                self.at(self.shape.link, Event::Up(request));
            }
        } else {
            self.finish(request);
        }
    }

    fn finish(&mut self, request: usize) {
        self.done[request] = self.now;
        if self.depth > 0 && self.next < self.asks.len() {
            let next = self.next;
            self.next += 1;
            self.at(0, Event::Arrive(next));
        }
    }
}

/// Joins a station; true if it is served at once.
fn enter(station: &mut Station, job: usize) -> bool {
    if station.busy {
        station.queue.push_back(job);
    }
    !std::mem::replace(&mut station.busy, true)
}

/// Leaves a station; the one to be served next.
fn leave(station: &mut Station) -> Option<usize> {
    let next = station.queue.pop_front();
    station.busy = next.is_some();
    next
}
