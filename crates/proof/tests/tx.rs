//! Transactions under proof: a fixed piece of the search of `prove --tx`, and the alarm: every
//! planted bug of transactions is caught.

mod bugs;
mod search;

use std::sync::atomic::{AtomicUsize, Ordering};

use bugs::{caught, is_shown_by};
use search::{same_bytes, search};
use ssd::Bug;
use varve_proof::{
    Contract, Density, Draw, DriveSubject, Oracle, Subject, TxOracle, draw_paper, draw_tx, hunt,
};

/// Cuts within which each planted bug must be found.
const BUDGET: u64 = 1_500_000;

#[test]
fn no_cut_breaks_a_transaction() {
    let tally = search(0..60, |seed| draw_tx(seed, &Draw::HEALTHY), Density::SHORT);
    assert!(tally.cuts > 15_000, "{} cuts are too few to mean anything", tally.cuts);
    assert!(tally.triples() > 150, "{} distinct triples", tally.triples());
    assert!(tally.later > 500, "{} cuts in work after a recovery", tally.later);
}

#[test]
fn faults_that_the_drive_must_mask_hide_no_commit() {
    let draw = Draw { faulty: 1, ..Draw::SHORT };
    let tally = search(0..40, |seed| draw_tx(seed, &draw), Density::SHORT);
    assert!(tally.media.len() >= 3, "{:?}", tally.media);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    same_bytes(0..30, |seed| draw_tx(seed, &Draw::SHORT));
}

/// What the runs of the search come to, without any cut: what it never comes to it cannot prove.
#[test]
fn the_search_reaches_what_it_is_for() {
    let mut sum = ssd::TxStats::default();
    let (mut lock_pages, mut victims) = (0, 0);
    for seed in 0..2400 {
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
        let (plan, _) = draw_paper(seed, &Draw::HEALTHY);
        let broken = hunt(&plan, Density::SHORT).expect("a drive").broken;
        let kind = broken.map(|broken| broken.failure.contract);
        *kinds.entry(kind).or_insert(0) += 1;
    }
    println!("{kinds:?}");
    let held = kinds.get(&None).copied().unwrap_or(0);
    assert!(held < 15 && kinds.contains_key(&Some(Contract::C4)), "{kinds:?}");
}

#[test]
fn every_planted_bug_is_caught() {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(bug) = Bug::TX.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let draw = |seed| draw_tx(seed, &Draw::HEALTHY);
                    let (plan, _) = caught(bug, BUDGET, draw, Density::SHORT);
                    is_shown_by(&plan);
                }
            });
        }
    });
}
