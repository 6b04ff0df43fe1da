//! What each mechanism is worth, alone and beside the others.

use report::study::{Section, Table};
use report::values;

use super::cell::Mechanisms;
use super::measured::Measured;
use super::text::thousandths;

/// Numbers of a run that are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Flash pages programmed; drive writes until it is worn out, in hundredths.
    programs: u64,
    fills: u64,
    /// 99th percentiles in nanoseconds: SQLite's operations, updates of files, reads of the store.
    p99: [u64; 3],
    /// SQLite's operations in 1000 seconds.
    rate: u64,
}

/// What is compared.
pub(super) type Figure = fn(&Numbers) -> u64;

/// All of it. Of the lifetime and the rate more is better, of the others less.
pub(super) const FIGURES: [(&str, Figure); 6] = [
    ("flash pages", |n| n.programs),
    ("lifetime", |n| n.fills),
    ("SQLite op p99", |n| n.p99[0]),
    ("file update p99", |n| n.p99[1]),
    ("store read p99", |n| n.p99[2]),
    ("SQLite op/s", |n| n.rate),
];

/// The sixteen runs, for each seed.
pub(super) struct Found {
    seeds: Vec<Vec<Numbers>>,
}

impl Found {
    pub(super) fn new(seeds: &[Vec<Measured>]) -> Found {
        let numbers = |found: &Vec<Measured>| {
            let changed = found[0].changed();
            let one = |m: &Measured| Numbers {
                programs: m.programs(),
                fills: m.fills(m.asked(changed)),
                p99: m.p99().map(|span| span.map_or(0, |span| span.as_ns())),
                rate: m.sqlite.as_ref().map_or(0, crate::nolog::Outcome::rate),
            };
            found.iter().map(one).collect()
        };
        Found { seeds: seeds.iter().map(numbers).collect() }
    }

    /// A combination's figure, added up over the seeds.
    pub(super) fn sum(&self, bits: usize, of: Figure) -> u64 {
        self.seeds.iter().map(|runs| of(&runs[bits])).sum()
    }

    /// The geometric mean of `with / without` a mechanism over all seeds and the combinations of
    /// the others that `fits`, in thousandths.
    pub(super) fn effect(&self, bit: usize, fits: impl Fn(usize) -> bool, of: Figure) -> u64 {
        mean(self.seeds.iter().flat_map(|runs| effects(runs, bit, &fits, of)))
    }

    /// The least and the most that the mean effect is with one seed.
    fn range(&self, bit: usize, of: Figure) -> [u64; 2] {
        let each =
            self.seeds.iter().map(|runs| mean(effects(runs, bit, &|_| true, of).into_iter()));
        [each.clone().min().unwrap_or(0), each.max().unwrap_or(0)]
    }

    /// What two mechanisms cost together, for each what their effects alone multiply to: geometric
    /// mean over the seeds and the combinations of the other two, in thousandths.
    pub(super) fn interaction(&self, one: usize, two: usize, of: Figure) -> u64 {
        mean(self.seeds.iter().flat_map(|runs| interactions_of(runs, one, two, of)))
    }

    /// The least and the most that it is with one seed.
    pub(super) fn interaction_range(&self, one: usize, two: usize, of: Figure) -> [u64; 2] {
        let each =
            self.seeds.iter().map(|runs| mean(interactions_of(runs, one, two, of).into_iter()));
        [each.clone().min().unwrap_or(0), each.max().unwrap_or(0)]
    }
}

fn log(runs: &[Numbers], bits: usize, of: Figure) -> f64 {
    libm::log(of(&runs[bits]).max(1) as f64)
}

/// Logarithms of `with / without`.
fn effects(runs: &[Numbers], bit: usize, fits: &dyn Fn(usize) -> bool, of: Figure) -> Vec<f64> {
    let without = (0..16).filter(|bits| bits >> bit & 1 == 0 && fits(*bits));
    without.map(|bits| log(runs, bits | 1 << bit, of) - log(runs, bits, of)).collect()
}

fn interactions_of(runs: &[Numbers], one: usize, two: usize, of: Figure) -> Vec<f64> {
    let (one, two) = (1 << one, 1 << two);
    let base = (0..16).filter(|bits| bits & (one | two) == 0);
    base.map(|bits| {
        log(runs, bits | one | two, of) + log(runs, bits, of)
            - log(runs, bits | one, of)
            - log(runs, bits | two, of)
    })
    .collect()
}

fn mean(logs: impl Iterator<Item = f64>) -> u64 {
    let logs: Vec<f64> = logs.collect();
    (libm::exp(logs.iter().sum::<f64>() / logs.len().max(1) as f64) * 1000.0).round() as u64
}

fn range([least, most]: [u64; 2]) -> String {
    format!("{} to {}", thousandths(least), thousandths(most))
}

/// Each mechanism: in the mean, first and last.
pub(super) fn worth(found: &Found, kind: &str) -> Section {
    let mut table = Table::new([
        ("mechanism", "mechanism"),
        ("figure", "figure"),
        ("mean", "mean"),
        ("between_seeds", "between seeds"),
        ("alone", "alone"),
        ("last", "last"),
    ]);
    for (bit, name) in Mechanisms::NAMES.iter().enumerate() {
        for (figure, of) in FIGURES {
            let rest = 15 & !(1 << bit);
            table.row(values![
                *name,
                figure,
                thousandths(found.effect(bit, |_| true, of)),
                range(found.range(bit, of)),
                thousandths(found.effect(bit, |bits| bits == 0, of)),
                thousandths(found.effect(bit, |bits| bits == rest, of))
            ]);
        }
    }
    Section::new(
        format!("worth_{}", super::slug(kind)),
        format!("What each mechanism is worth, {kind}"),
        "With the mechanism for each without it: geometric mean over the eight combinations of the others and the \
         seeds, that mean with one seed, with none of the others, with all of them. Of the lifetime and of \
         op/s more is better.",
        table,
    )
}

/// Which ones overlap, help or hurt each other.
pub(super) fn interactions(found: &Found, kind: &str) -> Section {
    let mut table = Table::new([
        ("pair", "pair"),
        ("figure", "figure"),
        ("together", "together"),
        ("between_seeds", "between seeds"),
    ]);
    for one in 0..4 {
        for two in one + 1..4 {
            for (figure, of) in FIGURES {
                table.row(values![
                    Mechanisms::name(1 << one | 1 << two),
                    figure,
                    thousandths(found.interaction(one, two, of)),
                    range(found.interaction_range(one, two, of))
                ]);
            }
        }
    }
    Section::new(
        format!("overlap_{}", super::slug(kind)),
        format!("Which mechanisms overlap, {kind}"),
        "Both together for each what the two effects alone multiply to: 1 = they do not know of each \
         other; in pages and latencies more than 1 = they overlap or hurt each other, less = they \
         help each other. A number whose seeds lie on both sides of 1 says nothing.",
        table,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_that_multiply_do_not_interact() {
        let run = |bits: usize| {
            let on = |bit: usize| bits >> bit & 1 == 1;
            let mut programs = 1_000_000;
            programs = if on(0) { programs / 2 } else { programs };
            programs = if on(1) && !on(0) { programs / 4 } else { programs };
            Numbers { programs, fills: 1, p99: [5; 3], rate: 0 }
        };
        let found = Found { seeds: vec![(0..16).map(run).collect(); 2] };
        let pages = FIGURES[0].1;
        assert_eq!(found.effect(0, |bits| bits & 2 == 0, pages), 500);
        assert_eq!(found.effect(0, |bits| bits & 2 == 2, pages), 2000);
        assert_eq!(found.effect(2, |_| true, pages), 1000);
        assert_eq!(found.interaction(0, 1, pages), 4000);
        assert_eq!(found.interaction(0, 2, pages), 1000);
        assert_eq!(found.effect(3, |_| true, FIGURES[2].1), 1000);
        assert_eq!(found.range(0, pages), [1000, 1000]);
        assert_eq!(found.sum(1, pages), 1_000_000);
    }
}
