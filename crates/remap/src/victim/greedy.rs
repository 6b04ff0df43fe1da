//! Fewest live blocks.

use super::{Choice, Victim};
use crate::geometry::Seg;

#[derive(Debug)]
struct Greedy;

pub(super) fn make(_: Option<u32>) -> Option<Box<dyn Victim>> {
    Some(Box::new(Greedy))
}

impl Victim for Greedy {
    fn choose(&mut self, choice: Choice<'_>) -> Option<Seg> {
        choice.segments.emptiest()
    }
}
