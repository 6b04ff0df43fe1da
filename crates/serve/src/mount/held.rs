//! Who holds the volume's lock, and what is asked of the device meanwhile: nothing should be.
//!
//! Invariants: a thread that holds the lock is known as one that does, also while it waits for a
//! condition (it does not hold it then); what such a thread asks of the device is counted by kind, and
//! with [`Strict`] on it panics, so that the volume's tests find it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

thread_local! {
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// A lock whose holder is known to be one.
pub(super) struct Held<'a, T> {
    /// None: given up.
    guard: Option<MutexGuard<'a, T>>,
}

impl<'a, T> Held<'a, T> {
    /// And whether a thread panicked while it had it; said once.
    pub(super) fn of(mutex: &'a Mutex<T>) -> (Held<'a, T>, bool) {
        let (guard, broken) = match mutex.lock() {
            Ok(guard) => (guard, false),
            Err(poisoned) => {
                mutex.clear_poison();
                (poisoned.into_inner(), true)
            }
        };
        HOLDS.set(true);
        (Held { guard: Some(guard) }, broken)
    }

    /// Gives the lock up until somebody tells of a change, and takes it again.
    pub(super) fn wait(mut self, told: &Condvar) -> Held<'a, T> {
        let guard = self.guard.take().map(|guard| {
            HOLDS.set(false);
            let guard = told.wait(guard).unwrap_or_else(PoisonError::into_inner);
            HOLDS.set(true);
            guard
        });
        Held { guard }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if self.guard.take().is_some() {
            HOLDS.set(false);
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("a lock that is held")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("a lock that is held")
    }
}

/// What is asked of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asks {
    Read,
    Write,
    Flush,
}

/// What was asked of the device by holders of the lock.
#[derive(Debug, Default)]
pub(super) struct Strict {
    on: bool,
    counts: [AtomicU64; 3],
}

impl Strict {
    /// `on`: who asks with the lock held panics.
    pub(super) fn new(on: bool) -> Strict {
        Strict { on, counts: Default::default() }
    }

    /// Something is about to be asked of the device, and waited for.
    ///
    /// # Panics
    /// With the lock held, if that is wanted.
    pub(super) fn asked(&self, what: Asks) {
        if !HOLDS.get() {
            return;
        }
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
        assert!(!self.on, "a {what:?} was asked of the device with the volume's lock held");
    }

    /// How often that was so: reads, writes, flushes.
    pub(super) fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|i| self.counts[i].load(Ordering::Relaxed))
    }
}
