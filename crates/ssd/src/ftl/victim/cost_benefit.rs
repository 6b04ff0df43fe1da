//! Cost-benefit: (1 - u) * age / (1 + u), in integers (Rosenblum and Ousterhout, 1991; flash form
//! by Kawaguchi et al., 1995, with 1 + u for the read and the write).

use super::{Choice, Victim};

#[derive(Debug)]
struct CostBenefit;

pub(super) fn make(_: Option<u32>) -> Option<Box<dyn Victim>> {
    Some(Box::new(CostBenefit))
}

impl Victim for CostBenefit {
    /// One candidate per bucket, the one that has been there longest, not all lines.
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let (lines, now) = (&*choice.lines, choice.now);
        let full = u128::from(lines.full_slots);
        let mut best: Option<(u128, u128, u32)> = None;
        for line in lines.bucket_firsts() {
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
    fn boxed(&self) -> Box<dyn Victim> {
        Box::new(CostBenefit)
    }
}
