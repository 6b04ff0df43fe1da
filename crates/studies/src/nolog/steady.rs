//! A drive of 2 GiB in the steady state: what cleaning makes of the same transactions.
//!
//! The drive is full and was overwritten once at random; 25,000 keys of 4 KiB are overwritten one a
//! transaction, in windows, of which the last is what remains of it. Greedy with two heads never settles
//! under this load: it takes a line of the log as soon as a sixth of it is dead, and copies pages that
//! are about to die.

use block::Time;
use lab::LabError;
use report::study::{Check, Section, Study, Table, Value};
use report::values;

use super::Scale;
use super::clairvoyant::{Clairvoyant, Recorder};
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
    pub keys: &'static [&'static str],
    /// Placement by somebody who has seen the run before: how many versions of the host the shortest
    /// class lives at most, as a share of the drive's pages. 0: nobody knows.
    pub known: u64,
}

const fn cleaning(name: &'static str, keys: &'static [&'static str]) -> Cleaning {
    Cleaning { name, keys, known: 0 }
}

const HINTS: &[&str] =
    &["gc.victim=cost-benefit", "streams.policy=hint", "streams.count=3", "gc.per_stream=on"];

/// From what a drive did before to what it does now; then with hints of the host, and the bound.
pub const CLEANINGS: [Cleaning; 8] = [
    cleaning("greedy, two heads", &["gc.victim=greedy", "streams.policy=user+gc"]),
    cleaning("greedy, by lifetime", &["gc.victim=greedy", "streams.policy=lifetime"]),
    cleaning("cost-benefit, two heads", &["gc.victim=cost-benefit", "streams.policy=user+gc"]),
    cleaning("cost-benefit, by lifetime", &["gc.victim=cost-benefit", "streams.policy=lifetime"]),
    cleaning("cost-benefit, hints", HINTS),
    Cleaning { name: "clairvoyant, 1/256", keys: HINTS, known: 256 },
    Cleaning { name: "clairvoyant, 1/64", keys: HINTS, known: 64 },
    Cleaning { name: "clairvoyant, 1/16", keys: HINTS, known: 16 },
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
        let mut keys = vec![
            "tx.mode=nolog",
            "nand.oob=full",
            self.capacity,
            "geometry.channels=4",
            self.dies,
            self.pages(),
            &op,
        ];
        keys.extend(cleaning.keys);
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
        let run = |drive: Ssd| {
            let (mut work, start): (_, (Time, _)) = (work.clone(), (drive.now(), CPU));
            loaded.run_windows(system, Box::new(drive), start, self.windows, &mut |db, each| {
                work.run(db, self.windows.each, each)
            })
        };
        let mut drive = self.drive(spare, cleaning)?;
        if cleaning.known == 0 {
            return run(drive);
        }
        let (recorder, mut watched) = (Recorder::default(), drive.clone());
        watched.know(Box::new(recorder.clone())).map_err(failed)?;
        run(watched)?;
        let pages = u64::from(drive.pages());
        let known = Clairvoyant::new(recorder.order(), pages, pages / cleaning.known);
        drive.know(Box::new(known.clone())).map_err(failed)?;
        let outcome = run(drive)?;
        known.followed()?;
        Ok(outcome)
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
    let cells: Vec<Cell<'_>> = jobs
        .iter()
        .zip(found)
        .map(|((spare, cleaning, system), outcome)| Cell { spare, cleaning, system, outcome })
        .collect();
    study.sections.push(section(&size, &cells));
    if scale != Scale::Quick {
        goals(&cells, study);
    }
    Ok(())
}

/// A cell that was run.
struct Cell<'a> {
    spare: &'a str,
    cleaning: &'a Cleaning,
    system: &'a Variant,
    outcome: Outcome,
}

impl Cell<'_> {
    /// Hundredths of flash pages a transaction in the last window.
    fn last(&self) -> u64 {
        self.outcome.windows.last().copied().unwrap_or(0)
    }
}

fn section(size: &Size, cells: &[Cell<'_>]) -> Section {
    let mut table = Table::new([
        ("spare", "spare"),
        ("cleaning", "cleaning"),
        ("system", "system"),
        ("first", "first window"),
        ("last", "last window"),
        ("steady", "last / the one before"),
        ("of_bound", "last / clairvoyant"),
        ("copied", "copied, of all"),
        ("locks_of_all", "because of locks, of all"),
        ("tx_s", "tx/s"),
    ]);
    for cell in cells {
        let Cell { spare, cleaning, system, outcome } = cell;
        let windows = &outcome.windows;
        let before = windows.len().checked_sub(2).and_then(|at| windows.get(at)).copied();
        let bounds = cells.iter().filter(|other| other.cleaning.known > 0);
        let same = bounds.filter(|other| other.spare == *spare && other.system == *system);
        let bound = same.map(Cell::last).min();
        let programs = outcome.flash.programs();
        table.row(values![
            *spare,
            cleaning.name,
            system.name,
            hundredths(windows.first().copied().unwrap_or(0), 100),
            hundredths(programs, outcome.operations),
            before.map_or(Value::Absent, |before| hundredths(cell.last(), before)),
            bound.map_or(Value::Absent, |bound| hundredths(cell.last(), bound)),
            share(outcome.flash.gc, programs),
            share(outcome.flash.additional, programs),
            hundredths(outcome.rate(), 1000),
        ]);
    }
    let Windows { each, most, .. } = size.windows;
    Section::new(
        "steady",
        "What cleaning makes of it: flash pages a transaction, FULL",
        format!(
            "{} keys of 4 KiB on a drive of {}, 4 channels, lines of a block of every die; full, and \
             overwritten once at random. {most} windows of {each} transactions. Hints: the host says \
             which pages are a log's; pages of transactions have none. Clairvoyant: three heads of the \
             host and three of cleaning for somebody who has seen the run before, by when a page dies: \
             within that share of the drive's pages, within eight times as many, later. The least of \
             them is the bound that the others are compared with.",
            size.keys,
            size.capacity.trim_start_matches("capacity="),
        ),
        table,
    )
}

/// Flash pages a transaction, in hundredths, that a drive with transactions needs at most as it is by
/// default, by spare: with a log, and without.
const GOALS: [(&str, [u64; 2]); 2] = [("7 %", [1850, 1300]), ("12.5 %", [1500, 1000])];

/// What the last window has to show.
fn goals(cells: &[Cell<'_>], study: &mut Study) {
    let ours = || cells.iter().filter(|cell| *cell.cleaning == CLEANINGS[3]);
    for (spare, most) in GOALS {
        for (system, most) in SYSTEMS.iter().zip(most) {
            let cell = ours().find(|cell| cell.spare == spare && cell.system == *system);
            let last = cell.map_or(0, Cell::last);
            study.checks.push(Check {
                what: format!(
                    "{spare} spare, {}, {}: at most {} flash pages a transaction",
                    CLEANINGS[3].name,
                    system.name,
                    hundredths(most, 100)
                ),
                found: hundredths(last, 100).to_string(),
                holds: cell.is_some() && last <= most,
            });
        }
    }
    let locks = ours()
        .map(|cell| 10_000 * cell.outcome.flash.additional / cell.outcome.flash.programs().max(1));
    let most = locks.max().unwrap_or(0);
    study.checks.push(Check {
        what: format!("{}: locks add at most 0.5 % of the pages", CLEANINGS[3].name),
        found: format!("at most {} %", hundredths(most, 100)),
        holds: most <= 50,
    });
}
