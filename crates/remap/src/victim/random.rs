//! Any closed segment.

use super::{Choice, Victim, closed};
use crate::geometry::Seg;

#[derive(Debug)]
struct Random;

pub(super) fn make(_: Option<u32>) -> Option<Box<dyn Victim>> {
    Some(Box::new(Random))
}

impl Victim for Random {
    fn choose(&mut self, choice: Choice<'_>) -> Option<Seg> {
        let count = u64::from(choice.segments.closed());
        let nth = if count == 0 { return None } else { choice.rng.below(count) };
        closed(choice.segments).nth(nth as usize).map(|(seg, _)| seg)
    }
}
