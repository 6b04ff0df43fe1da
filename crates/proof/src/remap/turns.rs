//! Threads of a live log that take turns, in an order drawn from a seed: the client, and whoever keeps
//! house. Time passes only where something is waited for.
//!
//! Invariants: one of them runs at any moment; the same seed gives the same order.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use block::{Rng, Time};
use remap::LiveLog;
use remap::live::Turns;

/// Turns in which nothing was read or written: then everybody waits for everybody.
const STUCK: u32 = 100_000;

const CLIENT: usize = 0;
const KEEPER: usize = 1;

thread_local! {
    static WHO: Cell<usize> = const { Cell::new(CLIENT) };
}

#[derive(Debug)]
struct State {
    turn: usize,
    keeper_lives: bool,
    /// The keeper has nothing to do, and nobody has called it since it said so.
    keeper_rests: bool,
    /// The client runs alone.
    alone: bool,
    idle: u32,
    now: Time,
    rng: Rng,
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
            (state.keeper_lives, state.turn) = (false, CLIENT);
            drop(state);
            table.told.notify_all();
            kept.map_err(|panic| match panic.downcast::<String>() {
                Ok(what) => *what,
                Err(panic) => panic.downcast::<&str>().map_or("?".into(), |what| what.to_string()),
            })
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
        if !state.keeper_lives || state.alone {
            return;
        }
        assert!(state.idle < STUCK, "the threads of the log wait for each other");
        // Time passes, so that one who rests is looked after now and then.
        let often = if state.keeper_rests { 256 } else { 2 };
        let next = if state.rng.ratio(1, often) { KEEPER } else { CLIENT };
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
