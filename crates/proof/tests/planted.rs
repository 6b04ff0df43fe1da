//! The alarm is known to work: every planted bug of the drive is caught, and what it takes is
//! printed. A silent alarm here is a failure of the harness, not of the drive.

use proof::{Contract, Density, Draw, DriveSpec, draw_run, hunt, replay, shrink};
use ssd::Bug;

/// Cuts within which each must be found.
const BUDGET: u64 = 200_000;

fn caught(bug: Bug, draw: &Draw) -> Option<(u64, u64, proof::Plan, proof::Failure)> {
    let mut cuts = 0;
    for seed in 1.. {
        let (mut plan, _, _) = draw_run(seed, draw);
        plan.bug = Some(format!("{bug:?}"));
        let spec = DriveSpec::of(&plan).expect("the same drive");
        let outcome = hunt(&plan, &spec, Density::SHORT);
        cuts += outcome.tally.cuts;
        if let Some(broken) = outcome.broken {
            plan.cuts = broken.cuts;
            plan.contract = Some(broken.failure.contract);
            return Some((seed, cuts, plan, broken.failure));
        }
        if cuts > BUDGET {
            return None;
        }
    }
    None
}

#[test]
fn every_planted_bug_is_caught() {
    for bug in Bug::ALL {
        // A bug in the handling of faults needs some.
        let faulty = if bug == Bug::ReuseBadBlock { 1 } else { Draw::SHORT.faulty };
        let draw = Draw { faulty, ..Draw::SHORT };
        let Some((seed, cuts, plan, failure)) = caught(bug, &draw) else {
            panic!("{bug:?} was not caught within {BUDGET} cuts");
        };
        println!("{bug:?}: seed {seed}, {cuts} cuts: {failure}");
        let again = replay(&plan).expect("the same drive");
        assert!(again.as_written(), "{bug:?}: following the plan gave: {again}");
    }
}

#[test]
fn accounting_and_page_states_are_checked_by_their_own_lines() {
    for (bug, contract) in [(Bug::GcCountedAsHost, Contract::C8), (Bug::LeakValid, Contract::C7)] {
        let (_, _, _, failure) = caught(bug, &Draw::HEALTHY).expect("caught");
        assert_eq!(failure.contract, contract, "{bug:?}: {failure}");
    }
}

#[test]
fn a_failure_shrinks_to_a_plan_that_still_shows_it() {
    let (_, _, plan, failure) = caught(Bug::TrimLost, &Draw::HEALTHY).expect("caught");
    let small = shrink(&plan, &failure, 300);
    assert!(small.work.len() <= 6, "{} steps are left of {}", small.work.len(), plan.work.len());
    let read_back = proof::Plan::parse(&small.text()).expect("its own text");
    assert_eq!(read_back, small);
    let outcome = replay(&read_back).expect("the same drive");
    assert!(outcome.as_written() && outcome.reached, "{outcome}");
    assert_eq!(outcome.hash_matches, Some(true));
}
