//! Planted bugs: each must be caught, or the alarm is silent.

use std::fmt::Debug;

use varve_proof::{Density, Failure, Plan, hunt, replay};

/// Where the search for a bug begins: at the run that showed it when this was written, or at the first of all
/// (`VARVE_CUTS=all`; what no line names). Another draw may show it elsewhere: the search goes on from there.
fn first(bug: &str) -> u64 {
    if std::env::var("VARVE_CUTS").is_ok_and(|value| value == "all") {
        return 1;
    }
    let line = |line: &str| {
        let mut words = line.split(' ');
        (words.next() == Some(env!("CARGO_CRATE_NAME")) && words.next() == Some(bug))
            .then(|| words.next()?.parse().ok())?
    };
    include_str!("first.txt").lines().find_map(line).unwrap_or(1)
}

/// Plants a bug in the runs of all seeds from the [`first`] on until it is caught: the plan with the cuts that
/// show it, and the promise broken. What it took is printed.
///
/// # Panics
/// If it is not caught within `budget` cuts.
pub fn caught<S>(
    bug: impl Debug,
    budget: u64,
    draw: impl Fn(u64) -> (Plan, S, u64),
    density: Density,
) -> (Plan, Failure) {
    let mut cuts = 0;
    for seed in first(&format!("{bug:?}")).. {
        let mut plan = draw(seed).0;
        plan.bug = Some(format!("{bug:?}"));
        let outcome = hunt(&plan, density).expect("the bug's name");
        cuts += outcome.tally.cuts;
        if let Some(broken) = outcome.broken {
            println!("{bug:?}: seed {seed}, {cuts} cuts: {}", broken.failure);
            plan.cuts = broken.cuts;
            plan.contract = Some(broken.failure.contract);
            return (plan, broken.failure);
        }
        if cuts > budget {
            break;
        }
    }
    panic!("{bug:?} was not caught within {budget} cuts");
}

/// A plan, read back from its own text, leads to what it was written for.
pub fn is_shown_by(plan: &Plan) {
    let read_back = Plan::parse(&plan.text()).expect("its own text");
    let again = replay(&read_back).expect("what was built before");
    assert!(again.as_written(), "{:?}: following the plan gave: {again}", plan.bug);
}
