//! The alarm is known to work: every planted bug of the drive is caught (those of its transactions
//! in `tx.rs`), and what it takes is printed. A silent alarm here is a failure of the harness, not of the drive.

mod bugs;

use block::Rng;
use bugs::{caught, is_shown_by};
use ssd::Bug;
use varve_proof::{
    Action, Contract, Density, Draw, DriveSpec, Failure, Plan, Step, draw_run, draw_tx, hunt,
    replay, shrink,
};

/// Cuts within which each must be found.
const BUDGET: u64 = 200_000;

/// A drive's run, healthy.
fn healthy(seed: u64) -> (Plan, DriveSpec, u64) {
    draw_run(seed, &Draw::HEALTHY)
}

/// A run on a drive whose checkpoints share word lines and follow each other closely: what one
/// of them alone knows, discards above all, is lost if the next one's programs tear it. The
/// usual runs come to this once in a million cuts.
fn checkpoints(seed: u64) -> (Plan, (), u64) {
    let mut rng = Rng::stream(seed, "planted/checkpoints");
    let keys = [
        ("nand.oob", "full"),
        ("geometry.channels", "1"),
        ("geometry.dies", "1"),
        ("geometry.planes", "1"),
        ("geometry.blocks", "12"),
        ("geometry.pages", "6"),
        ("geometry.page", "4 KiB"),
        ("geometry.cell_bits", "3"),
        ("nand.page_types", "lsb-msb"),
        ("op", "200 %"),
        ("streams.policy", "single"),
        ("buffer.policy", "none"),
        ("ckpt.mode", "interval"),
        ("ckpt.interval", *rng.pick(&["3 %", "6 %", "12 %", "25 %"])),
    ];
    let config = keys.map(|(key, text)| (key.to_string(), text.to_string())).into();
    let mut plan = Plan { seed, config, ..Plan::default() };
    for _ in 0..rng.between(40, 120) {
        let page = rng.below(8) as u32;
        plan.work.push(Step::new(match rng.below(10) {
            0 | 1 => Action::Discard { page, count: 1 },
            2 => Action::Flush,
            n => Action::Write { page, count: 1, fua: n < 5 },
        }));
    }
    (plan, (), 0)
}

#[test]
fn every_planted_bug_is_caught() {
    for bug in Bug::ALL {
        if bug == Bug::CheckpointLeftOpen {
            let (plan, _) = caught(bug, BUDGET, checkpoints, Density::SHORT);
            is_shown_by(&plan);
            continue;
        }
        // A bug in the handling of faults needs some.
        let faulty = if bug == Bug::ReuseBadBlock { 1 } else { Draw::SHORT.faulty };
        let draw = Draw { faulty, ..Draw::SHORT };
        let (plan, _) = caught(bug, BUDGET, |seed| draw_run(seed, &draw), Density::SHORT);
        is_shown_by(&plan);
    }
}

#[test]
fn checkpoints_that_follow_each_other_closely_lose_nothing() {
    for seed in 1..=150 {
        let (plan, (), _) = checkpoints(seed);
        let outcome = hunt(&plan, Density::SHORT).expect("a drive");
        assert!(outcome.broken.is_none(), "seed {seed}: {}", outcome.broken.unwrap().failure);
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
