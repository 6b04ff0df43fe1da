//! Host logs under proof: a fixed piece of the search of `prove --remap`, and the alarm: planted bugs
//! are caught.

mod bugs;
mod search;

use bugs::{caught, is_shown_by};
use remap::Planted;
use search::{same_bytes, search};
use varve_proof::{Density, Draw, LogKind, Plan, RemapSpec, draw_remap};

/// Cuts within which each planted bug must be found.
const BUDGET: u64 = 400_000;

/// A run of the host log.
fn drawn(seed: u64, draw: &Draw) -> (Plan, RemapSpec, u64) {
    draw_remap(seed, LogKind::Log, draw)
}

#[test]
fn no_cut_of_a_short_run_breaks_a_promise() {
    let tally = search(1..12, |seed| drawn(seed, &Draw::HEALTHY), Density::SHORT);
    assert!(tally.cuts > 5_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.triples() > 100, "{} distinct triples", tally.triples());
    assert!(tally.nested > 1_000, "{} cuts in recoveries", tally.nested);
    assert!(tally.later > 500, "{} cuts in work after a recovery", tally.later);
}

#[test]
fn cuts_of_long_runs_are_sampled() {
    let density = Density { operations: 200, ..Density::SHORT };
    let draw = Draw { steps: (400, 900), ..Draw::HEALTHY };
    let tally = search(2..5, |seed| drawn(seed, &draw), density);
    assert!(tally.steps > 1_000, "{} steps", tally.steps);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    same_bytes(0..12, |seed| drawn(seed, &Draw::SHORT));
}

/// Bugs that power cuts alone cannot show: two writers at once are the live driver's affair; a bad
/// body of a root, a damaged header, records of an earlier opening and a move into an older record
/// need media damage or a history that the tests of the `remap` crate make by hand.
const ELSEWHERE: [Planted; 8] = [
    Planted::RmwWithoutLock,
    Planted::OlderRootTaken,
    Planted::HeaderCrcIgnored,
    Planted::OldEpochAccepted,
    Planted::MoveInOlderRecord,
    Planted::NoMark,
    Planted::NoLookAhead,
    Planted::LostRootPassedOver,
];

/// A run of one of the two shells: three seeds in five are of the live one.
fn drawn_of(live: bool, number: u64) -> (Plan, RemapSpec, u64) {
    let seed = if live { number / 3 * 5 + number % 3 } else { number / 2 * 5 + 3 + number % 2 };
    let drawn = drawn(seed, &Draw::HEALTHY);
    assert_eq!(drawn.0.config.contains_key("remap.live"), live);
    drawn
}

#[test]
fn planted_bugs_are_caught_through_both_shells_and_their_plans_show_them() {
    for bug in Planted::ALL.into_iter().filter(|bug| !ELSEWHERE.contains(bug)) {
        for live in [false, true] {
            let draw = |number| drawn_of(live, number);
            let (plan, _) = caught(bug, BUDGET, draw, Density::SHORT);
            is_shown_by(&plan);
        }
    }
}

/// A log that verifies what it reads, on a disk that damages one block.
fn damaged(seed: u64) -> (Plan, RemapSpec, u64) {
    let mut refused = 0;
    for more in 0.. {
        let (plan, spec, again) = drawn(seed << 20 | more, &Draw { faulty: 1, ..Draw::HEALTHY });
        refused += again;
        if plan.config.get("log.verify").is_some_and(|verify| verify == "read") {
            return (plan, spec, refused);
        }
    }
    unreachable!("one log in four verifies")
}

/// One damaged block is an error, or the log is refused: nothing older is read once something on the
/// medium says that what came later was flushed.
#[test]
fn what_is_verified_is_right_or_an_error() {
    let tally = search(1..30, damaged, Density::SHORT);
    assert!(tally.cuts > 5_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.nested > 1_000, "{} cuts in recoveries", tally.nested);
}

/// Bugs of the rules that find damage.
#[test]
fn bugs_that_only_damage_shows_are_caught() {
    for bug in [Planted::NoLookAhead, Planted::HeaderCrcIgnored] {
        let (plan, _) = caught(bug, BUDGET, damaged, Density::SHORT);
        is_shown_by(&plan);
    }
}

#[test]
fn what_a_plan_of_a_log_says_wrongly_is_named() {
    for (key, value) in [
        ("disk.blocks", "7"),
        ("disk.x", "1"),
        ("log.x", "1"),
        ("varve.segment", "1 MiB"),
        ("paper-log.flush", "never"),
        ("x", "1"),
    ] {
        let mode = ("remap.mode".to_string(), "log".to_string());
        let config = [mode, (key.to_string(), value.to_string())].into();
        let error = RemapSpec::of(&Plan { config, ..Plan::default() }).expect_err(key);
        assert!(error.to_string().contains(key), "{error}");
    }
}
