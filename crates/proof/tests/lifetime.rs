//! Power cuts of drives whose data lies by lifetime: six open lines, of which any may be cut off half
//! written, with checkpoints and with transactions. The searches of all kinds draw them too, but
//! seldom.

mod bugs;
mod search;

use bugs::{caught, is_shown_by};
use search::{same_bytes, search};
use ssd::Bug;
use varve_proof::{
    Density, Draw, DriveSpec, DriveSubject, Oracle, PageOracle, Plan, Subject, draw_run, draw_tx,
};

/// The first `count` seeds whose plan places data by lifetime and has what `also` asks for.
fn seeds(
    count: usize,
    draw: impl Fn(u64) -> (Plan, DriveSpec, u64),
    also: impl Fn(&Plan) -> bool,
) -> Vec<u64> {
    let by_lifetime = |plan: &Plan| plan.config["streams.policy"] == "lifetime";
    let fits = |seed: &u64| {
        let plan = draw(*seed).0;
        by_lifetime(&plan) && also(&plan)
    };
    (0..20_000).filter(fits).take(count).collect()
}

fn has_checkpoints(plan: &Plan) -> bool {
    plan.config.get("ckpt.mode").is_some_and(|mode| mode == "interval")
}

#[test]
fn no_cut_breaks_a_promise() {
    let draw = |seed| draw_run(seed, &Draw::HEALTHY);
    let seeds = seeds(30, draw, |_| true);
    let tally = search(seeds.into_iter(), draw, Density::SHORT);
    assert!(tally.cuts > 8_000, "{} cuts are too few to mean anything", tally.cuts);
}

#[test]
fn no_cut_loses_what_is_newer_than_a_checkpoint() {
    let draw = |seed| draw_run(seed, &Draw::HEALTHY);
    let tally = search(seeds(15, draw, has_checkpoints).into_iter(), draw, Density::SHORT);
    assert!(tally.cuts > 4_000, "{} cuts are too few to mean anything", tally.cuts);
}

#[test]
fn no_cut_breaks_a_transaction() {
    let draw = |seed| draw_tx(seed, &Draw::HEALTHY);
    let tally = search(seeds(30, draw, |_| true).into_iter(), draw, Density::SHORT);
    assert!(tally.cuts > 6_000, "{} cuts are too few to mean anything", tally.cuts);
}

/// What the runs come to, without any cut: lines of all six heads, cleaned.
#[test]
fn the_runs_clean() {
    let draw = |seed| draw_run(seed, &Draw::HEALTHY);
    let mut victims = 0;
    for seed in seeds(30, draw, |_| true) {
        let (plan, spec, _) = draw(seed);
        let mut subject = DriveSubject::build(&spec).expect("a drive");
        let mut oracle = PageOracle::new(&spec, &subject);
        for step in &plan.work {
            oracle.apply(&mut subject, step).expect("holds");
        }
        victims += subject.drive().stats().gc.victims;
    }
    assert!(victims > 100, "{victims} victims");
}

#[test]
fn a_checkpoint_that_forgets_open_lines_is_caught() {
    let draw = Draw { faulty: 0, ..Draw::SHORT };
    let draw = |seed| draw_run(seed, &draw);
    let seeds = seeds(200, draw, has_checkpoints);
    let nth = |n: u64| draw(seeds[n as usize % seeds.len()]);
    let (plan, _) = caught(Bug::CheckpointTwoHeads, 200_000, nth, Density::SHORT);
    is_shown_by(&plan);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let draw = |seed| draw_run(seed, &Draw::SHORT);
    same_bytes(seeds(10, draw, |_| true).into_iter(), draw);
}
