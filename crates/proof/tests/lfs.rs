//! The file system under proof: a fixed piece of the search of `prove --lfs`, and the alarm: rules
//! left out are noticed.

mod bugs;
mod search;

use bugs::{caught, is_shown_by};
use lfs::fs::Bug;
use search::{same_bytes, search};
use varve_proof::{
    Contract, Density, Draw, FsOracle, FsSpec, FsSubject, Oracle, Plan, Subject, draw_lfs,
    sequences,
};

/// Cuts within which each planted bug must be found.
const BUDGET: u64 = 20_000;

#[test]
fn no_cut_of_a_short_run_breaks_a_promise() {
    let tally = search(1..9, |seed| draw_lfs(seed, &Draw::HEALTHY), Density::SHORT);
    assert!(tally.cuts > 1_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.triples() > 60, "{} distinct triples", tally.triples());
    assert!(tally.nested > 300, "{} cuts in recoveries", tally.nested);
    assert!(tally.later > 50, "{} cuts in work after a recovery", tally.later);
}

/// `VARVE_CUTS=all`: all sequences of one and of two operations (those of three, too:
/// `prove --lfs --sequences`).
#[test]
fn short_sequences_are_cut_everywhere() {
    let all = std::env::var("VARVE_CUTS").is_ok_and(|value| value == "all");
    // Odd seeds are sequences, short ones first; the few are of two and of three operations.
    let (seeds, stride) = if all { (1..2 * 33 * 34, 2) } else { (301..3_000, 300) };
    let tally =
        search(seeds.step_by(stride), |seed| draw_lfs(seed, &Draw::HEALTHY), Density::SHORT);
    println!("{} sequences of {}, {} cuts", tally.seeds, sequences(), tally.cuts);
    assert_eq!(sequences(), 33 + 33 * 33 + 33 * 33 * 33);
    assert!(tally.cuts > 200, "{} cuts", tally.cuts);
}

#[test]
fn cuts_of_long_runs_are_sampled() {
    let density = Density { operations: 150, ..Density::SHORT };
    let draw = Draw { steps: (400, 700), ..Draw::HEALTHY };
    let tally = search(2..4, |seed| draw_lfs(seed, &draw), density);
    assert!(tally.steps > 600, "{} steps", tally.steps);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    same_bytes(1..7, |seed| draw_lfs(seed, &Draw::SHORT));
}

/// Longer runs, sampled: what journalled cleaning owes shows when much was cleaned.
const LONG: (Draw, Density) = (
    Draw { steps: (150, 300), ..Draw::HEALTHY },
    Density { operations: 13, nested: 8, resume: 16, limit: u64::MAX },
);

/// Longer still, as a night's search draws them: until records moved what a chain of fsyncs names.
const LONGER: (Draw, Density) =
    (Draw { steps: (500, 3_000), ..Draw::HEALTHY }, Density { operations: 40, ..Density::SHORT });

/// Those that longer runs show; `FsyncJ`, `Trans` and `Pin` need more than is made here:
/// `crates/lfs/tests/volume/crash.rs`; so do `PastTorn`, whose torn node has to be followed by a whole one, and
/// `WholeFirst`, which takes two cuts of mounts: `crates/lfs/tests/volume/torn.rs`; `FrozenNarrow`, whose segments have to
/// be written over within one checkpoint: `crates/lfs/tests/volume/parts.rs`. Those of cleaning ahead of
/// need are rarer here than in `crates/lfs/tests/volume/ahead.rs`.
const IN_LONG: [Bug; 16] = [
    Bug::FrozenLate,
    Bug::SyncsFrozen,
    Bug::FrozenLost,
    Bug::StaleRead,
    Bug::SyncedEarly,
    Bug::TicketLate,
    Bug::MovedEarly,
    Bug::Ssa,
    Bug::Order,
    Bug::SlotReset,
    Bug::VersionIgnored,
    Bug::NidReused,
    Bug::DiscardEarly,
    Bug::NextLate,
    Bug::BatchEarly,
    Bug::CopyInChain,
];

#[test]
fn planted_bugs_of_longer_runs_are_caught() {
    for bug in IN_LONG {
        // Few runs clean batches on request; what else cleans does not know this bug.
        let budget = if bug == Bug::BatchEarly { 6 * BUDGET } else { BUDGET };
        caught(bug, budget, |seed| draw_lfs(seed, &LONG.0), LONG.1);
    }
    caught(Bug::RecoveryInChain, BUDGET, |seed| draw_lfs(seed, &LONGER.0), LONGER.1);
}

#[test]
fn each_planted_bug_is_some_tests() {
    let elsewhere = [
        Bug::HeadKept,
        Bug::RecoveryInChain,
        Bug::FsyncJ,
        Bug::Trans,
        Bug::Pin,
        Bug::PastTorn,
        Bug::WholeFirst,
        Bug::AheadStale,
        Bug::RecordsCross,
        Bug::AheadIdle,
        Bug::FrozenNarrow,
    ];
    let all: Vec<Bug> = SHORT.into_iter().chain(IN_LONG).chain(elsewhere).collect();
    assert_eq!(all.len(), Bug::ALL.len());
    assert!(Bug::ALL.iter().all(|bug| all.contains(bug)));
}

/// Those that short runs show.
const SHORT: [Bug; 11] = [
    Bug::FlushTooEarly,
    Bug::Raw,
    Bug::Flush,
    Bug::DataFlush,
    Bug::CheckpointFlush,
    Bug::LiveCopy,
    Bug::BitmapOrder,
    Bug::NoSummary,
    Bug::SealUnchecked,
    Bug::SealKept,
    Bug::StateTogether,
];

#[test]
fn planted_bugs_are_caught_and_their_plans_show_them() {
    for bug in SHORT {
        let draw = |seed| draw_lfs(seed, &Draw::HEALTHY);
        let (plan, _) = caught(bug, BUDGET, draw, Density::SHORT);
        is_shown_by(&plan);
    }
}

#[test]
fn volumes_are_cleaned() {
    let (mut segments, mut records, mut between) = (0, 0, 0);
    for seed in 0..40 {
        let (plan, spec, _) = draw_lfs(seed, &LONG.0);
        let mut subject = FsSubject::build(&spec).expect("a volume");
        let mut oracle = FsOracle::new(&spec, &subject);
        for step in &plan.work {
            let done = oracle.apply(&mut subject, step);
            done.unwrap_or_else(|failure| panic!("seed {seed}, `{step}`: {failure}"));
            between += u32::from(subject.is_frozen());
        }
        segments += subject.cleaned().0;
        records += subject.cleaned().1;
    }
    assert!(segments > 400 && records > 100, "{segments} segments, {records} records");
    assert!(between > 100, "{between} operations ended between the parts of a checkpoint");
}

#[test]
fn what_a_plan_of_a_volume_says_wrongly_is_named() {
    for (key, value) in [
        ("lfs.segment", "5"),
        ("lfs.x", "1"),
        ("lfs.gc.victim", "oldest"),
        ("lfs.atomic", "1024"),
        ("lfs.recover", "never"),
        ("lfs.blocks", "some"),
        ("x", "1"),
    ] {
        let cleaning = ("lfs.cleaning".to_string(), "scj".to_string());
        let config = [cleaning, (key.to_string(), value.to_string())].into();
        let error = FsSpec::of(&Plan { config, ..Plan::default() }).expect_err(key);
        let named = key.split('.').next_back().unwrap_or(key);
        assert!(error.to_string().contains(named), "{error}");
    }
    let what = Plan { contract: Some(Contract::C12), ..Plan::default() };
    assert_eq!(Plan::parse(&what.text()).expect("its own text"), what);
}
