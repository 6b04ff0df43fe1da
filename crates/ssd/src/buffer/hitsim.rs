//! Hit ratios without a drive: the same pools and policies, no time, no flash.

use block::{AppId, Lpn, Op};

use super::{BufferShape, Front, PolicySpec};
use crate::backend::Nothing;
use crate::stats::AppStats;

/// One access to a 4 KiB page.
#[derive(Clone, Copy, Debug)]
pub struct HitAccess {
    /// The page.
    pub page: Lpn,
    /// Read, write, discard or flush (of everything).
    pub op: Op,
    /// Application.
    pub app: AppId,
    /// Number of the request it belongs to, from 1.
    pub request: u64,
    /// Length of that request in bytes.
    pub len: u32,
    /// Number of the access that uses the page next, if known: `u64::MAX` else.
    pub next_use: u64,
}

/// A buffer alone.
#[derive(Debug)]
pub struct HitSim {
    front: Box<dyn Front>,
    nothing: Nothing,
}

impl HitSim {
    /// A buffer with a policy, such as `lru` or `cflru(window=50 %)`.
    ///
    /// # Errors
    /// No such policy or option, or a buffer too small for it.
    pub fn new(policy: &str, shape: BufferShape) -> Result<HitSim, String> {
        HitSim::of(&PolicySpec::parse(policy)?, shape)
    }

    /// A buffer with a policy that was read before.
    ///
    /// # Errors
    /// A buffer too small for it.
    pub fn of(policy: &PolicySpec, shape: BufferShape) -> Result<HitSim, String> {
        let front = policy.build(shape)?;
        Ok(HitSim { front, nothing: Nothing::new(shape.pages) })
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
    /// Entries per list and other counts of the policy, by name.
    pub fn occupancy(&self) -> Vec<(&'static str, usize)> {
        self.front.occupancy()
    }
    /// Checks the policy's lists.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.front.check()
    }
}
