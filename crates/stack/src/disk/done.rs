//! When a request that has been done may be answered.

use std::time::Instant;

/// A request was done; its answer leaves now or, where a drive is emulated in real time, later.
#[must_use = "the answer may not leave before `wait`, or before `due`"]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done(Option<Instant>);

impl Done {
    /// The answer may leave at once.
    pub const NOW: Done = Done(None);

    /// The answer may not leave before `due`.
    pub fn at(due: Instant) -> Done {
        Done(Some(due))
    }
    /// When the answer may leave; `None`: now.
    pub fn due(self) -> Option<Instant> {
        self.0
    }
    /// Both were done: the later of the two.
    pub fn and(self, other: Done) -> Done {
        Done(self.0.max(other.0))
    }
    /// Sleeps until the answer may leave.
    pub fn wait(self) {
        if let Some(due) = self.0 {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}
