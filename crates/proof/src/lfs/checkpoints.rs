//! Checkpoints as the oracle hears of them: begun (frozen) before or after an operation, and ended. Between the
//! two a cut leaves what was durable before, or what was frozen.

use super::model::Tree;
use super::oracle::FsOracle;
use super::subject::FsSubject;

/// Checkpoints of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Checkpoints {
    /// Frozen.
    pub(super) begun: u64,
    /// Of them, those that come after an operation.
    pub(super) after: u64,
    /// Durable, as the volume knows.
    pub(super) ended: u64,
}

/// The newest checkpoint that an operation met: begun, or ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    None,
    /// Of the state before it.
    Before,
    /// Of the state after it.
    After,
}

impl Made {
    pub(super) fn between(before: Checkpoints, now: Checkpoints) -> Made {
        match (now != before, now.after > before.after) {
            (_, true) => Made::After,
            (true, false) => Made::Before,
            (false, false) => Made::None,
        }
    }
}

impl FsOracle {
    /// Checkpoints of which nothing was heard; nothing was changed since.
    pub(super) fn catch_up(&mut self, subject: &FsSubject) -> Made {
        let was = self.now.clone();
        self.checkpointed(subject.checkpoints(), &was)
    }

    /// What checkpoints made durable that came with an operation; `was` is the state before it.
    pub(super) fn checkpointed(&mut self, now: Checkpoints, was: &Tree) -> Made {
        let before = std::mem::replace(&mut self.seen, now);
        let made = Made::between(before, now);
        let begun = now.begun - before.begun;
        let newest = match made {
            Made::After => Some(self.now.clone()),
            _ => (begun > 0).then(|| was.clone()),
        };
        let waited = self.frozen.take();
        if now.ended == before.ended {
            self.frozen = newest.or(waited);
            return made;
        }
        // Its nodes were written before what ended was frozen.
        self.written.clear();
        self.ended += 1;
        if now.begun > now.ended {
            let last = if begun > 1 { Some(was.clone()) } else { waited };
            self.durable = last.unwrap_or_else(|| self.durable.clone());
            self.frozen = newest;
        } else if let Some(last) = newest.or(waited) {
            self.durable = last;
        }
        made
    }
}
