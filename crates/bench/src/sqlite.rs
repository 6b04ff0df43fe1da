//! SQLite on this disk: the store against the modes everybody has, interleaved in one run.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ::sqlite::workload::bench::{Overwrite, Shape};
use block::Bytes;
use rusqlite::{Connection, OpenFlags, ffi};
use varve_sqlite_vfs::{Api, Stores};

use crate::args::Args;
use crate::meter;

/// Text of the `sqlite` command.
pub const HELP: &str = "\
varve-bench sqlite [--value 4096] [--data 16777216] [--commits 500] [--rounds 10] [--fill 17]
                   [--age 0] [--dir FOLDER]
    Overwrites of random rows of --value bytes in a table of --data bytes, a durable transaction
    each (synchronous=FULL), in --rounds rounds of --commits; the systems take turns. Stock SQLite
    in WAL and DELETE mode, with its checkpoints, the last one included; the same SQLite on a store
    in an image file that --data fills to --fill percent, locking normal and exclusive. For each: commits per
    second (median of the rounds) and bytes of the write calls per commit; then ratios. With --age,
    every system first overwrites so many rows: the table is as scattered as one in use, and
    cleaning is part of every commit of the store.";

/// A way to keep the database.
struct System {
    name: &'static str,
    pragmas: &'static str,
    store: bool,
}

const SYSTEMS: [System; 4] = [
    System { name: "wal", pragmas: "PRAGMA journal_mode=WAL;", store: false },
    System { name: "delete", pragmas: "PRAGMA journal_mode=DELETE;", store: false },
    System { name: "nolog", pragmas: "PRAGMA journal_mode=MEMORY;", store: true },
    System {
        name: "nolog-exclusive",
        pragmas: "PRAGMA journal_mode=MEMORY; PRAGMA locking_mode=EXCLUSIVE;",
        store: true,
    },
];

/// A database under load.
struct Running {
    system: &'static System,
    db: Connection,
    load: Overwrite,
    seconds: Vec<f64>,
    /// Bytes given to write calls.
    written: u64,
}

/// The `sqlite` command.
///
/// # Errors
/// Bad arguments; SQLite or the folder fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let value = args.number("value", 4096)?.max(1);
    let data = args.number("data", 16 << 20)?.max(value);
    let commits = args.number("commits", 500)?.max(1);
    let rounds = args.number("rounds", 10)?.max(1);
    let age = args.number("age", 0)?;
    let fill = args.number("fill", 17)?.clamp(5, 80);
    let folder = args.value("dir")?.map_or_else(std::env::temp_dir, PathBuf::from);
    args.finish()?;
    let folder = folder.join(format!("varve-bench-sqlite-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let shape = Shape::holding(data, value as usize);
    let done = measure(&folder, shape, data * 100 / fill, age, commits, rounds);
    // What the measurement says matters more than files that cannot be removed.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

fn measure(
    folder: &Path,
    shape: Shape,
    capacity: u64,
    age: u64,
    commits: u64,
    rounds: u64,
) -> Result<(), String> {
    let api = Api::new(
        ffi::sqlite3_vfs_find,
        ffi::sqlite3_vfs_register,
        ffi::sqlite3_uri_parameter,
        ffi::sqlite3_malloc,
        ffi::sqlite3_log,
    );
    Stores::new().register(&api, "varve", false, None).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    for system in &SYSTEMS {
        all.push(
            start(folder, system, shape, capacity, age)
                .map_err(|e| format!("{}: {e}", system.name))?,
        );
    }
    for _ in 0..rounds {
        for one in &mut all {
            let (before, start) = (meter::written()?, Instant::now());
            one.load.run(&one.db, commits, &mut || {}).map_err(|e| e.to_string())?;
            one.seconds.push(start.elapsed().as_secs_f64());
            one.written += meter::written()? - before;
        }
    }
    for one in all.iter_mut().filter(|one| one.system.name == "wal") {
        let before = meter::written()?;
        let last = "PRAGMA wal_checkpoint(TRUNCATE)";
        one.db.execute_batch(last).map_err(|e| format!("{last}: {e}"))?;
        one.written += meter::written()? - before;
    }
    let per_commit = |n: u64| n as f64 / (rounds * commits) as f64;
    let speed = |one: &Running| commits as f64 / median(&one.seconds);
    for one in &all {
        let name = one.system.name;
        println!("{name}_commits_per_s {:.0}", speed(one));
        println!("{name}_write_bytes_per_commit {:.0}", per_commit(one.written));
    }
    let [wal, delete, rest @ ..] = all.as_slice() else { return Ok(()) };
    for one in rest {
        let name = one.system.name;
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        println!("{name}/wal_commits {:.2}", speed(one) / speed(wal));
        println!("{name}/delete_commits {:.2}", speed(one) / speed(delete));
        println!("{name}/wal_write_bytes {:.3}", ratio(one.written, wal.written));
        println!("{name}/delete_write_bytes {:.3}", ratio(one.written, delete.written));
    }
    Ok(())
}

fn start(
    folder: &Path,
    system: &'static System,
    shape: Shape,
    capacity: u64,
    age: u64,
) -> rusqlite::Result<Running> {
    let path = folder.join(system.name).display().to_string();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = if system.store {
        let uri = format!("file:{path}?capacity={}", Bytes(capacity.next_multiple_of(4096)).0);
        Connection::open_with_flags_and_vfs(uri, flags, "varve")?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    db.execute_batch("PRAGMA page_size=4096; PRAGMA cache_size=4096;")?;
    // The load is one transaction, larger than a drive keeps in its table: it needs a journal.
    db.execute_batch("PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF;")?;
    let mut load = Overwrite::new(shape);
    load.load(&mut db)?;
    db.execute_batch(system.pragmas)?;
    db.execute_batch("PRAGMA wal_autocheckpoint=1000;")?;
    load.run(&db, age, &mut || {})?;
    if system.store {
        db.execute_batch("PRAGMA varve_flush;")?;
    }
    db.execute_batch("PRAGMA synchronous=FULL;")?;
    Ok(Running { system, db, load, seconds: Vec::new(), written: 0 })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
