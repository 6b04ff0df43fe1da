//! A fixed piece of the searches that `prove` makes for hours.

use varve_proof::{Density, Plan, Tally, hunt, twice};

/// Searches the runs of these seeds, each in whole. `draw` gives what the crate's functions of that
/// kind give: a plan, what it is of, and the configurations refused before it.
///
/// # Panics
/// At a broken promise, with the seed and the plan that leads there.
pub fn search<S>(
    seeds: impl Iterator<Item = u64>,
    draw: impl Fn(u64) -> (Plan, S, u64),
    density: Density,
) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let (plan, _, refused) = draw(seed);
        let outcome = hunt(&plan, density).expect("what was drawn can be built");
        if let Some(broken) = outcome.broken {
            panic!("seed {seed}: {}\n{:?}\n{}", broken.failure, broken.cuts, plan.text());
        }
        tally.merge(&outcome.tally);
        tally.refused += refused;
    }
    tally
}

/// C9: a seed draws the same plan each time, and a plan does the same each time.
pub fn same_bytes<S>(seeds: impl Iterator<Item = u64>, draw: impl Fn(u64) -> (Plan, S, u64)) {
    for seed in seeds {
        let plan = draw(seed).0;
        assert_eq!(plan, draw(seed).0);
        twice(&plan).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
