//! Hit ratios without a drive: the same pools and policies, no time, no flash.

use block::{AppId, Lpn, Op};

use super::{Front, front};
use crate::backend::Nothing;
use crate::stats::AppStats;

/// One access to a 4 KiB page.
#[derive(Clone, Copy, Debug)]
pub struct HitAccess {
    /// The page.
    pub page: Lpn,
    /// Read, write or discard.
    pub op: Op,
    /// Application.
    pub app: AppId,
    /// Number of the request it belongs to, from 1.
    pub request: u64,
    /// Length of that request in bytes.
    pub len: u32,
}

/// A buffer alone.
#[derive(Debug)]
pub struct HitSim {
    front: Box<dyn Front>,
    nothing: Nothing,
}

impl HitSim {
    /// A buffer of `entries` 4 KiB entries (the policy's own tables are taken from them) over a
    /// space of `pages` pages; `None` if there is no such policy.
    pub fn new(policy: &str, entries: usize, pages: u32) -> Option<HitSim> {
        Some(HitSim { front: front(policy, entries, pages, false)?, nothing: Nothing::new(pages) })
    }
    /// Plays accesses in order. A block of some thousand at a time is fastest.
    pub fn play(&mut self, accesses: &[HitAccess]) {
        self.front.touch(&mut self.nothing, accesses);
    }
    /// Counters per application.
    pub fn apps(&self) -> &[AppStats] {
        self.front.stats().1
    }
    /// Counters of the buffer.
    pub fn buffer(&self) -> crate::stats::BufferStats {
        self.front.stats().0
    }
    /// Checks the policy's lists.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.front.check()
    }
}
