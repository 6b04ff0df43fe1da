//! Cost-benefit: (1 - u) * age / (1 + u), in integers (Rosenblum and Ousterhout, 1991; flash form
//! by Kawaguchi et al., 1995, with 1 + u for the read and the write).

use super::{Choice, LineTable, Victim, VictimSpec};

#[derive(Debug)]
struct CostBenefit;

pub(super) fn make(_: &VictimSpec) -> Option<Box<dyn Victim>> {
    Some(Box::new(CostBenefit))
}

impl Victim for CostBenefit {
    /// Of equals, the one closed first. On large drives only one line of each bucket is a candidate,
    /// the one that has been there longest.
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let lines = &*choice.lines;
        if choice.exact {
            most(lines, choice.now, lines.in_order())
        } else {
            most(lines, choice.now, lines.bucket_firsts())
        }
    }
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(CostBenefit)
    }
}

fn most(lines: &LineTable, now: u64, among: impl Iterator<Item = u32>) -> Option<u32> {
    let full = u128::from(lines.full_slots());
    let mut best: Option<(u128, u128, u32)> = None;
    for line in among {
        let entry = lines.get(line);
        let valid = u128::from(entry.valid);
        let gain = full.saturating_sub(valid) * u128::from(now - entry.closed_at + 1);
        let cost = full + valid;
        // gain / cost, compared by cross-multiplication.
        if best.is_none_or(|(g, c, _)| gain * c > g * cost) {
            best = Some((gain, cost, line));
        }
    }
    best.map(|(_, _, line)| line)
}
