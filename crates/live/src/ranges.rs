//! Numbers as runs: which are in it, in little room.

use std::collections::BTreeMap;

/// Runs that neither meet nor touch: the first number of each, and the one behind it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Runs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(from, to)| (*from, *to))
    }

    /// What lies between two numbers.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let before = self.0.range(..from).next_back().filter(|(_, end)| **end > from && from < to);
        let runs = before.into_iter().chain(self.0.range(from..to));
        runs.map(move |(first, end)| ((*first).max(from), (*end).min(to)))
    }

    /// Whether a number is in it.
    pub fn has(&self, number: u64) -> bool {
        self.within(number, number + 1).next().is_some()
    }

    /// Takes in all numbers of a run.
    pub fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut first, mut end) = (from, to);
        let touching: Vec<(u64, u64)> = {
            let before = self.0.range(..from).next_back().filter(|(_, end)| **end >= from);
            before.into_iter().chain(self.0.range(from..=to)).map(|(a, b)| (*a, *b)).collect()
        };
        for (a, b) in touching {
            self.0.remove(&a);
            (first, end) = (first.min(a), end.max(b));
        }
        self.0.insert(first, end);
    }

    /// Takes all numbers of a run out.
    pub fn remove(&mut self, from: u64, to: u64) {
        let cut: Vec<(u64, u64)> = self.within(from, to).collect();
        for (a, b) in cut {
            let Some((first, end)) = self.0.range(..=a).next_back().map(|(x, y)| (*x, *y)) else {
                continue;
            };
            self.0.remove(&first);
            if first < a {
                self.0.insert(first, a);
            }
            if b < end {
                self.0.insert(b, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use block::Rng;

    use super::*;

    #[test]
    fn runs_are_the_numbers_that_are_in_it() {
        let (mut rng, mut ranges, mut model) = (Rng::new(3), Ranges::default(), BTreeSet::new());
        for _ in 0..2000 {
            let from = rng.below(60);
            let to = from + rng.below(12);
            match rng.ratio(1, 2) {
                true => {
                    ranges.insert(from, to);
                    model.extend(from..to);
                }
                false => {
                    ranges.remove(from, to);
                    model.retain(|number| !(from..to).contains(number));
                }
            }
            let found: Vec<u64> = ranges.runs().flat_map(|(a, b)| a..b).collect();
            assert!(found.iter().eq(&model), "{from}..{to}: {ranges:?}");
            let runs: Vec<(u64, u64)> = ranges.runs().collect();
            assert!(runs.windows(2).all(|two| two[0].1 < two[1].0), "{ranges:?}");
            let (a, b) = (rng.below(70), rng.below(70));
            let within: Vec<u64> = ranges.within(a, b.max(a)).flat_map(|(a, b)| a..b).collect();
            assert!(within.iter().eq(model.range(a..b.max(a))), "{a}..{b}: {ranges:?}");
            assert_eq!(ranges.has(a), model.contains(&a));
        }
    }
}
