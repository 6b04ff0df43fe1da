//! The alarm is known to work: every planted bug of the drive is caught (those of its transactions
//! in `tx.rs`), and what it takes is printed. A silent alarm here is a failure of the harness, not of the drive.

mod bugs;

use bugs::{caught, is_shown_by};
use proof::{Contract, Density, Draw, DriveSpec, Failure, Plan, draw_run, draw_tx, replay, shrink};
use ssd::Bug;

/// Cuts within which each must be found.
const BUDGET: u64 = 200_000;

/// A drive's run, healthy.
fn healthy(seed: u64) -> (Plan, DriveSpec, u64) {
    draw_run(seed, &Draw::HEALTHY)
}

#[test]
fn every_planted_bug_is_caught() {
    for bug in Bug::ALL {
        // A bug in the handling of faults needs some.
        let faulty = if bug == Bug::ReuseBadBlock { 1 } else { Draw::SHORT.faulty };
        let draw = Draw { faulty, ..Draw::SHORT };
        let (plan, _) = caught(bug, BUDGET, |seed| draw_run(seed, &draw), Density::SHORT);
        is_shown_by(&plan);
    }
}

#[test]
fn accounting_and_page_states_are_checked_by_their_own_lines() {
    for (bug, contract) in [(Bug::GcCountedAsHost, Contract::C8), (Bug::LeakValid, Contract::C7)] {
        let (_, failure) = caught(bug, BUDGET, healthy, Density::SHORT);
        assert_eq!(failure.contract, contract, "{bug:?}: {failure}");
    }
}

/// A plan of at most so many steps is left of the one that shows a failure.
fn shrinks((plan, failure): (Plan, Failure), most: usize) {
    let small = shrink(&plan, &failure, 300);
    assert!(small.work.len() <= most, "{} steps are left of {}", small.work.len(), plan.work.len());
    let read_back = Plan::parse(&small.text()).expect("its own text");
    assert_eq!(read_back, small);
    let outcome = replay(&read_back).expect("the same drive");
    assert!(outcome.as_written() && outcome.reached, "{outcome}");
    assert_eq!(outcome.hash_matches, Some(true));
}

#[test]
fn a_failure_shrinks_to_a_plan_that_still_shows_it() {
    shrinks(caught(Bug::TrimLost, BUDGET, healthy, Density::SHORT), 6);
}

#[test]
fn a_failure_of_a_transaction_shrinks_too() {
    let draw = |seed| draw_tx(seed, &Draw::HEALTHY);
    let (plan, failure) = caught(Bug::TxAbortMapsCopy, BUDGET, draw, Density::SHORT);
    assert_eq!(failure.contract, Contract::C4);
    shrinks((plan, failure), 8);
}
