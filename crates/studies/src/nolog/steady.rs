//! A drive of 2 GiB in the steady state: what cleaning makes of the same transactions.
//!
//! The drive is full and was overwritten once at random; 25,000 keys of 4 KiB are overwritten one a
//! transaction, in windows, of which the last is what remains of it. Greedy with two heads never settles
//! under this load: it takes a line of the log as soon as a sixth of it is dead, and copies pages that
//! are about to die.

use block::Time;
use lab::LabError;
use report::study::{Section, Study, Table, Value};
use report::values;

use super::Scale;
use super::experiment::{CPU, FULL, Loaded, Outcome, Variant, Windows, failed, load};
use super::text::{hundredths, share};
use crate::parallel::beside;
use sqlite::host::{Ssd, params};
use sqlite::workload::bench::{Overwrite, Shape};

/// How a drive is cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cleaning {
    /// Its name in tables.
    pub name: &'static str,
    /// Keys of the drive.
    pub keys: [&'static str; 2],
}

/// From what a drive did before to what it does now.
pub const CLEANINGS: [Cleaning; 4] = [
    Cleaning { name: "greedy, two heads", keys: ["gc.victim=greedy", "streams.policy=user+gc"] },
    Cleaning { name: "greedy, by lifetime", keys: ["gc.victim=greedy", "streams.policy=lifetime"] },
    Cleaning {
        name: "cost-benefit, two heads",
        keys: ["gc.victim=cost-benefit", "streams.policy=user+gc"],
    },
    Cleaning {
        name: "cost-benefit, by lifetime",
        keys: ["gc.victim=cost-benefit", "streams.policy=lifetime"],
    },
];

/// Spare space, in per cent.
pub const SPARES: [&str; 2] = ["7 %", "12.5 %"];
/// The systems: with a log, and without.
pub const SYSTEMS: [&Variant; 2] = [&FULL[0], &FULL[2]];

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    capacity: &'static str,
    dies: &'static str,
    keys: u64,
    /// Its windows: all are run.
    pub windows: Windows,
    /// Of the spares, of the ways to clean, every so many.
    some: (usize, usize),
}

impl Size {
    /// Of a scale: the default's is 150,000 transactions in five windows.
    pub fn new(scale: Scale) -> Size {
        match scale {
            Scale::Quick => Size {
                capacity: "capacity=256 MiB",
                dies: "geometry.dies=1",
                keys: 3000,
                windows: Windows { each: 1500, most: 3, within: 0 },
                some: (1, 3),
            },
            Scale::Default | Scale::Full => Size {
                capacity: "capacity=2 GiB",
                dies: "geometry.dies=4",
                keys: 25_000,
                windows: Windows { each: 30_000, most: 5, within: 0 },
                some: (2, 1),
            },
        }
    }

    fn pages(&self) -> &'static str {
        match self.capacity {
            "capacity=2 GiB" => "geometry.pages=64",
            _ => "geometry.pages=32",
        }
    }

    /// The database before the first transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub fn load(&self) -> Result<(Loaded, Overwrite), LabError> {
        let mut work = Overwrite::new(Shape { keys: self.keys, value: 4096 });
        let loaded = load(|db| work.load_even(db))?;
        Ok((loaded, work))
    }

    /// The drive, full and overwritten.
    ///
    /// # Errors
    /// Keys that make no drive.
    pub fn drive(&self, spare: &str, cleaning: &Cleaning) -> Result<Ssd, LabError> {
        let op = format!("op={spare}");
        let [victim, streams] = cleaning.keys;
        let keys = [
            "tx.mode=nolog",
            "nand.oob=full",
            self.capacity,
            "geometry.channels=4",
            self.dies,
            self.pages(),
            &op,
            victim,
            streams,
        ];
        let params = params(&keys)?;
        let pages = params.logical_pages;
        Ssd::aged(&params, pages, pages.into()).map_err(failed)
    }

    /// One cell.
    ///
    /// # Errors
    /// The drive's and SQLite's.
    pub fn cell(
        &self,
        (loaded, work): &(Loaded, Overwrite),
        spare: &str,
        cleaning: &Cleaning,
        system: &Variant,
    ) -> Result<Outcome, LabError> {
        let (mut work, drive) = (work.clone(), self.drive(spare, cleaning)?);
        let start: (Time, _) = (drive.now(), CPU);
        loaded.run_windows(system, Box::new(drive), start, self.windows, &mut |db, each| {
            work.run(db, self.windows.each, each)
        })
    }
}

/// Runs all cells.
pub(super) fn run(scale: Scale, threads: usize, study: &mut Study) -> Result<(), LabError> {
    let size = Size::new(scale);
    let database = size.load()?;
    let (spares, step) = size.some;
    let jobs: Vec<(&str, &Cleaning, &Variant)> = SPARES[..spares]
        .iter()
        .flat_map(|spare| CLEANINGS.iter().step_by(step).map(move |cleaning| (*spare, cleaning)))
        .flat_map(|(spare, cleaning)| SYSTEMS.map(|system| (spare, cleaning, system)))
        .collect();
    let found = beside(threads, &jobs, |(spare, cleaning, system)| {
        size.cell(&database, spare, cleaning, system)
    })?;
    let mut table = Table::new([
        ("spare", "spare"),
        ("cleaning", "cleaning"),
        ("system", "system"),
        ("first", "first window"),
        ("last", "last window"),
        ("steady", "last / the one before"),
        ("copied", "copied, of all"),
        ("locks_of_all", "because of locks, of all"),
        ("tx_s", "tx/s"),
    ]);
    for ((spare, cleaning, system), outcome) in jobs.iter().zip(&found) {
        let windows = &outcome.windows;
        let before = windows.len().checked_sub(2).and_then(|at| windows.get(at)).copied();
        let last = windows.last().copied().unwrap_or(0);
        let programs = outcome.flash.programs();
        table.row(values![
            *spare,
            cleaning.name,
            system.name,
            hundredths(windows.first().copied().unwrap_or(0), 100),
            hundredths(programs, outcome.operations),
            before.map_or(Value::Absent, |before| hundredths(last, before)),
            share(outcome.flash.gc, programs),
            share(outcome.flash.additional, programs),
            hundredths(outcome.rate(), 1000),
        ]);
    }
    let Windows { each, most, .. } = size.windows;
    study.sections.push(Section::new(
        "steady",
        "What cleaning makes of it: flash pages a transaction, FULL",
        format!(
            "{} keys of 4 KiB on a drive of {}, 4 channels, lines of a block of every die; full, and \
             overwritten once at random. {most} windows of {each} transactions.",
            size.keys,
            size.capacity.trim_start_matches("capacity="),
        ),
        table,
    ));
    Ok(())
}
