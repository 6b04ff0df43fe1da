//! What a source told in the last while, so that a page that is opened again has lost nothing.
//!
//! Invariants: events have rising numbers without a gap; at most [`MOST`] are kept, the oldest go
//! first; each is one line of JSON.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Events that are kept.
const MOST: usize = 1200;

#[derive(Debug, Default)]
struct Kept {
    /// Number of the oldest.
    first: u64,
    events: VecDeque<String>,
    /// The newest map of blocks, and how many there were.
    blocks: (u64, String),
}

/// The last events of a source.
#[derive(Debug, Default)]
pub struct History {
    kept: Mutex<Kept>,
    came: Condvar,
}

/// How far somebody has been told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    next: u64,
    blocks: u64,
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more event.
    pub fn add(&self, event: String) {
        let mut kept = self.lock();
        if kept.events.len() == MOST {
            kept.events.pop_front();
            kept.first += 1;
        }
        kept.events.push_back(event);
        self.came.notify_all();
    }

    /// The blocks of the drive are these now.
    pub fn set_blocks(&self, event: String) {
        let mut kept = self.lock();
        if kept.blocks.1 != event {
            kept.blocks = (kept.blocks.0 + 1, event);
            self.came.notify_all();
        }
    }

    /// What came since `place`; waits so long for something.
    pub fn since(&self, place: &mut Place, wait: Duration) -> Vec<String> {
        let kept = self.lock();
        let new = |kept: &mut Kept| {
            kept.first + kept.events.len() as u64 <= place.next && kept.blocks.0 <= place.blocks
        };
        let waited = self.came.wait_timeout_while(kept, wait, new);
        let (kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let skip = place.next.saturating_sub(kept.first) as usize;
        let mut told: Vec<String> = kept.events.iter().skip(skip).cloned().collect();
        place.next = kept.first + kept.events.len() as u64;
        if kept.blocks.0 > place.blocks {
            told.push(kept.blocks.1.clone());
            place.blocks = kept.blocks.0;
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_is_told_what_is_kept_and_nobody_anything_twice() {
        let history = History::default();
        let mut early = Place::default();
        history.add("0".to_string());
        assert_eq!(history.since(&mut early, Duration::ZERO), ["0"]);
        assert!(history.since(&mut early, Duration::ZERO).is_empty());
        for n in 1..=MOST {
            history.add(n.to_string());
        }
        history.set_blocks("b".to_string());
        history.set_blocks("b".to_string());
        let mut late = Place::default();
        let told = history.since(&mut late, Duration::ZERO);
        assert_eq!((told.len(), told[0].as_str(), told[MOST].as_str()), (MOST + 1, "1", "b"));
        assert!(history.since(&mut late, Duration::ZERO).is_empty());
        assert_eq!(history.since(&mut early, Duration::ZERO).len(), MOST + 1);
    }
}
