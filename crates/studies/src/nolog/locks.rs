//! What the lock on blocks of open transactions costs, and a host that takes no time.

use crate::parallel::beside;
use block::Span;
use lab::LabError;
use report::study::{Check, Section, Study, Table};
use report::values;

use super::Scale;
use super::experiment::{CPU, Drives, FULL, NORMAL, Outcome, Variant, drive, load};
use super::paper::{CONDITIONS, setting};
use super::text::{change, hundredths, percent, share};
use sqlite::host::Commit;
use sqlite::workload::bench::{Overwrite, Shape};

/// Bytes of the values.
const SIZES: [usize; 2] = [256, 4096];
const LOCKS: [&str; 3] = ["prefer", "hard", "ignore"];

/// Runs the overwrite with each lock and without the host's time.
pub fn run(scale: Scale, threads: usize, study: &mut Study) -> Result<(), LabError> {
    let (count, keys) = match scale {
        Scale::Quick => (5000, None),
        Scale::Default | Scale::Full => (40_000, Some(200_000)),
    };
    let what = match keys {
        Some(keys) => format!("{count} overwrites of {keys} keys, on the drive."),
        None => format!("{count} overwrites of 16 MiB of values, on the drive."),
    };
    let mut locks = Table::new([
        ("value", "value"),
        ("mode", "mode"),
        ("lock", "lock"),
        ("tx_s", "tx/s"),
        ("flash_pages_of_prefer", "flash pages / prefer"),
        ("copied", "copied"),
        ("because_of_locks", "because of locks"),
        ("of_all", "of all"),
    ]);
    let mut hosts = Table::new([
        ("value", "value"),
        ("mode", "mode"),
        ("system", "system"),
        ("tx_s_host_30us", "tx/s, host 30 us"),
        ("host_30us_of_wal", "/ WAL"),
        ("tx_s_host_0", "host 0"),
        ("host_0_of_wal", "/ WAL"),
    ]);
    let mut most = 0;
    let variants = [&FULL[0], &FULL[1], &FULL[2], &FULL[6], &NORMAL[0], &NORMAL[1], &NORMAL[2]];
    let full = |variant: &Variant| FULL.iter().any(|one| one == variant);
    let mode = |variant: &Variant| if full(variant) { "FULL" } else { "NORMAL" };
    for value in SIZES {
        let shape = match keys {
            Some(keys) => Shape { keys, value },
            None => Shape::holding(16 << 20, value),
        };
        let mut start = Overwrite::new(shape);
        let loaded = load(|db| start.load_even(db))?;
        let run = |variant: &Variant, ssd: sqlite::host::Ssd, cpu: Span| {
            let mut work = start.clone();
            let now = ssd.now();
            loaded
                .run(variant, Box::new(ssd), (now, cpu), &mut |db, each| work.run(db, count, each))
        };
        let jobs: Vec<(&Variant, &str)> =
            [&FULL[2], &NORMAL[2]].into_iter().flat_map(|v| LOCKS.map(|lock| (v, lock))).collect();
        let found: Vec<Outcome> = beside(threads, &jobs, |(variant, lock)| {
            let lock = format!("tx.lock={lock}");
            let keys = [setting(&CONDITIONS[0], scale), &[lock.as_str()]].concat();
            run(variant, drive(scale, 100, &keys)?, CPU)
        })?;
        for (runs, jobs) in found.chunks(LOCKS.len()).zip(jobs.chunks(LOCKS.len())) {
            for (outcome, (variant, lock)) in runs.iter().zip(jobs) {
                let flash = &outcome.flash;
                let tenths = 1000 * flash.additional / flash.programs().max(1);
                if *lock == LOCKS[0] {
                    most = most.max(tenths);
                }
                locks.row(values![
                    format!("{value} B"),
                    mode(variant),
                    *lock,
                    hundredths(outcome.rate(), 1000),
                    hundredths(flash.programs(), runs[0].flash.programs()),
                    flash.gc,
                    flash.additional,
                    share(flash.additional, flash.programs()),
                ]);
            }
        }
        let used = Drives::new(scale, threads, 100, &CONDITIONS[0])?;
        let found = beside(threads, &variants, |variant| {
            let copy = |commit: Commit| used.copy(commit);
            let slow = run(variant, copy(variant.commit), CPU)?;
            Ok([slow, run(variant, copy(variant.commit), Span::ZERO)?])
        })?;
        for (variant, [slow, fast]) in variants.iter().zip(&found) {
            let base = &found[if full(variant) { 0 } else { 4 }];
            hosts.row(values![
                format!("{value} B"),
                mode(variant),
                variant.name,
                hundredths(slow.rate(), 1000),
                percent(change(slow.rate(), base[0].rate())),
                hundredths(fast.rate(), 1000),
                percent(change(fast.rate(), base[1].rate())),
            ]);
        }
    }
    study.checks.push(Check {
        what: "lock = prefer: copies because of locks are at most 6 % of the pages".to_string(),
        found: format!("at most {}", percent(most as i64)),
        holds: most <= 60,
    });
    study.sections.push(Section::new(
        "locks",
        "Locks: prefer, hard, ignore",
        format!(
            "{what} NoLgn. A locked line is passed over for a while (prefer), \
             never collected (hard), or collected like any other (ignore). A line is one block of \
             every die."
        ),
        locks,
    ));
    study.sections.push(Section::new(
        "host_0",
        "A host that takes no time",
        format!("{what} \"/ WAL\": against Base-WAL on the same host."),
        hosts,
    ));
    Ok(())
}
