//! Transactions under proof: a fixed piece of the search of `prove --tx`, and the alarm: every
//! planted bug of transactions is caught.

use std::sync::atomic::{AtomicUsize, Ordering};

use proof::{
    Contract, Density, Draw, DriveSpec, DriveSubject, Oracle, Subject, Tally, TxOracle, draw_paper,
    draw_tx, hunt, replay, shrink, twice,
};
use ssd::Bug;

/// Cuts within which each planted bug must be found.
const BUDGET: u64 = 1_500_000;

fn search(seeds: std::ops::Range<u64>, draw: &Draw, density: Density) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let (plan, spec, refused) = draw_tx(seed, draw);
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
fn no_cut_breaks_a_transaction() {
    let tally = search(0..60, &Draw::HEALTHY, Density::SHORT);
    assert!(tally.cuts > 15_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.triples() > 150, "{} distinct triples", tally.triples());
    assert!(tally.later > 500, "{} cuts in work after a recovery", tally.later);
}

#[test]
fn faults_that_the_drive_must_mask_hide_no_commit() {
    let tally = search(0..40, &Draw { faulty: 1, ..Draw::SHORT }, Density::SHORT);
    assert!(tally.media.len() >= 3, "{:?}", tally.media);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..30 {
        let (plan, spec, _) = draw_tx(seed, &Draw::SHORT);
        assert_eq!(plan, draw_tx(seed, &Draw::SHORT).0);
        twice(&plan, &spec).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// What the runs of the search come to, without any cut: what it never comes to it cannot prove.
#[test]
fn the_search_reaches_what_it_is_for() {
    let mut sum = ssd::TxStats::default();
    let (mut lock_pages, mut victims) = (0, 0);
    for seed in 0..300 {
        let (plan, spec, _) = draw_tx(seed, &Draw::HEALTHY);
        let mut subject = DriveSubject::build(&spec).expect("a drive");
        let mut oracle = TxOracle::new(&spec, &subject);
        for step in &plan.work {
            oracle.apply(&mut subject, step).expect("holds");
        }
        let stats = subject.drive().tx_stats().expect("it has transactions");
        sum.committed += stats.committed;
        sum.aborted += stats.aborted;
        sum.together += stats.together;
        sum.records_gc += stats.records_gc;
        sum.held_replaced += stats.held_replaced;
        sum.skipped += stats.skipped;
        sum.locked_victims += stats.locked_victims;
        sum.blocked += stats.blocked;
        sum.remapped += stats.remapped;
        victims += subject.drive().stats().gc.victims;
        lock_pages += subject.drive().stats().gc.lock_pages;
    }
    println!("{sum:?}, {lock_pages} pages more by locks, {victims} victims");
    let all = [
        sum.committed,
        sum.aborted,
        sum.together,
        sum.records_gc,
        sum.held_replaced,
        sum.skipped,
        sum.locked_victims,
        sum.blocked,
        sum.remapped,
        lock_pages,
    ];
    assert!(all.iter().all(|n| *n > 0), "{sum:?}, {lock_pages}");
}

/// The paper's literal rules lose: with the power on, because others read what is not committed,
/// and in most runs after a cut.
#[test]
fn the_literal_rules_of_the_paper_are_caught() {
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..60 {
        let (plan, spec) = draw_paper(seed, &Draw::HEALTHY);
        let broken = hunt(&plan, &spec, Density::SHORT).broken;
        let kind = broken.map(|broken| broken.failure.contract);
        *kinds.entry(kind).or_insert(0) += 1;
    }
    println!("{kinds:?}");
    let held = kinds.get(&None).copied().unwrap_or(0);
    assert!(held < 15 && kinds.contains_key(&Some(Contract::C4)), "{kinds:?}");
}

fn caught(bug: Bug) -> Option<(u64, u64, proof::Plan, proof::Failure)> {
    let mut cuts = 0;
    for seed in 1.. {
        let (mut plan, _, _) = draw_tx(seed, &Draw::HEALTHY);
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
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(bug) = Bug::TX.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some((seed, cuts, plan, failure)) = caught(*bug) else {
                        panic!("{bug:?} was not caught within {BUDGET} cuts");
                    };
                    println!("{bug:?}: seed {seed}, {cuts} cuts: {failure}");
                    let again = replay(&plan).expect("the same drive");
                    assert!(again.as_written(), "{bug:?}: following the plan gave: {again}");
                }
            });
        }
    });
}

#[test]
fn a_failure_shrinks_to_a_plan_that_still_shows_it() {
    let (_, _, plan, failure) = caught(Bug::TxAbortMapsCopy).expect("caught");
    assert_eq!(failure.contract, Contract::C4);
    let small = shrink(&plan, &failure, 300);
    assert!(small.work.len() <= 8, "{} steps are left of {}", small.work.len(), plan.work.len());
    let read_back = proof::Plan::parse(&small.text()).expect("its own text");
    assert_eq!(read_back, small);
    let outcome = replay(&read_back).expect("the same drive");
    assert!(outcome.as_written() && outcome.reached, "{outcome}");
}
