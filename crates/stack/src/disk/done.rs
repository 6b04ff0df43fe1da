//! When a request that has been done may be answered, and whether it may be answered at all.
//!
//! Invariant: no answer that was still to come when the power went says that its request is done. Whoever waits for it, or
//! lets it leave later, asks when it is due; until then what it speaks of may be taken back.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use super::DiskError;

/// What has one life after the other: its power goes, and comes back.
pub trait Lives: Debug + Send + Sync {
    /// The number of its life. Who asks waits for whatever ends one now.
    fn life(&self) -> u64;
}

/// A life of something.
#[derive(Clone, Debug)]
struct Life {
    of: Arc<dyn Lives>,
    number: u64,
}

/// A request was done; its answer leaves now or, where a drive is emulated in real time, later.
#[must_use = "the answer may not leave before `wait`, or before `due` and if it `stands` then"]
#[derive(Clone, Default, Debug)]
pub struct Done {
    due: Option<Instant>,
    /// Those in which the answer has to leave: one of a drive in real time, else none.
    lives: Vec<Life>,
}

impl Done {
    /// The answer may leave at once.
    pub const NOW: Done = Done { due: None, lives: Vec::new() };

    /// The answer may not leave before `due`.
    pub fn at(due: Instant) -> Done {
        Done { due: Some(due), lives: Vec::new() }
    }
    /// It may leave in the life of this number only.
    pub fn within(mut self, of: Arc<dyn Lives>, number: u64) -> Done {
        self.lives.push(Life { of, number });
        self
    }
    /// When the answer may leave; `None`: now.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
    /// Both were done: the later of the two, and what either needs.
    pub fn and(mut self, other: Done) -> Done {
        self.due = self.due.max(other.due);
        for life in other.lives {
            match self.lives.iter_mut().find(|known| Arc::ptr_eq(&known.of, &life.of)) {
                // Lives follow each other: only the first of them matters.
                Some(known) => known.number = known.number.min(life.number),
                None => self.lives.push(life),
            }
        }
        self
    }
    /// Whether the answer may still leave, now that it is due.
    ///
    /// # Errors
    /// The power went before.
    pub fn stands(&self) -> Result<(), DiskError> {
        match self.lives.iter().all(|life| life.of.life() == life.number) {
            true => Ok(()),
            false => Err(DiskError::PowerOff),
        }
    }
    /// Sleeps until the answer may leave.
    ///
    /// # Errors
    /// The power went before: nobody knows what became of the request.
    pub fn wait(self) -> Result<(), DiskError> {
        if let Some(due) = self.due {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        self.stands()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default, Debug)]
    struct Count(AtomicU64);

    impl Lives for Count {
        fn life(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn an_answer_of_a_life_that_has_ended_does_not_leave() {
        let (one, other) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let of = |count: &Arc<Count>| {
            Done::at(Instant::now()).within(Arc::clone(count) as _, count.life())
        };
        let (before, beside) = (of(&one), of(&other));
        before.clone().and(beside.clone()).wait().unwrap();
        one.0.store(1, Ordering::SeqCst);
        assert!(matches!(before.clone().wait(), Err(DiskError::PowerOff)));
        of(&one).and(beside.clone()).wait().unwrap();
        // Whichever comes first.
        for both in [before.clone().and(of(&one)), of(&one).and(before.clone())] {
            assert!(matches!(both.stands(), Err(DiskError::PowerOff)));
        }
        assert!(matches!(beside.and(before).wait(), Err(DiskError::PowerOff)));
        assert!(Done::NOW.wait().is_ok());
    }
}
