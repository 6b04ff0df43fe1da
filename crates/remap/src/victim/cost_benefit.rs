//! Space gained times age over the cost of moving: (1 - u) * age / (1 + u), in integers.
//!
//! Within one live count only age matters, so the oldest of each bucket is a candidate.

use super::{Choice, Victim};
use crate::geometry::Seg;

#[derive(Debug)]
struct CostBenefit;

pub(super) fn make(_: Option<u32>) -> Option<Box<dyn Victim>> {
    Some(Box::new(CostBenefit))
}

impl Victim for CostBenefit {
    fn choose(&mut self, choice: Choice<'_>) -> Option<Seg> {
        // Compared as fractions, by cross-multiplication in 128 bits.
        let mut best: Option<(u128, u128, Seg)> = None;
        let mut live = 0;
        while let Some(bucket) = choice.segments.bucket_from(live) {
            live = bucket + 1;
            let Some(seg) = choice.segments.oldest_of(bucket) else { continue };
            let age = choice.now.saturating_sub(choice.segments.get(seg).age) + 1;
            let gain = u128::from(choice.blocks.saturating_sub(bucket)) * u128::from(age);
            let cost = u128::from(choice.blocks + bucket);
            if best.is_none_or(|(g, c, _)| gain * c > g * cost) {
                best = Some((gain, cost, seg));
            }
            if live > choice.blocks {
                break;
            }
        }
        best.map(|(_, _, seg)| seg)
    }
}
