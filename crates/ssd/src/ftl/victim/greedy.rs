//! Fewest valid slots.

use super::{Choice, Victim, VictimSpec};

#[derive(Debug)]
struct Greedy;

pub(super) fn make(_: &VictimSpec) -> Option<Box<dyn Victim>> {
    Some(Box::new(Greedy))
}

impl Victim for Greedy {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        choice.lines.emptiest(choice.exact)
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(Greedy)
    }
}
