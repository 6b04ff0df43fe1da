//! Who holds the volume's lock, and what is asked of the device meanwhile: nothing should be.
//!
//! Invariants: a thread that holds the lock is known as one that does, also while it waits for a
//! condition (it does not hold it then); what such a thread asks of the device is counted by kind, and
//! with [`Strict`] on it panics, so that the volume's tests find it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, LockResult, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

thread_local! {
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// How long it is looked whether the lock is given up, before one sleeps until it is; and the longest that
/// somebody gives way. What it is held for takes less, as a rule, and to sleep and be woken as long.
const SOON: Duration = Duration::from_micros(50);

/// Between two looks, so that its holder is not disturbed.
const LOOKS: u32 = 16;

/// A lock whose holder is known to be one. Who gives it up and takes it again at once would have it before those
/// who wait for it: who does that again and again gives way to them between.
#[derive(Debug, Default)]
pub(super) struct Lock<T> {
    inside: Mutex<T>,
    /// Those who wait.
    asking: AtomicUsize,
}

/// It is held.
pub(super) struct Held<'a, T> {
    /// None: given up.
    guard: Option<MutexGuard<'a, T>>,
}

impl<T> Lock<T> {
    pub(super) fn new(inside: T) -> Lock<T> {
        Lock { inside: Mutex::new(inside), asking: AtomicUsize::new(0) }
    }

    /// And whether a thread panicked while it had it; said once.
    pub(super) fn lock(&self) -> (Held<'_, T>, bool) {
        let found = match self.inside.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(broken)) => Err(broken),
            Err(TryLockError::WouldBlock) => {
                self.asking.fetch_add(1, Ordering::Relaxed);
                let found = self.soon().unwrap_or_else(|| self.inside.lock());
                self.asking.fetch_sub(1, Ordering::Relaxed);
                found
            }
        };
        let (guard, broken) = match found {
            Ok(guard) => (guard, false),
            Err(broken) => {
                self.inside.clear_poison();
                (broken.into_inner(), true)
            }
        };
        HOLDS.set(true);
        (Held { guard: Some(guard) }, broken)
    }

    /// Looks whether it is given up soon.
    fn soon(&self) -> Option<LockResult<MutexGuard<'_, T>>> {
        let since = Instant::now();
        while since.elapsed() < SOON {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
            }
            match self.inside.try_lock() {
                Ok(guard) => return Some(Ok(guard)),
                Err(TryLockError::Poisoned(broken)) => return Some(Err(broken)),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        None
    }

    /// By somebody who gave it up and wants it again: those who wait for it now have it first, if they wake up
    /// soon.
    pub(super) fn give_way(&self) {
        let mut since = None;
        while self.asking.load(Ordering::Relaxed) > 0
            && since.get_or_insert_with(Instant::now).elapsed() < SOON
        {
            // To yield the processor would cost a turn of all who want it.
            std::hint::spin_loop();
        }
    }
}

impl<'a, T> Held<'a, T> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn who_takes_it_again_and_again_gives_way() {
        let lock = Arc::new(Lock::new(0_u64));
        let ended = Arc::new(AtomicBool::new(false));
        let (often, end) = (Arc::clone(&lock), Arc::clone(&ended));
        let large = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let (mut parts, _) = often.lock();
                *parts += 1;
                std::thread::sleep(Duration::from_millis(1));
                drop(parts);
                often.give_way();
            }
        });
        // How many parts are done while somebody waits.
        let mut waits: Vec<u64> = (0..41)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(2));
                while lock.asking.load(Ordering::Relaxed) > 0 {}
                let before = *lock.lock().0;
                std::thread::sleep(Duration::from_micros(500));
                *lock.lock().0 - before
            })
            .collect();
        ended.store(true, Ordering::Relaxed);
        large.join().expect("no panic");
        waits.sort_unstable();
        // A loaded machine may be slow to wake one of them.
        assert!(waits[20] <= 4, "{waits:?}");
    }
}
