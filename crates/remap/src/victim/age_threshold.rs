//! Greedy among segments that have had time to lose blocks; else greedy among all.

use super::{Choice, Victim, closed};
use crate::geometry::Seg;

#[derive(Debug)]
struct AgeThreshold {
    segments: u64,
}

pub(super) fn make(parameter: Option<u32>) -> Option<Box<dyn Victim>> {
    Some(Box::new(AgeThreshold { segments: u64::from(parameter.unwrap_or(16)) }))
}

impl Victim for AgeThreshold {
    fn choose(&mut self, choice: Choice<'_>) -> Option<Seg> {
        let old = self.segments * u64::from(choice.blocks);
        let aged = |age: u64| choice.now.saturating_sub(age) >= old;
        closed(choice.segments)
            .filter(|(_, s)| aged(s.age))
            .min_by_key(|(seg, s)| (s.live, s.age, *seg))
            .map(|(seg, _)| seg)
            .or_else(|| choice.segments.emptiest())
    }
}
