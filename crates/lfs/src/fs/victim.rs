//! Which segment is cleaned next. Integers only.

use super::options::Victim;
use super::segs::{Seg, Segs};
use crate::SegNo;

/// What a policy is asked under; fixed at the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) per_seg: u16,
    /// What recovery needs must be copied and counts as cost; what only a checkpoint frees, and
    /// what is held until then, is no victim.
    pub(super) journalled: bool,
    /// Held segments are victims, too (a planted bug).
    pub(super) unpinned: bool,
    /// Only valid blocks count as cost.
    pub(super) count_valid: bool,
}

impl Question {
    /// What cleaning a segment costs, in blocks; none: it is no victim, or nothing is gained.
    pub(super) fn cost(&self, seg: &Seg) -> Option<u16> {
        let copies = if self.journalled { seg.needed } else { seg.valid };
        let pinned = self.journalled && seg.is_held() && !self.unpinned;
        let cost = if self.count_valid { seg.valid } else { copies };
        let free_of_duty = !seg.head && !seg.copied && seg.ticket == 0 && !pinned;
        (copies > 0 && copies < self.per_seg && free_of_duty).then_some(cost)
    }
}

/// The best victim; none if cleaning would gain nothing anywhere. Of each cost only the oldest
/// segment is looked at: none of the others is better.
pub(super) fn choose(segs: &Segs, policy: Victim) -> Option<SegNo> {
    let per_seg = u64::from(segs.rule().per_seg);
    let candidates =
        || segs.candidates().map(|(seg, cost)| (seg, u64::from(cost), segs.of(seg).mtime));
    match policy {
        Victim::Greedy => candidates().next().map(|c| c.0),
        Victim::CostBenefit => {
            let oldest = candidates().map(|(.., mtime)| mtime).min()?;
            let newest = candidates().map(|(.., mtime)| mtime).max()?;
            let benefit = |(seg, cost, mtime): (SegNo, u64, u64)| {
                let used = cost * 100 / per_seg;
                let age = (newest - mtime) * 100 / (newest - oldest).max(1);
                // Numerator of (100 - u) * age / (100 + u), in fine steps; nothing is older: greedy.
                let worth = 1_000_000 * (100 - used) * age / (100 + used);
                (worth, u64::MAX - cost, u32::MAX - seg.0)
            };
            candidates().max_by_key(|c| benefit(*c)).map(|c| c.0)
        }
    }
}
