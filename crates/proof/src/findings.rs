//! What the searches of some seeds came to, put together.
//!
//! Invariants: it does not depend on the order in which runs were added, nor on how they were split; its size does
//! not depend on how many there were.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::coverage::Tally;
use crate::digest::RunsDigest;
use crate::failure::Failure;

/// Broken promises that are kept with what was seen, those of the lowest seeds: others are counted.
const KEPT: usize = 100;

/// What the searches of some seeds came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// What was tried.
    pub tally: Tally,
    /// Of each run: what was tried, what it did, what was found.
    pub digest: RunsDigest,
    /// Runs that broke a promise.
    pub violations: u64,
    /// Those of the lowest seeds, with what was seen.
    pub first: BTreeMap<u64, String>,
}

impl Findings {
    /// Adds a run: its seed, what was tried, the event hashes of what it did and of what all its recoveries did, and
    /// what broke.
    pub fn add(&mut self, seed: u64, tally: &Tally, hashes: [u64; 2], failure: Option<&Failure>) {
        let verdict = failure.map(ToString::to_string).unwrap_or_default();
        let [hash, recoveries] = hashes;
        let mut run = format!("seed {seed}\nhash {hash:016x}\nrecoveries {recoveries:016x}\n");
        let _ = writeln!(run, "verdict {verdict:?}");
        for (name, count) in tally.counts() {
            let _ = writeln!(run, "{name} {count}");
        }
        for (name, count) in &tally.media {
            let _ = writeln!(run, "media {name} {count}");
        }
        run += &tally.bitmap();
        self.digest.add(&run);
        self.tally.merge(tally);
        if failure.is_some() {
            self.violations += 1;
            self.first.insert(seed, verdict);
            self.shorten();
        }
    }

    /// Adds what other seeds came to.
    pub fn merge(&mut self, other: &Findings) {
        self.tally.merge(&other.tally);
        self.digest.merge(&other.digest);
        self.violations += other.violations;
        self.first.extend(other.first.iter().map(|(seed, what)| (*seed, what.clone())));
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.first.len() > KEPT {
            self.first.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Contract;
    use crate::step::Class;

    /// A run of a seed that tried and found something.
    fn run(into: &mut Findings, seed: u64) {
        let mut tally = Tally::default();
        (tally.seeds, tally.steps) = (1, seed);
        (0..seed % 7).for_each(|n| tally.cut(Class::Mount, n as u8, 0, false));
        tally.media.insert(format!("fault-{}", seed % 3), 1);
        let failure = seed.is_multiple_of(2).then(|| Failure::new(Contract::C1, format!("{seed}")));
        into.add(seed, &tally, [seed * seed, !seed], failure.as_ref());
    }

    fn of(seeds: impl Iterator<Item = u64>) -> Findings {
        let mut all = Findings::default();
        seeds.for_each(|seed| run(&mut all, seed));
        all
    }

    #[test]
    fn order_and_parts_make_no_difference() {
        let whole = of(1..=1000);
        assert_eq!(whole, of((1..=1000).rev()));
        let mut parts = of(400..=1000);
        parts.merge(&of(1..=399));
        assert_eq!(whole, parts);
        assert_eq!((whole.tally.seeds, whole.violations, whole.first.len()), (1000, 500, KEPT));
        assert_eq!(
            whole.first.keys().next_back(),
            Some(&200),
            "those of the lowest seeds are kept"
        );
    }

    #[test]
    fn a_run_that_differs_in_anything_has_another_digest() {
        let base = of(1..=9).digest;
        type Change<'a> = &'a dyn Fn(&mut Tally, &mut [u64; 2], &mut Option<Failure>);
        let differs = |change: Change<'_>| {
            let mut all = of(1..=8);
            let mut one = Findings::default();
            run(&mut one, 9);
            let (mut tally, mut hashes, mut failure) = (one.tally, [81, !9], None);
            change(&mut tally, &mut hashes, &mut failure);
            all.add(9, &tally, hashes, failure.as_ref());
            all.digest != base
        };
        assert!(!differs(&|_, _, _| ()));
        assert!(differs(&|tally, _, _| tally.steps += 1));
        assert!(differs(&|tally, _, _| tally.cut(Class::Mount, 19, 3, true)));
        assert!(differs(&|tally, _, _| *tally.media.get_mut("fault-0").unwrap() += 1));
        assert!(differs(&|_, hashes, _| hashes[0] += 1));
        assert!(differs(&|_, hashes, _| hashes[1] -= 1));
        assert!(differs(&|_, _, failure| *failure = Some(Failure::new(Contract::C1, ""))));
    }
}
