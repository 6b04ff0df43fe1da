//! A budgeted piece of the search that `prove` makes for hours: seconds, every run of the tests.

use proof::{Density, Draw, Tally, draw_run, hunt, twice};

fn search(seeds: std::ops::Range<u64>, draw: &Draw, density: Density) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let (plan, spec, refused) = draw_run(seed, draw);
        let outcome = hunt(&plan, &spec, density);
        if let Some(broken) = outcome.broken {
            panic!("seed {seed}: {}\n{:?}\n{}", broken.failure, broken.cuts, plan.text());
        }
        tally.merge(&outcome.tally);
        tally.refused += refused;
    }
    tally
}

#[test]
fn no_cut_of_a_short_run_breaks_a_promise() {
    let tally = search(0..60, &Draw::HEALTHY, Density::SHORT);
    assert!(tally.cuts > 20_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.triples() > 100, "{} distinct triples", tally.triples());
    assert!(tally.later > 100, "{} cuts in work after a recovery", tally.later);
}

#[test]
fn faults_of_the_array_come_out_as_the_atlas_says() {
    let tally = search(0..60, &Draw { faulty: 1, ..Draw::SHORT }, Density::SHORT);
    assert!(tally.media.len() >= 11, "{:?}", tally.media);
}

#[test]
fn bytes_are_kept_as_stamps_are() {
    let tally = search(0..12, &Draw { bytes: 1, faulty: 0, ..Draw::SHORT }, Density::SHORT);
    assert!(tally.cuts > 1000, "{} cuts", tally.cuts);
}

#[test]
fn cuts_of_long_runs_are_sampled() {
    let density = Density { operations: 100, ..Density::SHORT };
    let draw = Draw { steps: (400, 1500), ..Draw::HEALTHY };
    let tally = search(1000..1012, &draw, density);
    assert!(tally.steps > 5000, "{} steps", tally.steps);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..60 {
        let (plan, spec, _) = draw_run(seed, &Draw::SHORT);
        let (again, _, _) = draw_run(seed, &Draw::SHORT);
        assert_eq!(plan, again);
        twice(&plan, &spec).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
