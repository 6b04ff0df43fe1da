//! Toys with a way of breaking them: the harness must notice each.

use std::fmt::Debug;

use varve_proof::{Broken, Contract, Density, Oracle, Prover, Subject};

/// Cuts made until the first broken promise, over at most so many seeds; `steps` draws the work of a
/// seed, and the work after each recovery.
///
/// # Panics
/// If the cuts alone, made again, do not show what was found.
pub fn hunt<S: Subject, O: Oracle<S>>(
    spec: &S::Spec,
    steps: impl Fn(u64) -> (Vec<O::Step>, Vec<O::Step>),
    seeds: u64,
) -> (u64, Option<Broken>) {
    let mut cuts = 0;
    for seed in 0..seeds {
        let (work, after) = steps(seed);
        let prover = || Prover::<S, O>::new(spec, &work, &after, seed, Density::SHORT);
        let mut first = prover();
        let result = first.hunt();
        cuts += first.tally.cuts;
        if let Err(broken) = result {
            let again = prover().walk(&broken.cuts).expect_err("the cuts alone show it again");
            assert_eq!(again.failure.contract, broken.failure.contract);
            return (cuts, Some(broken));
        }
    }
    (cuts, None)
}

/// Each way of breaking it is caught, by one of the lines of the contract that are named.
pub fn all_are_caught<B: Copy + Debug, const N: usize>(
    ways: [(B, &[Contract]); N],
    hunt: impl Fn(B) -> (u64, Option<Broken>),
) {
    for (broken, contracts) in ways {
        let (cuts, found) = hunt(broken);
        let found = found.unwrap_or_else(|| panic!("{broken:?} was not caught in {cuts} cuts"));
        println!("{broken:?}: {} after {cuts} cuts", found.failure);
        assert!(contracts.contains(&found.failure.contract), "{broken:?}: {}", found.failure);
    }
}
