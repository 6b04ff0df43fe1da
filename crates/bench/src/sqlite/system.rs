//! Ways to keep a database, each under the same load.

use std::path::Path;
use std::time::Instant;

use ::sqlite::workload::bench::Overwrite;
use ::sqlite::workload::programs::Program;
use rusqlite::{Connection, OpenFlags};

use crate::meter;
use ::sqlite::measure::{Disk, Written};

/// The VFS of stores in this process.
pub const VFS: &str = "varve";

/// A way to keep the database.
#[derive(Debug)]
pub struct System {
    pub name: &'static str,
    pragmas: &'static str,
    /// What the name of a store says besides; `None`: stock SQLite.
    store: Option<&'static str>,
}

pub const SYSTEMS: [System; 6] = [
    System { name: "wal", pragmas: "PRAGMA journal_mode=WAL;", store: None },
    System { name: "delete", pragmas: "PRAGMA journal_mode=DELETE;", store: None },
    System { name: "nolog", pragmas: "PRAGMA journal_mode=MEMORY;", store: Some("delta=off") },
    System {
        name: "nolog-exclusive",
        pragmas: "PRAGMA journal_mode=MEMORY; PRAGMA locking_mode=EXCLUSIVE;",
        store: Some("delta=off"),
    },
    System { name: "delta", pragmas: "", store: Some("delta=on") },
    System { name: "delta-512", pragmas: "", store: Some("delta=on&log_grain=512") },
];

/// The system of a name.
///
/// # Errors
/// There is none.
pub fn system(name: &str) -> Result<&'static System, String> {
    SYSTEMS.iter().find(|system| system.name == name).ok_or_else(|| {
        let all: Vec<&str> = SYSTEMS.iter().map(|system| system.name).collect();
        format!("--systems {name}: expected some of {}", all.join(","))
    })
}

/// What is done to the database.
#[derive(Clone, Debug)]
pub enum Load {
    Overwrite(Overwrite),
    Program(Program),
}

impl Load {
    fn load(&mut self, db: &mut Connection) -> rusqlite::Result<()> {
        match self {
            Load::Overwrite(load) => load.load(db),
            Load::Program(load) => load.load(db),
        }
    }

    fn run(&mut self, db: &Connection, count: u64) -> rusqlite::Result<()> {
        match self {
            Load::Overwrite(load) => load.run(db, count, &mut || {}),
            Load::Program(load) => load.run(db, count, &mut || {}),
        }
    }
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Run {
    pub load: Load,
    /// Bytes that an image holds, for good, and of its log; `None`: the usual ones (such an image grows).
    pub capacity: Option<u64>,
    pub log: Option<u64>,
    /// Commits before those that count.
    pub age: u64,
    pub commits: u64,
    pub rounds: u64,
}

/// A database under load.
pub struct Running<'a> {
    pub system: &'static System,
    db: Connection,
    load: Load,
    disk: Option<&'a Disk>,
    seconds: Vec<f64>,
    cpu: f64,
    /// Bytes given to write calls.
    written: u64,
    device: Option<Written>,
}

/// What a system has cost, per commit.
#[derive(Clone, Debug)]
pub struct Cost {
    pub system: &'static System,
    pub commits_per_s: f64,
    pub cpu_us: f64,
    pub write_bytes: f64,
    pub device: Option<OnDevice>,
}

/// The same at the device.
#[derive(Clone, Copy, Debug)]
pub struct OnDevice {
    pub bytes: f64,
    pub writes: f64,
    pub flushes: f64,
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl<'a> Running<'a> {
    /// A loaded and aged database in `folder`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn start(
        folder: &Path,
        system: &'static System,
        run: &Run,
        disk: Option<&'a Disk>,
    ) -> rusqlite::Result<Running<'a>> {
        let path = folder.join(system.name).display().to_string();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = match system.store {
            Some(options) => {
                let capacity = run.capacity.map_or(String::new(), |bytes| {
                    format!("capacity={}&", bytes.next_multiple_of(4096))
                });
                let log = match run.log {
                    Some(bytes) if options.contains("delta=on") => format!("&log={bytes}"),
                    _ => String::new(),
                };
                let uri = format!("file:{path}?{capacity}{options}{log}");
                Connection::open_with_flags_and_vfs(uri, flags, VFS)?
            }
            None => Connection::open_with_flags(path, flags)?,
        };
        db.execute_batch("PRAGMA page_size=4096; PRAGMA cache_size=4096;")?;
        // The load is one transaction, larger than a drive keeps in its table: it needs a journal.
        db.execute_batch("PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF;")?;
        let mut load = run.load.clone();
        load.load(&mut db)?;
        db.execute_batch(system.pragmas)?;
        db.execute_batch("PRAGMA wal_autocheckpoint=1000;")?;
        load.run(&db, run.age)?;
        db.execute_batch(if system.store.is_some() { "PRAGMA varve_flush;" } else { "" })?;
        db.execute_batch("PRAGMA synchronous=FULL;")?;
        if system.name == "wal" {
            // Its file keeps the size it has.
            db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        }
        let device = disk.map(|_| Written::default());
        Ok(Running { system, db, load, disk, seconds: Vec::new(), cpu: 0.0, written: 0, device })
    }

    /// Does something that counts; `timed`: its time too.
    fn counted(
        &mut self,
        timed: bool,
        body: impl FnOnce(&mut Load, &Connection) -> rusqlite::Result<()>,
    ) -> Result<(), String> {
        let settled =
            |disk: Option<&Disk>| disk.map(Disk::settled).transpose().map_err(|e| e.to_string());
        let device = settled(self.disk)?;
        let (written, cpu, start) = (meter::written()?, meter::cpu_seconds()?, Instant::now());
        body(&mut self.load, &self.db).map_err(|e| format!("{}: {e}", self.system.name))?;
        if timed {
            self.seconds.push(start.elapsed().as_secs_f64());
        }
        self.cpu += meter::cpu_seconds()? - cpu;
        self.written += meter::written()? - written;
        if let (Some(before), Some(after), Some(sum)) = (device, settled(self.disk)?, self.device) {
            self.device = Some(sum.and(after.since(before)));
        }
        Ok(())
    }

    /// A round.
    ///
    /// # Errors
    /// SQLite's, the system's.
    pub fn round(&mut self, commits: u64) -> Result<(), String> {
        self.counted(true, |load, db| load.run(db, commits))
    }

    /// What waits to be copied to its place counts as well.
    ///
    /// # Errors
    /// SQLite's, the system's.
    pub fn finish(&mut self) -> Result<(), String> {
        let last = match (self.system.store.is_some(), self.system.name) {
            (true, _) => "PRAGMA varve_flush",
            (false, "wal") => "PRAGMA wal_checkpoint(TRUNCATE)",
            (false, _) => return Ok(()),
        };
        self.counted(false, |_, db| db.query_row(last, [], |_| Ok(())))
    }

    /// What it has cost.
    pub fn cost(&self, run: &Run) -> Cost {
        let all = (run.rounds * run.commits) as f64;
        Cost {
            system: self.system,
            commits_per_s: run.commits as f64 / median(&self.seconds),
            cpu_us: self.cpu * 1e6 / all,
            write_bytes: self.written as f64 / all,
            device: self.device.map(|device| OnDevice {
                bytes: device.bytes as f64 / all,
                writes: device.writes as f64 / all,
                flushes: device.flushes as f64 / all,
            }),
        }
    }
}

/// All systems under a load, in turns.
///
/// # Errors
/// SQLite's, the system's.
pub fn measure(
    folder: &Path,
    systems: &[&'static System],
    run: &Run,
    disk: Option<&Disk>,
) -> Result<Vec<Cost>, String> {
    let mut all = Vec::new();
    for system in systems {
        let started = Running::start(folder, system, run, disk);
        all.push(started.map_err(|e| format!("{}: {e}", system.name))?);
    }
    for _ in 0..run.rounds {
        for one in &mut all {
            one.round(run.commits)?;
        }
    }
    all.iter_mut().try_for_each(Running::finish)?;
    Ok(all.iter().map(|one| one.cost(run)).collect())
}
