//! Any closed line: the upper end of every comparison.

use super::{Choice, Victim, VictimSpec};

#[derive(Debug)]
struct Random;

pub(super) fn make(_: &VictimSpec) -> Option<Box<dyn Victim>> {
    Some(Box::new(Random))
}

impl Victim for Random {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let closed = choice.lines.closed();
        (!closed.is_empty()).then(|| *choice.rng.pick(closed))
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(Random)
    }
}
