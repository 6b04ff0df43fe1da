//! A budgeted piece of the search that `prove` makes for hours: seconds, every run of the tests.

mod search;

use search::{same_bytes, search};
use varve_proof::{Density, Draw, draw_run};

#[test]
fn no_cut_of_a_short_run_breaks_a_promise() {
    let tally = search(0..60, |seed| draw_run(seed, &Draw::HEALTHY), Density::SHORT);
    assert!(tally.cuts > 20_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.triples() > 100, "{} distinct triples", tally.triples());
    assert!(tally.later > 100, "{} cuts in work after a recovery", tally.later);
}

#[test]
fn faults_of_the_array_come_out_as_the_atlas_says() {
    let draw = Draw { faulty: 1, ..Draw::SHORT };
    let tally = search(0..60, |seed| draw_run(seed, &draw), Density::SHORT);
    assert!(tally.media.len() >= 11, "{:?}", tally.media);
}

#[test]
fn bytes_are_kept_as_stamps_are() {
    let draw = Draw { bytes: 1, faulty: 0, ..Draw::SHORT };
    let tally = search(0..12, |seed| draw_run(seed, &draw), Density::SHORT);
    assert!(tally.cuts > 1000, "{} cuts", tally.cuts);
}

#[test]
fn cuts_of_long_runs_are_sampled() {
    let density = Density { operations: 100, ..Density::SHORT };
    let draw = Draw { steps: (400, 1500), ..Draw::HEALTHY };
    let tally = search(1000..1012, |seed| draw_run(seed, &draw), density);
    assert!(tally.steps > 5000, "{} steps", tally.steps);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    same_bytes(0..60, |seed| draw_run(seed, &Draw::SHORT));
}
