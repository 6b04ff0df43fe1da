//! `varve sqlite measure`: what a workload of SQL makes SQLite write, in each way to use it.
//!
//! Invariants:
//! * the database is opened read-only and never changed: every run is on a copy, in memory or where `--at` says;
//! * every figure and every line of advice comes from a run; a line says what it does to
//!   durability in the same sentence.

mod advice;
mod device;
mod disk;
mod ground;
mod report;

use std::path::Path;
use std::sync::Arc;

use block::{RamDevice, Sectors, Time};
use lab::LabError;
use rusqlite::{Connection, OpenFlags, backup::Backup};
use ssd::FtlKind;
use varve_sqlite_vfs::{Counter, Counts};

pub use device::{OnDevice, Way};
pub use disk::{Disk, Written};
pub use ground::At;
pub(crate) use report::kind_json;
pub use report::{Report, Wear};

use crate::files::{Both, Memory, Recorder, Settings, Shared, Stage, StageError, Synchronous};
use crate::host::{AgedError, Commit, Engine, Flash, Ideal, Layout, Ssd, System, params_of};
use crate::pages::{PageCounter, Pages};

/// Page writes of a group.
const GROUP: u64 = 1000;
/// Dies of the modelled flash.
const DIES: usize = 64;

/// A way to use a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Its name.
    pub name: &'static str,
    /// SQLite's settings; `None`: those the database and the workload have.
    pub settings: Option<Settings>,
    /// How the files reach the device.
    pub system: System,
    /// What is durable when.
    pub durability: &'static str,
}

const EACH: &str = "durable when COMMIT returns";

/// The modes, the database as it is first.
pub const MODES: [Mode; 7] = [
    Mode {
        name: "as it is",
        settings: None,
        system: System::Files,
        durability: "what the database's own settings give",
    },
    Mode {
        name: "DELETE, FULL",
        settings: Some(Settings::new("delete", Synchronous::Full)),
        system: System::Files,
        durability: EACH,
    },
    Mode {
        name: "WAL, FULL",
        settings: Some(Settings::new("wal", Synchronous::Full)),
        system: System::Files,
        durability: EACH,
    },
    Mode {
        name: "WAL, NORMAL",
        settings: Some(Settings::new("wal", Synchronous::Normal)),
        system: System::Files,
        durability: "the last transactions before a power cut may be lost, none is torn",
    },
    Mode {
        name: "store, pages",
        settings: Some(Settings::new("memory", Synchronous::Full)),
        system: System::Transactions(None),
        durability: EACH,
    },
    Mode {
        name: "store, pages, exclusive",
        settings: Some(Settings::new("memory", Synchronous::Full).exclusive(true)),
        system: System::Transactions(None),
        durability: "durable when COMMIT returns; one connection only",
    },
    Mode {
        name: "store, pages, grouped",
        settings: Some(Settings::new("memory", Synchronous::Full)),
        system: System::Transactions(Some(GROUP)),
        durability: "up to 1000 page writes may be lost in a power cut or a crash of the program, \
                     in order, none is torn",
    },
];

/// What a run in a mode gave.
#[derive(Clone, Debug)]
pub struct Row {
    /// The mode.
    pub mode: Mode,
    /// What SQLite asked of its files.
    pub counts: Counts,
    /// Pages that reached a device, by the counter beside the model.
    pub counted: Pages,
    /// Pages the model wrote.
    pub pages: u64,
    /// Virtual time on flash without cleaning, in nanoseconds, none of the host's in it.
    pub nanoseconds: u64,
    /// What the same requests cost on a modelled drive, cleaning included; none where it cannot take them.
    pub flash: Option<Flash>,
}

fn stage(error: StageError) -> LabError {
    match error {
        StageError::Sqlite(error) => LabError::Input(error.to_string()),
        other => LabError::Failed(other.to_string()),
    }
}

fn input(what: impl std::fmt::Display) -> impl Fn(rusqlite::Error) -> LabError {
    move |error| LabError::Input(format!("{what}: {error}"))
}

/// Copies a database into memory, under a read lock.
fn copy(path: &Path) -> Result<Memory, LabError> {
    let from = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(input(path.display()))?;
    let files = Memory::new(1);
    let nobody = Arc::new(Counter::default());
    let room = Stage::new(&files, nobody).map_err(stage)?;
    let settings = Settings::new("off", Synchronous::Off);
    let mut to = room.open("main", &settings).map_err(stage)?;
    let work = Backup::new(&from, &mut to).map_err(input(path.display()))?;
    work.step(-1).map_err(input(path.display()))?;
    drop(work);
    to.close().map_err(|(_, error)| input(path.display())(error))?;
    Ok(files)
}

/// Runs a workload of SQL on a copy of a database in every mode. With `ssd`, a preset, the requests
/// also go to such a drive, that was filled and overwritten at random; with transactions, if its map knows
/// pages. One with a map of blocks has none: the modes of the store are not run on it. With `at` the workload also runs
/// on real files, and the kernel says what has reached that device.
///
/// # Errors
/// A database that cannot be read, SQL that fails, a drive that cannot be made, a device that cannot be used.
pub fn measure(
    database: &Path,
    workload: &str,
    ssd: Option<&str>,
    at: Option<&At>,
) -> Result<Report, LabError> {
    let files = copy(database)?;
    let used = ssd.map(aged).transpose()?;
    let rows = MODES
        .iter()
        .map(|mode| run(&files, mode, workload, used.as_ref()))
        .collect::<Result<_, _>>()?;
    let device = match at {
        Some(at) => {
            let bytes = files.bytes("main").unwrap_or_default();
            Some((at.clone(), device::measure(&bytes, workload, at)?))
        }
        None => None,
    };
    Ok(Report { rows, ssd: ssd.map(str::to_string), device })
}

/// A used drive of a preset.
fn aged(preset: &str) -> Result<Ssd, LabError> {
    let blocks = params_of(preset, &[])?.ftl == FtlKind::HybridLog;
    let params = match blocks {
        true => params_of(preset, &[])?,
        false => params_of(preset, &["tx.mode=nolog", "nand.oob=full", "tx.commit=counted"])?,
    };
    let pages = params.logical_pages;
    // All log blocks are in use long before a part of the pages is: from then on each write costs a merge.
    let overwrites = if blocks { pages / 64 } else { pages };
    Ssd::aged(&params, pages, overwrites.into()).map_err(|error| match error {
        AgedError::Config(error) => LabError::Config(error),
        AgedError::Device(error) => LabError::Failed(format!("{preset}: {error}")),
    })
}

fn run(files: &Memory, mode: &Mode, workload: &str, used: Option<&Ssd>) -> Result<Row, LabError> {
    let files = files.fork();
    let pages = files.list().iter().map(|(_, bytes)| bytes.div_ceil(4096)).max().unwrap_or(0);
    let (counter, calls) = (Counter::default(), Shared::new(Recorder::default()));
    let counted = Shared::new(PageCounter::new(GROUP));
    let both = Both(Arc::new(counter.clone()), Arc::new(Both(calls.clone(), counted.clone())));
    let room = Stage::new(&files, Arc::new(both)).map_err(stage)?;
    let db = match &mode.settings {
        Some(settings) => room.open("main", settings),
        None => room.open_as_it_is("main"),
    }
    .map_err(stage)?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map_err(input("the database"))?;
    calls.get().take();
    counter.reset();
    counted.get().reset();
    db.execute_batch(workload).map_err(input("the workload"))?;
    if !db.is_autocommit() {
        return Err(LabError::Input("the workload ends inside a transaction".to_string()));
    }
    let wal: String =
        db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(input("journal_mode"))?;
    if wal == "wal" {
        db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get::<_, i64>(0))
            .map_err(input("the last checkpoint"))?;
    }
    let calls = calls.get().take();
    // Room for all the workload has made the database, and its journals, grow by.
    let grown = files.list().iter().map(|(_, bytes)| bytes.div_ceil(4096)).max().unwrap_or(0);
    let log = 2 * calls.len() as u64 + 1024;
    let layout = Layout { database: 0, pages: (pages.max(grown) + log) as u32, log: log as u32 };
    let sectors = Sectors(8 * u64::from(layout.total()));
    let device = Ideal::new(RamDevice::new(sectors), DIES, Commit::Counted);
    let mut host =
        Engine::new(Box::new(device), mode.system, layout, block::Span::ZERO).at(Time::ZERO);
    let failed = |error: block::TxError| LabError::Failed(format!("{}: {error}", mode.name));
    host.hear(&calls).map_err(failed)?;
    host.finish().map_err(failed)?;
    let asks = matches!(mode.system, System::Transactions(_));
    let flash = used.filter(|ssd| !asks || ssd.has_transactions()).map(|ssd| {
        let now = ssd.now();
        let mut host =
            Engine::new(Box::new(ssd.clone()), mode.system, layout, block::Span::ZERO).at(now);
        host.hear(&calls).and_then(|()| host.finish()).map_err(failed)?;
        Ok::<_, LabError>(host.device().flash().unwrap_or_default())
    });
    Ok(Row {
        flash: flash.transpose()?,
        mode: *mode,
        counts: counter.counts(),
        counted: counted.get().finish(),
        pages: host.tally().pages(),
        nanoseconds: host.tally().total.as_ns(),
    })
}
