//! The segment that was closed first.

use super::{Choice, Victim, closed};
use crate::geometry::Seg;

#[derive(Debug)]
struct Fifo;

pub(super) fn make(_: Option<u32>) -> Option<Box<dyn Victim>> {
    Some(Box::new(Fifo))
}

impl Victim for Fifo {
    fn choose(&mut self, choice: Choice<'_>) -> Option<Seg> {
        closed(choice.segments).min_by_key(|(seg, s)| (s.age, *seg)).map(|(seg, _)| seg)
    }
}
