//! Threads of a live log that take turns, in an order drawn from a seed: the client or several of them, and
//! whoever keeps house. Time passes only where something is waited for.
//!
//! Invariants: one of them runs at any moment; the same seed gives the same order.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use block::{Rng, Time};
use remap::LiveLog;
use remap::live::Turns;

/// Turns in which nothing was read or written: then everybody waits for everybody.
const STUCK: u32 = 100_000;

const CLIENT: usize = 0;
const KEEPER: usize = 1;
/// The first of several clients; [`CLIENT`] waits for all of them.
const SEVERAL: usize = 2;

thread_local! {
    static WHO: Cell<usize> = const { Cell::new(CLIENT) };
}

#[derive(Debug)]
struct State {
    turn: usize,
    keeper_lives: bool,
    /// Those of several clients who have not ended.
    several: Vec<usize>,
    /// The keeper has nothing to do, and nobody has called it since it said so.
    keeper_rests: bool,
    /// The client runs alone.
    alone: bool,
    idle: u32,
    now: Time,
    rng: Rng,
}

impl State {
    /// A client whose turn it may be.
    fn client(&mut self) -> usize {
        match self.several.len() {
            0 => CLIENT,
            all => self.several[self.rng.below(all as u64) as usize],
        }
    }
}

/// The order of turns, and the clock.
#[derive(Debug)]
pub(crate) struct Table {
    state: Mutex<State>,
    told: Condvar,
}

impl Table {
    pub fn new(seed: u64) -> Arc<Table> {
        let rng = Rng::stream(seed, "remap/turns");
        let (turn, now) = (CLIENT, Time::ZERO);
        let state = State {
            turn,
            keeper_lives: false,
            several: Vec::new(),
            keeper_rests: false,
            alone: false,
            idle: 0,
            now,
            rng,
        };
        Arc::new(Table { state: Mutex::new(state), told: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn clock(&self) -> Time {
        self.lock().now
    }

    /// It is at least so late.
    pub fn late(&self, at: Time) {
        let mut state = self.lock();
        state.now = state.now.max(at);
    }

    /// Something was submitted that ends at `done`: others may run meanwhile, one time in `often`.
    pub fn waits_for(&self, done: Time, often: u64) {
        let passes = {
            let mut state = self.lock();
            state.idle = 0;
            state.rng.ratio(1, often)
        };
        if passes {
            self.pass(false);
        }
        self.late(done);
    }

    /// Lets the keeper have some turns, a number that is drawn, while no request is under way.
    pub fn pause(&self) {
        let turns = { self.lock().rng.below(24) };
        for _ in 0..turns {
            self.pass(false);
        }
    }

    /// Whether the client has all turns.
    pub fn let_alone(&self, alone: bool) {
        let mut state = self.lock();
        (state.alone, state.idle) = (alone, 0);
    }

    /// Begins house-keeping by a thread of its own.
    pub fn keep(self: &Arc<Table>, log: &Arc<LiveLog>) -> JoinHandle<Result<(), String>> {
        self.lock().keeper_lives = true;
        let (table, log) = (self.clone(), log.clone());
        std::thread::spawn(move || {
            WHO.set(KEEPER);
            drop(table.until_turn(table.lock()));
            let kept = catch_unwind(AssertUnwindSafe(|| log.keep()));
            drop(log);
            let mut state = table.lock();
            (state.keeper_lives, state.turn) = (false, state.client());
            drop(state);
            table.told.notify_all();
            kept.map_err(|panic| match panic.downcast::<String>() {
                Ok(what) => *what,
                Err(panic) => panic.downcast::<&str>().map_or("?".into(), |what| what.to_string()),
            })
        })
    }

    /// Runs several clients, each in a thread of its own, until all have ended.
    pub fn several<R: Send>(&self, programs: Vec<impl FnOnce() -> R + Send>) -> Vec<R> {
        let mut state = self.lock();
        state.several = (SEVERAL..SEVERAL + programs.len()).collect();
        state.turn = state.client();
        drop(state);
        std::thread::scope(|scope| {
            let begin = |(i, program)| {
                scope.spawn(move || {
                    WHO.set(SEVERAL + i);
                    drop(self.until_turn(self.lock()));
                    // Whoever panics ends as well: the others would wait for his turn.
                    let ended = catch_unwind(AssertUnwindSafe(program));
                    let mut state = self.lock();
                    state.several.retain(|who| *who != SEVERAL + i);
                    state.turn = state.client();
                    drop(state);
                    self.told.notify_all();
                    ended
                })
            };
            let threads: Vec<_> = programs.into_iter().enumerate().map(begin).collect();
            drop(self.until_turn(self.lock()));
            let ended = threads.into_iter().map(|thread| thread.join().and_then(|ended| ended));
            ended.map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    /// Lets the keeper run until it has ended.
    pub fn see_off(&self) {
        self.let_alone(false);
        while self.lock().keeper_lives {
            self.lock().idle = 0;
            self.pass(false);
        }
    }

    fn until_turn<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let mut state = state;
        while state.turn != WHO.get() {
            state = self.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

impl Turns for Table {
    fn pass(&self, idle: bool) {
        let mut state = self.lock();
        state.keeper_rests |= idle && WHO.get() == KEEPER;
        state.idle += 1;
        if state.alone && state.idle > 64 {
            // It waits for the other.
            state.alone = false;
        }
        if state.alone || (!state.keeper_lives && state.several.is_empty()) {
            return;
        }
        assert!(state.idle < STUCK, "the threads of the log wait for each other");
        // Time passes, so that one who rests is looked after now and then.
        let often = if state.keeper_rests { 256 } else { 2 };
        let keeper = state.rng.ratio(1, often) && state.keeper_lives;
        let next = if keeper { KEEPER } else { state.client() };
        if next != WHO.get() {
            state.turn = next;
            state.keeper_rests &= next != KEEPER;
            drop(state);
            self.told.notify_all();
            drop(self.until_turn(self.lock()));
        }
    }

    fn call(&self) {
        self.lock().keeper_rests = false;
    }

    fn now(&self) -> u64 {
        self.clock().as_ns()
    }
}
