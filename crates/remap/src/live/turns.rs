//! Who runs when. Threads of a program wait for each other as the system has them; threads that are
//! searched for broken promises take turns, in an order that somebody draws, and live in the time that he
//! tells.

use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Threads that take turns: one runs, the others are inside [`Turns::pass`].
pub trait Turns: Debug + Send + Sync {
    /// Lets others run; returns when it is this thread's turn again. An `idle` one waits for nothing but
    /// [`Turns::call`], or for time to pass.
    fn pass(&self, idle: bool);
    /// There is work for whoever is idle.
    fn call(&self);
    /// Nanoseconds on their clock.
    fn now(&self) -> u64;
}

/// How threads of one log wait.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    turns: Option<Arc<dyn Turns>>,
    start: Instant,
}

impl Waits {
    pub fn new(turns: Option<Arc<dyn Turns>>) -> Waits {
        Waits { turns, start: Instant::now() }
    }

    pub fn now(&self) -> u64 {
        match &self.turns {
            Some(turns) => turns.now(),
            None => self.start.elapsed().as_nanos() as u64,
        }
    }

    /// Waits until told, or for no reason at all.
    pub fn wait<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        told: &Condvar,
        most: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        match (&self.turns, most) {
            (Some(turns), _) => {
                drop(guard);
                turns.pass(most.is_some());
                mutex.lock().unwrap_or_else(PoisonError::into_inner)
            }
            (None, None) => told.wait(guard).unwrap_or_else(PoisonError::into_inner),
            (None, Some(most)) => {
                told.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Tells whoever waits.
    pub fn tell(&self, told: &Condvar) {
        told.notify_all();
        if let Some(turns) = &self.turns {
            turns.call();
        }
    }

    /// A lock that its holder keeps while he reads and writes.
    pub fn lock_long<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let Some(turns) = &self.turns else {
            return mutex.lock().unwrap_or_else(PoisonError::into_inner);
        };
        loop {
            match mutex.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => turns.pass(false),
            }
        }
    }
}
