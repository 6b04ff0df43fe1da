//! Group commit: however many wait for a flush, one runs at a time, and it is theirs if it began
//! after they came.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Halt;
use super::turns::{Turns, Waits};

/// Shares flushes among threads.
#[derive(Debug)]
pub struct Group {
    state: Mutex<State>,
    over: Condvar,
    waits: Waits,
}

impl Default for Group {
    fn default() -> Group {
        Group::among(None)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Flushes begun, and whether the last of them still runs.
    begun: u64,
    running: bool,
    /// The last flush that succeeded.
    good: u64,
    /// The last flush that failed, and why.
    bad: (u64, Option<Halt>),
    asked: u64,
}

impl Group {
    /// Shares flushes among threads that may take turns.
    pub fn among(turns: Option<Arc<dyn Turns>>) -> Group {
        Group { state: Mutex::default(), over: Condvar::new(), waits: Waits::new(turns) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a flush that began after this call has ended: its own, or another's.
    ///
    /// # Errors
    /// What that flush said.
    pub fn flush(&self, flush: impl FnOnce() -> Result<(), Halt>) -> Result<(), Halt> {
        let mut state = self.lock();
        state.asked += 1;
        // One that runs already may have begun before what this caller wants durable.
        let mine = state.begun + 1;
        while state.running && state.begun < mine {
            state = self.waits.wait(&self.state, state, &self.over, None);
        }
        if state.begun < mine {
            state.begun = mine;
            state.running = true;
            drop(state);
            let result = flush();
            state = self.lock();
            state.running = false;
            match &result {
                Ok(()) => state.good = mine,
                Err(why) => state.bad = (mine, Some(why.clone())),
            }
            self.over.notify_all();
            return result;
        }
        while state.good < mine && state.bad.0 < mine {
            state = self.waits.wait(&self.state, state, &self.over, None);
        }
        // Later ones may have ended meanwhile. Success after a failure says nothing of what the
        // failed one should have made durable.
        match &state.bad {
            (failed, Some(why)) if *failed >= mine => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Flushes asked for, and flushes that ran.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.asked, state.begun)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn one_flush_runs_at_a_time_and_covers_what_came_before() {
        let (group, written, durable) = (Group::default(), AtomicU64::new(0), AtomicU64::new(0));
        let running = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        group
                            .flush(|| {
                                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                                let seen = written.load(Ordering::SeqCst);
                                std::thread::yield_now();
                                durable.fetch_max(seen, Ordering::SeqCst);
                                running.fetch_sub(1, Ordering::SeqCst);
                                Ok(())
                            })
                            .expect("flushed");
                        assert!(durable.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
        let (asked, ran) = group.counts();
        assert_eq!(asked, 1600);
        assert!(ran <= asked);
    }

    #[test]
    fn a_failure_is_told() {
        let group = Group::default();
        let broken = || Err(Halt::from("broken".to_string()));
        assert_eq!(group.flush(broken), broken());
        assert_eq!(group.flush(|| Ok(())), Ok(()));
    }
}
