//! Greedy among lines that have had time to lose what they will lose soon; greedy among all if
//! none is old enough.

use super::{Choice, Victim, VictimSpec};

#[derive(Debug)]
struct AgeThreshold {
    lines: u32,
}

pub(super) fn make(spec: &VictimSpec) -> Option<Box<dyn Victim>> {
    Some(Box::new(AgeThreshold { lines: spec.parameter.unwrap_or(16) }))
}

impl Victim for AgeThreshold {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let age = u64::from(self.lines) * u64::from(choice.lines.full_slots());
        let (lines, now) = (&*choice.lines, choice.now);
        let is_old = |line: &u32| now - lines.get(*line).closed_at >= age;
        let old = match choice.exact {
            // In the order of closing: behind the first young line all are young.
            true => lines.in_order().take_while(is_old).min_by_key(|line| lines.get(*line).valid),
            // One of each bucket, the one that has been there longest.
            false => lines.bucket_firsts().find(is_old),
        };
        match old {
            Some(line) => Some(line),
            None => choice.lines.emptiest(choice.exact),
        }
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(AgeThreshold { lines: self.lines })
    }
}
