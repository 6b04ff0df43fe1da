//! Power cuts while cleaning goes on ahead of need, on a disk that answers late and whose flushes cover
//! what was answered, and nothing else.

mod tools;

use block::Rng;
use tools::crash::{Plan, Run, first_wrong, volume, work};
use tools::model::{Mix, fresh};
use varve_lfs::Options;
use varve_lfs::fs::{Bug, Cleaning, Scj};

const CLEANING: Mix = Mix { write: 66, fsync: 14, sync: 1, clean: 2, blocks: 56, names: 24 };
/// Many fsyncs of few files: the chain is long and its segments sparse.
const CHAINS: Mix = Mix { write: 56, fsync: 34, sync: 0, clean: 1, blocks: 40, names: 8 };

fn journalled() -> Cleaning {
    Cleaning::Scj(Scj { slots: 200, threshold: Some(600), count_needed: true, batch: 1 })
}

/// So small a volume that it is cleaned all the time.
fn plan(seed: u64, cleaning: Cleaning) -> Plan {
    let ahead = 1 + (seed % 4) as u32;
    let depth = 1 + (seed / 4 % 3) as u32;
    let options = Options { dirty: 24, cleaning, ahead, depth, ..Options::default() };
    let mix = if seed % 2 == 1 { CHAINS } else { CLEANING };
    let torn = seed % 3 == 0;
    Plan { seed, per_seg: 4, blocks: 1_500, options, mix, steps: 300, torn, slow: seed % 5 != 4 }
}

fn run(plan: Plan) -> Run {
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(plan.seed));
    work(plan, volume(&plan), &mut tree, &mut clock, &mut rng)
}

#[test]
fn no_cut_breaks_what_was_promised() {
    for cleaning in [journalled(), Cleaning::Bl6] {
        let (mut ahead, mut stale, mut records, mut waits) = (0, 0, 0, 0);
        for seed in 0..10 {
            let plan = plan(seed, cleaning);
            assert_eq!(first_wrong(plan, 31), None, "{cleaning:?}");
            let cleaned = run(plan).cleaned;
            ahead += cleaned.ahead;
            stale += cleaned.stale;
            records += cleaned.records;
            waits += cleaned.waits;
        }
        println!("{cleaning:?}: {ahead} segments, {stale} stale, {records} records, {waits} waits");
        assert!(ahead > 100, "{cleaning:?}: {ahead} segments");
        assert!(stale > 0, "{cleaning:?}: nothing was read for nothing");
        assert!(records > 0 || cleaning == Cleaning::Bl6);
    }
}

/// Those of cleaning ahead of need, and those of all journalled cleaning that it must not hide.
const BUGS: [(Bug, u64); 10] = [
    (Bug::AheadStale, 13),
    (Bug::FlushTooEarly, 5),
    (Bug::RecordsCross, 3),
    (Bug::AheadIdle, 5),
    (Bug::Flush, 13),
    (Bug::BatchEarly, 13),
    (Bug::Ssa, 13),
    (Bug::Trans, 13),
    (Bug::Raw, 13),
    (Bug::DiscardEarly, 13),
];

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for (bug, stride) in BUGS {
        let caught = (0..80).find(|seed| {
            let mut plan = plan(*seed, journalled());
            plan.options.bug = bug.into();
            // Some of them are met while the power is on: the work itself fails.
            std::panic::catch_unwind(|| first_wrong(plan, stride).is_some()).unwrap_or(true)
        });
        println!("{bug:?}: seed {caught:?}");
        if caught.is_none() {
            missed.push(bug);
        }
    }
    assert_eq!(missed, []);
}
