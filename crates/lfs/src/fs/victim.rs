//! Which segment is cleaned next. Integers only.

use super::options::Victim;
use super::segs::Segs;
use crate::SegNo;

/// What a policy is asked under.
pub(super) struct Question {
    pub(super) per_seg: u64,
    pub(super) policy: Victim,
    /// What recovery needs must be copied and counts as cost; what only a checkpoint frees, and
    /// what is held until then, is no victim.
    pub(super) journalled: bool,
    /// Held segments are victims, too (a planted bug).
    pub(super) unpinned: bool,
    /// Only valid blocks count as cost.
    pub(super) count_valid: bool,
}

/// The best victim; none if cleaning would gain nothing anywhere.
pub(super) fn choose(segs: &Segs, ask: &Question) -> Option<SegNo> {
    let may = |(seg, one): (SegNo, &super::segs::Seg)| {
        let copies = u64::from(if ask.journalled { one.needed } else { one.valid });
        let pinned = ask.journalled && one.held && !ask.unpinned;
        let cost = if ask.count_valid { u64::from(one.valid) } else { copies };
        let fits = copies > 0 && copies < ask.per_seg && !one.head && !pinned;
        fits.then_some((seg, cost, one.mtime))
    };
    let candidates = || segs.iter().filter_map(may);
    match ask.policy {
        Victim::Greedy => candidates().min_by_key(|(seg, cost, _)| (*cost, *seg)).map(|c| c.0),
        Victim::CostBenefit => {
            let oldest = candidates().map(|(.., mtime)| mtime).min()?;
            let newest = candidates().map(|(.., mtime)| mtime).max()?;
            let benefit = |(seg, cost, mtime): (SegNo, u64, u64)| {
                let used = cost * 100 / ask.per_seg;
                let age = (newest - mtime) * 100 / (newest - oldest).max(1);
                // Numerator of (100 - u) * age / (100 + u), in fine steps; nothing is older: greedy.
                let worth = 1_000_000 * (100 - used) * age / (100 + used);
                (worth, u64::MAX - cost, u32::MAX - seg.0)
            };
            candidates().max_by_key(|c| benefit(*c)).map(|c| c.0)
        }
    }
}
