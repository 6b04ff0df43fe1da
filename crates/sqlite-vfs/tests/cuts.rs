//! Power cuts at mutating operations of the device below a store. The first test cuts at every one;
//! the others, whose cases are many, at every one of a stride that is prime to the workload.

mod common;

use common::crash::{Case, Harness, Outcome, PLAIN};
use common::cut::{Medium, Ram};
use common::{api, ask, open, unique};
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Checkpoint, Options, Store, Stores, Way};

const JOURNALS: [&str; 4] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"];
const LOCKINGS: [&str; 2] = ["NORMAL", "EXCLUSIVE"];

/// Runs a case and wants nothing bad; the cuts made.
fn good(harness: &Harness, case: Case, stride: u64) -> Outcome {
    let outcome = harness.run(case, stride);
    let (count, first) = (outcome.bad.len(), outcome.bad.first());
    assert!(outcome.bad.is_empty(), "{case:?}: {count} of {}: {first:?}", outcome.cuts);
    assert!(outcome.operations >= 4, "{case:?}: {outcome:?}");
    outcome
}

fn all(journals: &[&'static str], stride: u64, change: impl Fn(Case) -> Option<Case>) -> u64 {
    let (harness, mut cuts) = (Harness::new(), 0);
    for journal in journals {
        for locking in LOCKINGS {
            for two in [false, true] {
                let case = change(Case { journal, locking, two, ..PLAIN });
                cuts += case.map_or(0, |case| good(&harness, case, stride).cuts);
            }
        }
    }
    cuts
}

#[test]
fn by_file_controls() {
    let cuts = all(&JOURNALS, 1, Some);
    assert!(cuts > 2_000, "{cuts}");
}

#[test]
fn by_file_controls_without_syncs() {
    let cuts = all(&JOURNALS, 3, |case| Some(Case { sync: "OFF", ..case }));
    assert!(cuts > 30, "{cuts}");
}

#[test]
fn in_groups() {
    for way in [Way::Controls, Way::JournalLife] {
        let journals = if way == Way::Controls { &JOURNALS[..] } else { &JOURNALS[..3] };
        let cuts = all(journals, 3, |case| Some(Case { way, group: 20, ..case }));
        assert!(cuts > 300, "{cuts}");
    }
}

#[test]
fn by_the_life_of_the_journal() {
    let cuts = all(&JOURNALS[..3], 3, |case| Some(Case { way: Way::JournalLife, ..case }));
    assert!(cuts > 600, "{cuts}");
    // Without syncs SQLite makes no super-journal: two files then commit one after the other.
    let cuts = all(&JOURNALS[..3], 3, |case| {
        (!case.two).then_some(Case { way: Way::JournalLife, sync: "OFF", ..case })
    });
    assert!(cuts > 5, "{cuts}");
}

#[test]
fn in_batches() {
    for sync in ["FULL", "OFF"] {
        let cuts = all(&JOURNALS, 3, |case| Some(Case { batch: true, sync, ..case }));
        assert!(cuts > 40, "{cuts}");
    }
}

#[test]
fn one_io_error() {
    let cuts = all(&JOURNALS, 3, |case| Some(Case { once: true, ..case }));
    assert!(cuts > 500, "{cuts}");
    let cuts =
        all(&JOURNALS[..3], 5, |case| Some(Case { once: true, way: Way::JournalLife, ..case }));
    assert!(cuts > 300, "{cuts}");
}

#[test]
fn a_transaction_that_outgrows_the_device() {
    let harness = Harness::new();
    for way in [Way::Controls, Way::JournalLife] {
        for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
            for locking in LOCKINGS {
                for (two, sync) in [(false, "FULL"), (false, "OFF"), (true, "FULL")] {
                    let case = Case { journal, locking, two, sync, way, pages: 20, ..PLAIN };
                    let outcome = good(&harness, case, 3);
                    assert!(outcome.stats.fallbacks > 0, "{case:?}: {outcome:?}");
                }
            }
        }
    }
}

#[test]
fn with_a_log() {
    let harness = Harness::new();
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
        for locking in LOCKINGS {
            for sync in ["FULL", "NORMAL"] {
                let case = Case { journal: "WAL", locking, sync, checkpoint, ..PLAIN };
                let outcome = good(&harness, case, 1);
                let moved = outcome.stats.remapped > 0;
                assert_eq!(moved, checkpoint == Checkpoint::Remap, "{case:?}: {outcome:?}");
            }
        }
    }
}

/// By the life of the journal: one connection leaves a journal without its magic, the next one
/// works without journals, so that its pages are plain and durable at its sync. What a power cut
/// leaves of them.
fn after_a_stale_journal(bug: Option<Bug>) -> String {
    let (vfs, name, stores) = (unique("stale"), unique("store"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    let options = Options { way: Way::JournalLife, ..Options::default() };
    let mut medium = Ram::blank();
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    if let Some(bug) = bug {
        store.plant(bug);
    }
    let first = open(&name, &vfs).unwrap();
    first
        .execute_batch("PRAGMA journal_mode=PERSIST; CREATE TABLE t(a); INSERT INTO t VALUES(1)")
        .unwrap();
    drop(first);
    let second = open(&name, &vfs).unwrap();
    second.execute_batch("PRAGMA journal_mode=MEMORY; UPDATE t SET a = 2").unwrap();
    let _ = medium.image();
    drop(second);
    stores.add(&name, &Store::mount(medium.power_on(), options).unwrap());
    ask(&open(&name, &vfs).unwrap(), "SELECT a FROM t")
}

#[test]
fn a_stale_journal_tags_nothing() {
    assert_eq!(after_a_stale_journal(None), "2");
    assert_ne!(after_a_stale_journal(Some(Bug::MagicUnchecked)), "2");
}

#[test]
fn a_file_that_shrinks() {
    for way in [Way::Controls, Way::JournalLife] {
        let cuts = all(&JOURNALS[..3], 3, |case| Some(Case { vacuum: true, way, ..case }));
        assert!(cuts > 500, "{cuts}");
    }
}

#[test]
fn one_error_in_a_journal() {
    for way in [Way::Controls, Way::JournalLife] {
        let cuts = all(&JOURNALS[..3], 7, |case| Some(Case { journal_faults: true, way, ..case }));
        assert!(cuts > 500, "{cuts}");
    }
}

#[test]
fn planted_bugs_are_found() {
    let harness = Harness::new();
    let two = Case { two: true, ..PLAIN };
    let planted = [
        (Bug::CommitAtSync, Case { journal: "DELETE", ..two }),
        (Bug::PhaseTwoPerFile, Case { journal: "MEMORY", ..two }),
        (Bug::SuperIgnored, two),
        (Bug::SpillUntagged, PLAIN),
        (Bug::SizeOutsideTransaction, PLAIN),
        (Bug::PhaseTwoErrorSwallowed, Case { once: true, ..PLAIN }),
        (Bug::HalfGroup, Case { group: 20, ..PLAIN }),
        (Bug::CheckpointTagged, Case { journal: "WAL", locking: "EXCLUSIVE", ..PLAIN }),
        (Bug::SuperWithoutNames, Case { journal_faults: true, ..two }),
    ];
    let mut missed = Vec::new();
    for (bug, case) in planted {
        let outcome = harness.run(Case { bug: Some(bug), ..case }, 1);
        println!("{bug:?}: {} of {}: {:?}", outcome.bad.len(), outcome.cuts, outcome.bad.first());
        if outcome.bad.is_empty() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
