//! Closed first (also called circular or LRU cleaning): a line without anything to gain is copied
//! when its turn comes.

use super::{Choice, Victim, VictimSpec};

#[derive(Debug)]
struct Fifo;

pub(super) fn make(_: &VictimSpec) -> Option<Box<dyn Victim>> {
    Some(Box::new(Fifo))
}

impl Victim for Fifo {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        choice.lines.oldest()
    }
    fn in_turn(&self) -> bool {
        true
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(Fifo)
    }
}
