//! The emptiest of d lines drawn at random (Van Houdt, SIGMETRICS 2013).

use super::{Choice, Victim, VictimSpec};

#[derive(Debug)]
struct DChoice {
    draws: u32,
}

pub(super) fn make(spec: &VictimSpec) -> Option<Box<dyn Victim>> {
    let draws = spec.parameter.unwrap_or(10);
    (1..=1000).contains(&draws).then(|| Box::new(DChoice { draws }) as Box<dyn Victim>)
}

impl Victim for DChoice {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let closed = choice.lines.closed();
        if closed.is_empty() {
            return None;
        }
        (0..self.draws)
            .map(|_| *choice.rng.pick(closed))
            .min_by_key(|line| (choice.lines.get(*line).valid, *line))
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(DChoice { draws: self.draws })
    }
}
