//! Several connections that commit at the same time, each in a thread: a store beside stock WAL.

use std::path::Path;
use std::time::{Duration, Instant};

use block::Rng;
use rusqlite::{Connection, OpenFlags, params};

use super::system::VFS;
use ::sqlite::measure::{Disk, Written};

const ROWS: u64 = 1_000;
const VALUE: usize = 100;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Writers {
    pub writers: u64,
    /// Of each writer in a round.
    pub commits: u64,
    pub rounds: u64,
}

/// Who keeps the rows, and where.
#[derive(Clone, Copy, Debug)]
struct System {
    name: &'static str,
    store: bool,
    /// Each writer has a database of its own: in the store of one image, or a file.
    apart: bool,
}

const SYSTEMS: [System; 4] = [
    System { name: "wal", store: false, apart: false },
    System { name: "store", store: true, apart: false },
    System { name: "wal-apart", store: false, apart: true },
    System { name: "store-apart", store: true, apart: true },
];

/// A system with its connections.
struct Running {
    system: System,
    connections: Vec<Connection>,
    seconds: Vec<f64>,
    device: Written,
    /// Commits in the log and writes of it before the first round.
    before: (u64, u64),
}

impl Running {
    fn start(folder: &Path, system: System, run: &Writers) -> rusqlite::Result<Running> {
        let path = folder.join(system.name).display().to_string();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = |who: u64| {
            let db = match (system.store, system.apart) {
                (true, false) => Connection::open_with_flags_and_vfs(&path, flags, VFS)?,
                (true, true) => {
                    Connection::open_with_flags_and_vfs(format!("{path}/{who}"), flags, VFS)?
                }
                (false, false) => Connection::open_with_flags(&path, flags)?,
                (false, true) => Connection::open_with_flags(format!("{path}-{who}"), flags)?,
            };
            db.busy_timeout(Duration::from_secs(60))?;
            if !system.store {
                db.execute_batch("PRAGMA journal_mode=WAL")?;
            }
            db.execute_batch("PRAGMA synchronous=FULL")?;
            Ok(db)
        };
        if system.store {
            // An image is made by the connection that makes its first database.
            let db = Connection::open_with_flags_and_vfs(&path, flags, VFS)?;
            db.execute_batch("CREATE TABLE made(a)")?;
        }
        let connections = (0..run.writers).map(open).collect::<rusqlite::Result<Vec<_>>>()?;
        let made = if system.apart { connections.len() } else { 1 };
        for db in &connections[..made] {
            db.execute_batch(&format!(
                "CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
                 INSERT INTO t SELECT i, zeroblob({VALUE}) FROM n; UPDATE t SET v = v WHERE k = 1;"
            ))?;
        }
        let device = Written::default();
        let before = logged(&connections[0], system)?;
        Ok(Running { system, connections, seconds: Vec::new(), device, before })
    }

    fn round(&mut self, run: &Writers, round: u64, disk: Option<&Disk>) -> Result<(), String> {
        let settled = || disk.map(Disk::settled).transpose().map_err(|e| e.to_string());
        let (before, start) = (settled()?, Instant::now());
        let work = |who: u64, db: &Connection| -> rusqlite::Result<()> {
            let mut rng = Rng::new(round * 1_000 + who);
            let mut update = db.prepare("UPDATE t SET v = ?1 WHERE k = ?2")?;
            let mut value = [0; VALUE];
            for _ in 0..run.commits {
                value.fill_with(|| rng.below(256) as u8);
                update.execute(params![value, rng.below(ROWS) + 1])?;
            }
            Ok(())
        };
        let done: Result<Vec<()>, String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(&mut self.connections)
                .map(|(who, db)| scope.spawn(move || work(who, db)))
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(done) => done.map_err(|error| error.to_string()),
                Err(_) => Err("a writer has panicked".to_string()),
            });
            ended.collect()
        });
        done.map_err(|error| format!("{}: {error}", self.system.name))?;
        self.seconds.push(start.elapsed().as_secs_f64());
        if let (Some(before), Some(after)) = (before, settled()?) {
            self.device = self.device.and(after.since(before));
        }
        Ok(())
    }

    /// Prints what it has done; answers commits per second.
    fn tell(&self, run: &Writers, disk: bool) -> Result<f64, String> {
        let (name, all) = (self.system.name, run.writers * run.commits * run.rounds);
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let rate = (run.writers * run.commits) as f64 / sorted[sorted.len() / 2];
        println!("{name}_{}_commits_per_s {rate:.0}", run.writers);
        if disk {
            let flushes = self.device.flushes as f64 / all as f64;
            println!("{name}_{}_flushes_per_commit {flushes:.3}", run.writers);
        }
        if self.system.store {
            let after = logged(&self.connections[0], self.system).map_err(|e| e.to_string())?;
            let (commits, writes) = (after.0 - self.before.0, after.1 - self.before.1);
            let shared = commits as f64 / writes.max(1) as f64;
            println!("{name}_{}_commits_per_log_flush {shared:.2}", run.writers);
        }
        Ok(rate)
    }
}

/// Commits in the log of a store, and writes of it.
fn logged(db: &Connection, system: System) -> rusqlite::Result<(u64, u64)> {
    if !system.store {
        return Ok((0, 0));
    }
    let stats: String = db.query_row("PRAGMA varve_stats", [], |row| row.get(0))?;
    let number = |name: &str| {
        let rest = stats.split_once(&format!(" {name}: ")).map_or("", |(_, rest)| rest);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    Ok((number("logged"), number("log_writes")))
}

/// All systems, in turns.
///
/// # Errors
/// SQLite's, the system's.
pub fn run(folder: &Path, run: &Writers, disk: Option<&Disk>) -> Result<(), String> {
    let start = |system: &System| Running::start(folder, *system, run).map_err(|e| e.to_string());
    let mut all = SYSTEMS.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    for round in 0..run.rounds {
        for one in &mut all {
            one.round(run, round, disk)?;
        }
    }
    let mut rates = Vec::new();
    for one in &all {
        rates.push(one.tell(run, disk.is_some())?);
    }
    for pair in [0, 2] {
        let (wal, store) = (SYSTEMS[pair].name, SYSTEMS[pair + 1].name);
        println!("{store}_{}_by_{wal} {:.2}", run.writers, rates[pair + 1] / rates[pair]);
    }
    Ok(())
}
