//! Power cuts at the flash below SQLite: the modelled drive, and images in files.
//!
//! A sample of the operations of a sample of the cases; `VARVE_CUTS=all` takes all of both, and
//! `VARVE_SEED` draws others.

mod common;

use common::crash::{Case, Harness, PLAIN};
use common::flash::{DRIVES, Density, NARROW, Tally, run};
use common::image::Image;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Checkpoint, Way};

const JOURNALS: [&str; 4] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY"];
const LOCKINGS: [&str; 2] = ["NORMAL", "EXCLUSIVE"];

fn everything() -> bool {
    std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all")
}

fn seed() -> u64 {
    std::env::var("VARVE_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(1)
}

/// Every way, journal mode, locking and durability, with one database and with two.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let durabilities = [("FULL", 0), ("OFF", 0), ("FULL", 20)];
    for (way, batch) in [(Way::Controls, false), (Way::JournalLife, false), (Way::Controls, true)] {
        for journal in JOURNALS {
            for locking in LOCKINGS {
                for (sync, group) in durabilities {
                    for two in [false, true] {
                        let case = Case { journal, locking, sync, way, batch, two, group, ..PLAIN };
                        // By the life of the journal there must be one, and for two files that
                        // commit together a super-journal, which SQLite makes for syncs only.
                        let life = way == Way::JournalLife;
                        if !(life && (journal == "MEMORY" || (two && sync == "OFF"))) {
                            cases.push(case);
                        }
                    }
                }
            }
        }
    }
    cases
}

fn logs() -> Vec<Case> {
    let mut cases = Vec::new();
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap] {
        for locking in LOCKINGS {
            for sync in ["FULL", "NORMAL"] {
                cases.push(Case { journal: "WAL", locking, sync, checkpoint, ..PLAIN });
            }
        }
    }
    cases
}

/// Every case on the drive whose turn it is; with `VARVE_CUTS=all` all operations.
fn over(cases: &[Case], drives: &[&[(&str, &str)]], operations: u64) -> Tally {
    let (harness, mut sum) = (Harness::new(), Tally::default());
    for (number, case) in cases.iter().enumerate() {
        // Shifted with every round, or each kind of case would always meet the same drive.
        let drive = drives[(number + number / 6 + seed() as usize) % drives.len()];
        let seed = seed() * 1_000_000 + number as u64;
        let operations = if everything() { 1 } else { operations };
        let density =
            Density { operations, nested: if everything() { 20 } else { 12 }, seed, bug: None };
        let tally = run(&harness, *case, drive, density);
        let (cuts, nested, bad) = (tally.cuts, tally.nested, tally.bad.len());
        println!("{cuts} cuts, {nested} of them nested, {bad} bad: {case:?} {drive:?}");
        println!("{:?}", (tally.erases, tally.copies, tally.fallbacks, tally.bad.first()));
        sum.add(tally);
    }
    println!("{} cuts, {} of them nested, {} bad", sum.cuts, sum.nested, sum.bad.len());
    assert!(sum.bad.is_empty(), "{} of {} cuts: {:?}", sum.bad.len(), sum.cuts, sum.bad.first());
    sum
}

#[test]
fn rollback_journals_on_flash() {
    let sum = over(&cases(), &DRIVES, 40);
    assert!(sum.cuts > 800 && sum.nested > 100, "{} {}", sum.cuts, sum.nested);
    assert!(sum.erases > 500 && sum.copies > 500, "{} {}", sum.erases, sum.copies);
}

#[test]
fn logs_on_flash() {
    let sum = over(&logs(), &DRIVES, 16);
    assert!(sum.cuts > 300 && sum.nested > 50, "{} {}", sum.cuts, sum.nested);
    assert!(sum.erases > 50 && sum.copies > 50 && sum.remapped > 0, "{sum:?}");
}

#[test]
fn transactions_that_outgrow_the_drive() {
    // It takes a journal. With OFF SQLite keeps none beside batches, and for two databases none
    // that binds them: there a split is what stock SQLite may leave as well.
    let fits =
        |case: &Case| case.journal != "MEMORY" && !(case.sync == "OFF" && (case.two || case.batch));
    let cases: Vec<Case> = cases().into_iter().filter(fits).collect();
    let sum = over(&cases, &[NARROW], 150);
    assert!(sum.cuts > 500 && sum.nested > 100, "{} {}", sum.cuts, sum.nested);
    assert!(sum.fallbacks > 100, "{}", sum.fallbacks);
}

/// The drive is full when the second database of a COMMIT writes its first page: that page's journal
/// must be durable first, though its transaction has written nothing.
#[test]
fn a_transaction_that_begins_on_a_full_drive() {
    let case = Case { two: true, journal: "TRUNCATE", way: Way::JournalLife, ..PLAIN };
    let density = Density { operations: 1, nested: 1_000, seed: 3, bug: None };
    let tally = run(&Harness::new(), case, NARROW, density);
    assert!(tally.bad.is_empty(), "{} of {}: {:?}", tally.bad.len(), tally.cuts, tally.bad.first());
    assert!(tally.fallbacks > 0 && tally.cuts > 500, "{tally:?}");
}

/// Images in files: cuts at writes and syncs of the file.
#[test]
fn images_in_files() {
    let cases: Vec<Case> = cases().into_iter().chain(logs()).collect();
    let (harness, mut cuts, mut bad) = (Harness::new(), 0, Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let turn = everything() || (number as u64 + seed()).is_multiple_of(7);
        if turn {
            let outcome = harness.run::<Image>(*case, if everything() { 2 } else { 9 });
            println!("{} cuts of a file, {} bad: {case:?}", outcome.cuts, outcome.bad.len());
            cuts += outcome.cuts;
            bad.extend(outcome.bad.into_iter().map(|why| format!("{case:?}: {why}")));
        }
    }
    println!("{cuts} cuts of a file, {} bad", bad.len());
    assert!(bad.is_empty(), "{} of {cuts} cuts: {:?}", bad.len(), bad.first());
    assert!(cuts > 90, "{cuts}");
}

/// What is wrong above the drive, and what is wrong in it.
#[test]
fn planted_bugs_are_found_at_the_flash() {
    let harness = Harness::new();
    let two = Case { two: true, ..PLAIN };
    let planted = [
        (Some(Bug::CommitAtSync), None, two),
        (Some(Bug::SpillUntagged), None, PLAIN),
        (Some(Bug::HalfGroup), None, Case { group: 20, ..PLAIN }),
        (None, Some(ssd::Bug::NewestByAddress), PLAIN),
        (None, Some(ssd::Bug::TxRecordNoLosers), PLAIN),
        (None, Some(ssd::Bug::EraseBeforeCopies), PLAIN),
    ];
    let mut missed = Vec::new();
    for (bug, drive, case) in planted {
        let density = Density { operations: 1, nested: 50, seed: seed(), bug: drive };
        let (mut cuts, mut bad) = (0, 0);
        // Which drive erases what a bug needs to be gone is the drive's affair.
        for on in [DRIVES[1], NARROW].into_iter().chain(DRIVES) {
            let tally = run(&harness, Case { bug, ..case }, on, density);
            (cuts, bad) = (cuts + tally.cuts, bad + tally.bad.len());
            println!("{bug:?} {drive:?}: {bad} of {cuts}: {:?} {on:?}", tally.bad.first());
            if bad >= 5 {
                break;
            }
        }
        if bad < 5 {
            missed.push((bug, drive, bad, cuts));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
