//! Commits as records on a drive that is full and cleaned: flash pages a transaction beside a write-ahead log's and
//! those of transactions that write their pages.

use std::sync::Arc;

use lab::LabError;
use report::study::{Check, Section, Study, Table, Value};
use report::values;
use sqlite::host::{Below, Flash, Ssd, params};
use sqlite::workload::bench::{Overwrite, Shape};

use super::Scale;
use super::experiment::{CPU, FULL, Variant, Windows, failed, load};
use super::records::{LOG, Logged, NAME};
use super::text::{hundredths, share};
use crate::parallel::beside;
use crate::port::Port;
use crate::turnstile::Turnstile;

/// What is overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    value: usize,
    /// Of bytes that nothing packs, not runs of 64 equal ones.
    noise: bool,
    keys: u64,
    /// Pages that wait in memory for their transaction.
    overlay: u32,
    /// Transactions in three windows.
    count: u64,
    /// Hundredths of flash pages a transaction that records take at most.
    most: u64,
}

const ROWS: [Row; 4] = [
    row(4096, 4096, 60_000, 530),
    Row { noise: true, ..row(4096, 4096, 60_000, 530) },
    row(256, 65_536, 60_000, 420),
    Row { overlay: 10_000, ..row(4096, 25_000, 90_000, 850) },
];
const QUICK: [Row; 1] = [row(4096, 1024, 9_000, u64::MAX)];

const fn row(value: usize, keys: u64, count: u64, most: u64) -> Row {
    Row { value, noise: false, keys, overlay: 7500, count, most }
}

impl Row {
    fn name(&self) -> String {
        format!("{} B{}", self.value, if self.noise { " of noise" } else { "" })
    }
}

/// A write-ahead log, and transactions that write their pages; then records.
const SYSTEMS: [Option<&Variant>; 3] = [Some(&FULL[0]), Some(&FULL[2]), None];

/// The last window of a run.
struct Last {
    flash: Flash,
    transactions: u64,
    /// Hundredths of flash pages a transaction, by window.
    windows: Vec<u64>,
}

fn drive(scale: Scale) -> Result<Ssd, LabError> {
    let size: [&str; 4] = match scale {
        Scale::Quick => {
            ["capacity=256 MiB", "geometry.channels=4", "geometry.dies=1", "geometry.pages=32"]
        }
        Scale::Default | Scale::Full => {
            ["capacity=2 GiB", "geometry.channels=8", "geometry.dies=2", "geometry.pages=64"]
        }
    };
    let mut keys = vec!["tx.mode=nolog", "nand.oob=full", "op=7 %"];
    keys.extend(["gc.victim=cost-benefit", "streams.policy=lifetime"]);
    keys.extend(size);
    let params = params(&keys)?;
    let pages = params.logical_pages;
    Ssd::aged(&params, pages, pages.into()).map_err(failed)
}

fn cell(scale: Scale, row: &Row, system: Option<&Variant>) -> Result<Last, LabError> {
    let work = Overwrite::new(Shape { keys: row.keys, value: row.value });
    let work = if row.noise { work.of_noise() } else { work };
    match system {
        Some(variant) => modelled(scale, row, variant, work),
        None => logged(scale, row, work),
    }
}

fn modelled(
    scale: Scale,
    row: &Row,
    variant: &Variant,
    mut work: Overwrite,
) -> Result<Last, LabError> {
    let loaded = load(|db| work.load_even(db))?;
    let drive = drive(scale)?;
    let start = (drive.now(), CPU);
    let windows = Windows { each: row.count / 3, most: 3, within: 0 };
    let outcome =
        loaded.run_windows(variant, Box::new(drive), start, windows, &mut |db, each| {
            work.run(db, windows.each, each)
        })?;
    Ok(Last { flash: outcome.flash, transactions: outcome.operations, windows: outcome.windows })
}

fn logged(scale: Scale, row: &Row, mut work: Overwrite) -> Result<Last, LabError> {
    // As much of the drive as the other systems have.
    let part = load(|db| work.clone().load_even(db))?.pages() + LOG;
    let drive = drive(scale)?;
    let start = drive.now();
    let shared = Arc::new(Turnstile::new(drive));
    let port = Box::new(Port::new(&shared, 0, part));
    let logged = Logged::new(port, part, row.overlay, |db| work.load_even(db))?;
    logged.advance(start);
    let mut windows = Vec::new();
    loop {
        shared.look(Below::reset);
        let ran = logged.run(|db, each| work.run(db, row.count / 3, each))?;
        let flash = shared.look(|drive| drive.flash()).unwrap_or_default();
        windows.push(flash.programs() * 100 / ran.operations.max(1));
        if windows.len() == 3 {
            logged.check()?;
            let broken = shared.look(|drive| drive.check());
            broken.map_err(|broken| LabError::Check {
                contract: broken.contract.to_string(),
                what: broken.what,
            })?;
            return Ok(Last { flash, transactions: ran.operations, windows });
        }
    }
}

/// Runs all cells.
/// # Errors
/// The drive's and SQLite's.
pub fn run(scale: Scale, threads: usize, study: &mut Study) -> Result<(), LabError> {
    let rows: &[Row] = if scale == Scale::Quick { &QUICK } else { &ROWS };
    let jobs: Vec<(&Row, Option<&Variant>)> =
        rows.iter().flat_map(|row| SYSTEMS.map(|system| (row, system))).collect();
    let found = beside(threads, &jobs, |(row, system)| cell(scale, row, *system))?;
    let mut table = Table::new([
        ("value", "value"),
        ("keys", "keys"),
        ("transactions", "transactions"),
        ("system", "system"),
        ("first", "first window"),
        ("last", "last window"),
        ("of_log", "/ WAL"),
        ("host", "host's pages a transaction"),
        ("copied", "copied, of all"),
    ]);
    for ((row, system), last) in jobs.iter().zip(&found) {
        let wal = jobs.iter().position(|job| *job == (*row, SYSTEMS[0]));
        let wal = wal.and_then(|at| found[at].windows.last()).copied().unwrap_or(0);
        let of = |windows: &[u64], at: usize| windows.get(at).copied().unwrap_or(0);
        let now = of(&last.windows, 2);
        table.row(values![
            row.name(),
            row.keys,
            row.count,
            system.map_or(NAME, |variant| variant.name),
            hundredths(of(&last.windows, 0), 100),
            hundredths(now, 100),
            if wal == 0 { Value::Absent } else { hundredths(now, wal) },
            hundredths(last.flash.host, last.transactions),
            share(last.flash.gc, last.flash.programs()),
        ]);
        if system.is_none() && row.most < u64::MAX {
            study.checks.push(Check {
                what: format!(
                    "{NAME}, {}, {} keys: at most {} flash pages a transaction",
                    row.name(),
                    row.keys,
                    hundredths(row.most, 100)
                ),
                found: hundredths(now, 100).to_string(),
                holds: now <= row.most,
            });
        }
    }
    study.sections.push(section(scale, table));
    Ok(())
}

fn section(scale: Scale, table: Table) -> Section {
    let drive = match scale {
        Scale::Quick => "256 MiB, 4 dies",
        Scale::Default | Scale::Full => "2 GiB, 16 dies",
    };
    Section::new(
        "delta",
        "Commits as records of what they change: flash pages a transaction, FULL",
        format!(
            "A drive of {drive}, 7 % spare, full and overwritten once at random, cleaned by cost-benefit with heads by \
             lifetime. Overwrites of one value a transaction, in three windows. {NAME} is the real store: each \
             commit is a record of the bytes that changed, written to a log of {LOG} pages and flushed; the pages follow in \
             transactions of 7,500 at most (25,000 keys: 10,000). Values are runs of 64 equal bytes, and records are \
             packed."
        ),
        table,
    )
}
