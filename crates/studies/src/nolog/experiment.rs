//! One run: a system, a database, a workload, a device.

use crate::parallel::beside;
use std::sync::Arc;

use block::{RamDevice, Sectors, Span, Time};
use lab::LabError;
use report::study::Condition;
use rusqlite::Connection;

use super::Scale;
use super::paper::setting;
use super::text::change;
use sqlite::files::{Both, Memory, Recorder, Settings, Shared, Stage, Synchronous};
use sqlite::host::{
    Below, Commit, Engine, Flash, Handle, Ideal, Layout, Ssd, System, Tally, params,
};
use sqlite::pages::{PageCounter, Pages};
use sqlite::workload::Each;

/// Page writes of a group.
const GROUP: u64 = 1000;
/// Pages of the log or journal: more than a checkpoint every 1000 frames leaves.
const LOG: u32 = 8192;
/// Host time of an operation.
pub const CPU: Span = Span::from_us(30);
/// Dies of the paper's drive.
const DIES: usize = 64;

/// A compared system with SQLite's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Its name in tables.
    pub name: &'static str,
    /// How SQLite is told to work.
    pub settings: Settings,
    /// How its files reach the device.
    pub system: System,
    /// How the device ends a transaction.
    pub commit: Commit,
}

const fn wal(synchronous: Synchronous) -> Settings {
    Settings::new("wal", synchronous)
}
const SW: System = System::Remapped { headers: true };

const fn variant(
    name: &'static str,
    settings: Settings,
    system: System,
    commit: Commit,
) -> Variant {
    Variant { name, settings, system, commit }
}
const fn memory(synchronous: Synchronous) -> Settings {
    Settings::new("memory", synchronous)
}

/// FULL: every commit is durable. NoLgn commits as the drive does unless told otherwise: the last
/// page names the others (`counted`); the last row waits for them (`barrier`).
pub const FULL: [Variant; 7] = [
    variant("WAL", wal(Synchronous::Full), System::Files, Commit::Counted),
    variant("SW-WAL", wal(Synchronous::Full), SW, Commit::Counted),
    variant("NoLgn", memory(Synchronous::Full), System::Transactions(None), Commit::Counted),
    variant(
        "SW-WAL, free headers",
        wal(Synchronous::Full),
        System::Remapped { headers: false },
        Commit::Counted,
    ),
    variant(
        "NoLgn, exclusive",
        memory(Synchronous::Full).exclusive(true),
        System::Transactions(None),
        Commit::Counted,
    ),
    variant("DELETE", Settings::new("delete", Synchronous::Full), System::Files, Commit::Counted),
    variant(
        "NoLgn, barrier",
        memory(Synchronous::Full),
        System::Transactions(None),
        Commit::Barrier,
    ),
];

/// NORMAL: durable at checkpoints, or in groups.
pub const NORMAL: [Variant; 3] = [
    variant("WAL", wal(Synchronous::Normal), System::Files, Commit::Counted),
    variant("SW-WAL", wal(Synchronous::Normal), SW, Commit::Counted),
    variant(
        "NoLgn",
        memory(Synchronous::Normal),
        System::Transactions(Some(GROUP)),
        Commit::Counted,
    ),
];

/// How a run is cut into windows, of which the last is reported: it ends when two windows that
/// follow each other differ by less than `within`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// Operations of a window.
    pub each: u64,
    /// Windows at most.
    pub most: usize,
    /// Tenths of a per cent that programs an operation may differ by; 0: all windows are run.
    pub within: i64,
}

impl Windows {
    /// One window, of whatever the workload does.
    const ONE: Windows = Windows { each: 0, most: 1, within: 0 };

    /// Whether the last two of these are alike: hundredths of programs an operation.
    fn settled(self, windows: &[u64]) -> bool {
        let [.., before, last] = windows else { return false };
        change(*last, *before).abs() < self.within
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations.
    pub operations: u64,
    /// Requests and time.
    pub tally: Tally,
    /// Work of the flash.
    pub flash: Flash,
    /// The independent counter's pages.
    pub counted: Pages,
    /// Hundredths of flash programs an operation in each window, of which the last is this one.
    pub windows: Vec<u64>,
}

impl Outcome {
    /// The independent counter's figure for a variant: all pages that it must have written.
    pub fn expected(&self, variant: &Variant) -> u64 {
        let pages = &self.counted;
        match variant.system {
            System::Files => pages.database + pages.log + pages.journal,
            System::Remapped { .. } => pages.images,
            System::Transactions(None) => pages.database,
            System::Transactions(Some(_)) => pages.grouped,
        }
    }

    /// The model's own figure for the same pages.
    pub fn written(&self, variant: &Variant) -> u64 {
        match variant.system {
            System::Remapped { .. } => self.tally.log,
            _ => self.tally.pages(),
        }
    }

    /// Operations in 1000 seconds of virtual time.
    pub fn rate(&self) -> u64 {
        let ps = u128::from(self.tally.total.as_ps().max(1));
        (u128::from(self.operations) * 1_000_000_000_000_000 / ps) as u64
    }

    /// Nanoseconds of the mean operation.
    pub fn latency(&self) -> u64 {
        self.tally.total.as_ns() / self.operations.max(1)
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Failed(error.to_string())
}

/// A loaded database, `main`.
pub struct Loaded {
    files: Memory,
    layout: Layout,
}

/// Loads a database in one go, without syncs.
///
/// # Errors
/// SQLite's.
pub fn load(
    fill: impl FnOnce(&mut Connection) -> rusqlite::Result<()>,
) -> Result<Loaded, LabError> {
    let files = Memory::new(super::SEED);
    let nobody = Shared::new(PageCounter::new(GROUP));
    let stage = Stage::new(&files, nobody).map_err(failed)?;
    let settings = Settings::new("delete", Synchronous::Off);
    let mut db = stage.open("main", &settings).map_err(failed)?;
    fill(&mut db).map_err(failed)?;
    db.close().map_err(|(_, error)| failed(error))?;
    let bytes = files.list().iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    // A workload that inserts may double a small database.
    let pages = (bytes / 4096) as u32;
    let pages = pages + pages / 2 + 4096;
    Ok(Loaded { files, layout: Layout { database: 0, pages, log: LOG } })
}

impl Loaded {
    /// Pages of the device that may be remapped: all the files'.
    pub fn pages(&self) -> u32 {
        self.layout.total()
    }

    /// Flash without cleaning.
    pub fn ideal(&self, commit: Commit) -> Box<dyn Below> {
        let sectors = Sectors(8 * u64::from(self.pages()));
        Box::new(Ideal::new(RamDevice::new(sectors), DIES, commit))
    }

    /// Runs a workload with a system over a device that has been used until `now`, on a host that
    /// takes `cpu` for an operation. `work` is told a connection and whom to call after each.
    ///
    /// # Errors
    /// SQLite's and the device's.
    pub fn run(
        &self,
        variant: &Variant,
        device: Box<dyn Below>,
        (now, cpu): (Time, Span),
        work: &mut dyn FnMut(&Connection, Each<'_>) -> rusqlite::Result<()>,
    ) -> Result<Outcome, LabError> {
        self.run_windows(variant, device, (now, cpu), Windows::ONE, work)
    }

    /// The same with one call of `work` for each window. A window ends with a checkpoint or with the
    /// group's commit.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    pub fn run_windows(
        &self,
        variant: &Variant,
        device: Box<dyn Below>,
        (now, cpu): (Time, Span),
        windows: Windows,
        work: &mut dyn FnMut(&Connection, Each<'_>) -> rusqlite::Result<()>,
    ) -> Result<Outcome, LabError> {
        let files = self.files.fork();
        let mut host = Engine::new(device, variant.system, self.layout, cpu).at(now);
        let (calls, pages) =
            (Shared::new(Recorder::default()), Shared::new(PageCounter::new(GROUP)));
        let both = Both(calls.clone(), pages.clone());
        let stage = Stage::new(&files, Arc::new(both)).map_err(failed)?;
        let db = stage.open("main", &variant.settings).map_err(failed)?;
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
            .map_err(failed)?;
        host.hear(&calls.get().take()).map_err(failed)?;
        host.finish().map_err(failed)?;
        let mut programs = Vec::new();
        loop {
            host.start();
            pages.get().reset();
            let operations = window(&mut host, &db, &calls, variant, work)?;
            let flash = host.device().flash().unwrap_or_default();
            programs.push(flash.programs() * 100 / operations.max(1));
            if programs.len() < windows.most && !windows.settled(&programs) {
                continue;
            }
            return Ok(Outcome {
                operations,
                tally: host.tally().clone(),
                flash,
                counted: pages.get().finish(),
                windows: programs,
            });
        }
    }
}

/// One window of a run: how many operations it had.
fn window(
    host: &mut Engine,
    db: &Connection,
    calls: &Shared<Recorder>,
    variant: &Variant,
    work: &mut dyn FnMut(&Connection, Each<'_>) -> rusqlite::Result<()>,
) -> Result<u64, LabError> {
    let (mut operations, mut refused) = (0, None);
    work(db, &mut || {
        operations += 1;
        if refused.is_none() {
            refused = host.hear(&calls.get().take()).err();
        }
        host.operation();
    })
    .map_err(failed)?;
    if let Some(error) = refused {
        return Err(failed(error));
    }
    if variant.settings.journal == "wal" {
        db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get::<_, i64>(0))
            .map_err(failed)?;
    }
    host.hear(&calls.get().take()).map_err(failed)?;
    host.finish().map_err(failed)?;
    Ok(operations)
}

/// Drives of the scale, filled up to a share of their pages in per cent and overwritten at random,
/// one for each way to commit.
pub struct Drives {
    barrier: Handle<Ssd>,
    counted: Handle<Ssd>,
}

impl Drives {
    /// Ages drives of a condition.
    pub fn new(
        scale: Scale,
        threads: usize,
        percent: u32,
        condition: &Condition,
    ) -> Result<Drives, LabError> {
        let ways = ["tx.commit=barrier", "tx.commit=counted"];
        let keys = setting(condition, scale);
        let mut aged =
            beside(threads, &ways, |way| drive(scale, percent, &[keys, &[*way]].concat()))?
                .into_iter();
        let mut next = || aged.next().ok_or_else(|| failed("a drive is missing"));
        Ok(Drives { barrier: Handle::new(next()?), counted: Handle::new(next()?) })
    }

    /// A fresh copy for a variant.
    pub fn copy(&self, commit: Commit) -> Ssd {
        match commit {
            Commit::Barrier => self.barrier.get().clone(),
            Commit::Counted => self.counted.get().clone(),
        }
    }
}

/// A drive of the scale with further keys set.
pub fn drive(scale: Scale, percent: u32, more: &[&str]) -> Result<Ssd, LabError> {
    // As the paper's drive cleans, and most emulators: the block with most dead pages.
    let mut keys = vec!["tx.mode=nolog", "nand.oob=full", "gc.victim=greedy"];
    keys.extend(match scale {
        Scale::Quick => &["capacity=256 MiB", "geometry.pages=8"][..],
        // A line is a block of every die, and what is cleaned at a time. With the paper's 1024
        // pages a block it would be 65,536 pages, as many as a run of this length writes.
        Scale::Default | Scale::Full => &["geometry.pages=64"],
    });
    if scale == Scale::Quick && !more.iter().any(|key| key.starts_with("geometry.channels")) {
        keys.extend(["geometry.channels=4", "geometry.dies=2"]);
    }
    keys.extend(more);
    let params = params(&keys)?;
    let filled = u64::from(params.logical_pages) * u64::from(percent) / 100;
    Ssd::aged(&params, filled as u32, filled).map_err(failed)
}
