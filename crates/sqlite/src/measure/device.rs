//! The workload on real files, in every way to keep a database: what the kernel says has reached the device.
//!
//! Invariants:
//! * a run begins and ends with a database at rest: checkpoints, and the pages that wait in a store's memory,
//!   are part of it;
//! * the SQLite that runs is the one everybody has, its files are this system's, a store is an image as
//!   `varve sqlite import` makes it.

use std::fs;
use std::path::Path;

use lab::LabError;
use rusqlite::Connection;
use varve_sqlite_vfs::{Store, StoreOptions};

use super::disk::Written;
use super::ground::{At, Ground, remove};
use super::{EACH, GROUP, input, stage};
use crate::files::{Settings, Synchronous};
use crate::image::{self, Served};

/// A way to keep a database on real files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// What is durable when.
    pub durability: &'static str,
    keeps: Keeps,
    /// Whether it gives something up: what COMMIT promises, or other connections.
    pub(super) gives_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeps {
    AsItIs,
    Files(Settings),
    Store { exclusive: bool, group: u64 },
}

const NORMAL: &str = "the last transactions before a power cut may be lost, none is torn";

/// The ways, the database as it is first.
pub(super) const WAYS: [Way; 9] = [
    Way::new("as it is", "what the database's own settings give", Keeps::AsItIs),
    Way::new("DELETE, FULL", EACH, Keeps::Files(Settings::new("delete", Synchronous::Full))),
    Way::new("WAL, FULL", EACH, Keeps::Files(Settings::new("wal", Synchronous::Full))),
    Way::new(
        "WAL, FULL, exclusive",
        "durable when COMMIT returns; one connection only",
        Keeps::Files(Settings::new("wal", Synchronous::Full).exclusive(true)),
    )
    .giving_up(),
    Way::new("WAL, NORMAL", NORMAL, Keeps::Files(Settings::new("wal", Synchronous::Normal))).giving_up(),
    Way::new(
        "WAL, NORMAL, autocheckpoint 10000",
        NORMAL,
        Keeps::Files(Settings::new("wal", Synchronous::Normal).checkpoint(10_000)),
    )
    .giving_up(),
    Way::new("store", EACH, Keeps::Store { exclusive: false, group: 0 }),
    Way::new(
        "store, exclusive",
        "durable when COMMIT returns; one connection only",
        Keeps::Store { exclusive: true, group: 0 },
    )
    .giving_up(),
    Way::new(
        "store, grouped",
        "up to 1000 page writes may be lost in a power cut or a crash of the program, in order, none is torn",
        Keeps::Store { exclusive: false, group: GROUP },
    )
    .giving_up(),
];

impl Way {
    const fn new(name: &'static str, durability: &'static str, keeps: Keeps) -> Way {
        Way { name, durability, keeps, gives_up: false }
    }

    const fn giving_up(mut self) -> Way {
        self.gives_up = true;
        self
    }

    pub(super) fn is_store(&self) -> bool {
        matches!(self.keeps, Keeps::Store { .. })
    }
}

/// What a way gave.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice {
    /// The way.
    pub way: Way,
    /// What has reached the device.
    pub written: Written,
}

/// Pages of SQLite's cache, in every way.
const CACHE: &str = "PRAGMA cache_size=4096; PRAGMA temp_store=MEMORY";

/// Runs `workload` on `database`, the bytes of one, in every way, one after the other.
///
/// # Errors
/// No such ground; SQL that fails; a store that cannot be made.
pub(super) fn measure(database: &[u8], workload: &str, at: &At) -> Result<Vec<OnDevice>, LabError> {
    // An image is made with six times the database and a third, beside the file it is made from.
    let ground = Ground::new(at, 16 * database.len() as u64 + (512 << 20))?;
    let one = |(number, way): (usize, &Way)| {
        let room = ground.room(&number.to_string())?;
        let file = room.join("main.db");
        fs::write(&file, database).map_err(|e| LabError::io(&file, e))?;
        let written = match way.keeps {
            Keeps::Store { exclusive, group } => {
                let image = room.join("main.varve");
                image::import(&file, &image, None, None)?;
                fs::remove_file(&file).map_err(|e| LabError::io(&file, e))?;
                on_store(&ground, &image, workload, exclusive, group)
            }
            Keeps::AsItIs => on_files(&ground, &file, workload, None),
            Keeps::Files(settings) => on_files(&ground, &file, workload, Some(&settings)),
        };
        remove(&room);
        Ok(OnDevice { way: *way, written: written? })
    };
    WAYS.iter().enumerate().map(one).collect()
}

fn on_files(
    ground: &Ground,
    file: &Path,
    workload: &str,
    settings: Option<&Settings>,
) -> Result<Written, LabError> {
    let db = Connection::open(file).map_err(input(file.display()))?;
    db.execute_batch(CACHE).map_err(input(file.display()))?;
    settings.map_or(Ok(()), |settings| settings.apply(&db)).map_err(stage)?;
    let wal = || -> Result<bool, LabError> {
        let mode: String = db
            .query_row("PRAGMA journal_mode", [], |row| row.get(0))
            .map_err(input("journal_mode"))?;
        Ok(mode == "wal")
    };
    let rest = || match wal()? {
        true => db
            .query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
            .map_err(input("the checkpoint")),
        false => Ok(()),
    };
    rest()?;
    let before = ground.settled()?;
    db.execute_batch(workload).map_err(input("the workload"))?;
    rest()?;
    let written = ground.settled()?.since(before);
    db.close().map_err(|(_, error)| input(file.display())(error))?;
    Ok(written)
}

fn on_store(
    ground: &Ground,
    image: &Path,
    workload: &str,
    exclusive: bool,
    group: u64,
) -> Result<Written, LabError> {
    let options = StoreOptions { group, ..StoreOptions::default() };
    let store = Store::open(image, options).map_err(image::refused)?;
    let served = Served::new(&image.display().to_string(), store)?;
    let db = served.open("main")?;
    db.execute_batch(CACHE).map_err(input("the store"))?;
    if exclusive {
        db.query_row("PRAGMA locking_mode=EXCLUSIVE", [], |_| Ok(()))
            .map_err(input("the store"))?;
    }
    let rest = || db.query_row("PRAGMA varve_flush", [], |_| Ok(())).map_err(input("varve_flush"));
    rest()?;
    let before = ground.settled()?;
    db.execute_batch(workload).map_err(input("the workload"))?;
    rest()?;
    let written = ground.settled()?.since(before);
    db.close().map_err(|(_, error)| input("the store")(error))?;
    Ok(written)
}
