//! Power cuts at mutating operations of the device below a store: by file controls and with a log at
//! every one, in all other cases at every third or, with `VARVE_CUTS=all`, at every one.

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod reuse;
mod stores;

use common::crash::{Case, Harness, Outcome, PLAIN};
use common::cut::{Medium, Ram};
use common::{api, ask, open, unique};
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores, Way};

const JOURNALS: [&str; 4] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"];
const LOCKINGS: [&str; 2] = ["NORMAL", "EXCLUSIVE"];

/// Every third operation, which is enough between changes; with `VARVE_CUTS=all` every one.
fn stride() -> u64 {
    if std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all") { 1 } else { 3 }
}

/// Runs a case and wants nothing bad; the cuts made.
fn good(harness: &Harness, case: Case, stride: u64) -> Outcome {
    let outcome = harness.run::<Ram>(case, stride);
    let (count, first) = (outcome.bad.len(), outcome.bad.first());
    assert!(outcome.bad.is_empty(), "{case:?}: {count} of {}: {first:?}", outcome.cuts);
    assert!(outcome.operations >= 4, "{case:?}: {outcome:?}");
    println!("{} cuts, {} operations: {case:?}", outcome.cuts, outcome.operations);
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
    let cuts = all(&JOURNALS, stride(), |case| Some(Case { sync: "OFF", ..case }));
    assert!(cuts > 30, "{cuts}");
}

#[test]
fn in_groups() {
    for way in [Way::Controls, Way::JournalLife] {
        let journals = if way == Way::Controls { &JOURNALS[..] } else { &JOURNALS[..3] };
        let cuts = all(journals, stride(), |case| Some(Case { way, group: 20, ..case }));
        assert!(cuts > 300, "{cuts}");
    }
}

#[test]
fn by_the_life_of_the_journal() {
    let cuts = all(&JOURNALS[..3], stride(), |case| Some(Case { way: Way::JournalLife, ..case }));
    assert!(cuts > 600, "{cuts}");
    // Without syncs SQLite makes no super-journal: two files then commit one after the other.
    let cuts = all(&JOURNALS[..3], stride(), |case| {
        (!case.two).then_some(Case { way: Way::JournalLife, sync: "OFF", ..case })
    });
    assert!(cuts > 5, "{cuts}");
}

#[test]
fn in_batches() {
    for sync in ["FULL", "OFF"] {
        let cuts = all(&JOURNALS, stride(), |case| Some(Case { batch: true, sync, ..case }));
        assert!(cuts > 40, "{cuts}");
    }
}

#[test]
fn one_io_error() {
    let cuts = all(&JOURNALS, stride(), |case| Some(Case { once: true, ..case }));
    assert!(cuts > 500, "{cuts}");
    let cuts = all(&JOURNALS[..3], stride(), |case| {
        Some(Case { once: true, way: Way::JournalLife, ..case })
    });
    assert!(cuts > 300, "{cuts}");
    // The error meets a group whose transactions have been answered.
    for way in [Way::Controls, Way::JournalLife] {
        let cuts =
            all(&JOURNALS[..3], stride(), |case| Some(Case { once: true, group: 20, way, ..case }));
        assert!(cuts > 150, "{cuts}");
    }
}

/// A transaction that the device did not take back has pages that nobody may use: they were given to the next one.
#[test]
fn an_error_while_a_transaction_is_taken_back() {
    good(&Harness::new(), Case { journal: "MEMORY", once: true, ..PLAIN }, 1);
}

#[test]
fn a_transaction_that_outgrows_the_device() {
    let harness = Harness::new();
    for way in [Way::Controls, Way::JournalLife] {
        for journal in ["DELETE", "TRUNCATE", "PERSIST"] {
            for locking in LOCKINGS {
                for (two, sync, once) in [
                    (false, "FULL", false),
                    (false, "NORMAL", false),
                    (false, "OFF", false),
                    (true, "FULL", false),
                    (true, "FULL", true),
                ] {
                    let batch = two && way == Way::Controls;
                    let small = Case { pages: 20, once, batch, ..PLAIN };
                    let case = Case { journal, locking, two, sync, way, ..small };
                    let outcome = good(&harness, case, stride());
                    assert!(outcome.stats.fallbacks > 0, "{case:?}: {outcome:?}");
                }
            }
        }
    }
}

/// Pages that one database collects while another has nearly filled the device: a COMMIT that finds
/// no room for them can only fail, where a write still falls back to durable journals.
#[test]
fn a_group_beside_a_large_transaction() {
    let harness = Harness::new();
    for pages in 20..28 {
        let case = Case { way: Way::JournalLife, group: 20, two: true, pages, ..PLAIN };
        good(&harness, case, 40);
    }
}

#[test]
fn with_a_log() {
    let harness = Harness::new();
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
        for locking in LOCKINGS {
            for (sync, once) in [("FULL", false), ("NORMAL", false), ("FULL", true)] {
                let case = Case { journal: "WAL", locking, sync, checkpoint, once, ..PLAIN };
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
    let options = StoreOptions { way: Way::JournalLife, ..StoreOptions::default() };
    let mut medium = Ram::blank();
    let store = Store::format(medium.power_on(), options).unwrap();
    stores.add(&name, &store);
    if let Some(bug) = bug {
        store.plant(bug.into());
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
        let cuts = all(&JOURNALS[..3], stride(), |case| Some(Case { vacuum: true, way, ..case }));
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
        (Bug::SizeOutsideTransaction, Case { grows: true, ..PLAIN }),
        (Bug::PhaseTwoErrorSwallowed, Case { once: true, ..PLAIN }),
        (Bug::HalfGroup, Case { group: 20, ..PLAIN }),
        (Bug::CheckpointTagged, Case { journal: "WAL", locking: "EXCLUSIVE", ..PLAIN }),
        (Bug::SuperWithoutNames, Case { journal_faults: true, ..two }),
        (Bug::JournalTrusted, Case { journal: "DELETE", sync: "OFF", pages: 20, ..PLAIN }),
    ];
    let mut missed = Vec::new();
    for (bug, case) in planted {
        let mut outcome = harness.run::<Ram>(Case { bug: Some(bug), ..case }, 1);
        if case.journal_faults {
            // Few of the errors in journals come between the two names: more kinds of journals.
            for journal in ["TRUNCATE", "PERSIST"] {
                let more = harness.run::<Ram>(Case { bug: Some(bug), journal, ..case }, 1);
                outcome.cuts += more.cuts;
                outcome.bad.extend(more.bad);
            }
        }
        println!("{bug:?}: {} of {}: {:?}", outcome.bad.len(), outcome.cuts, outcome.bad.first());
        // One finding may be luck.
        if outcome.bad.len() < 3 {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// A few cuts of every kind, for whoever has seconds: what the others do at length.
#[test]
fn some_cuts_of_every_kind() {
    let harness = Harness::new();
    let two = Case { two: true, ..PLAIN };
    let life = Case { way: Way::JournalLife, ..two };
    let log = Case { journal: "WAL", locking: "EXCLUSIVE", ..PLAIN };
    for case in [
        two,
        Case { journal: "TRUNCATE", locking: "EXCLUSIVE", vacuum: true, ..two },
        Case { journal: "PERSIST", batch: true, grows: true, ..two },
        Case { journal: "MEMORY", ..two },
        life,
        Case { journal: "TRUNCATE", vacuum: true, ..life },
        Case { journal: "PERSIST", grows: true, ..life },
        Case { once: true, ..two },
        Case { once: true, journal: "PERSIST", ..life },
        Case { group: 20, ..two },
        Case { group: 20, journal: "TRUNCATE", ..life },
        Case { pages: 20, ..two },
        Case { pages: 20, once: true, ..life },
        Case { journal_faults: true, ..two },
        log,
        Case { checkpoint: Checkpoint::Remap, locking: "NORMAL", ..log },
        Case { checkpoint: Checkpoint::Remap, once: true, ..log },
    ] {
        good(&harness, case, 31);
    }
}
