//! SQLite on this disk: stores against the modes everybody has, interleaved in one run.

mod system;
mod table;
mod writers;

use std::path::{Path, PathBuf};

use ::sqlite::workload::bench::{Overwrite, Shape};
use ::sqlite::workload::programs::{Kind, Program};
use block::parse_size;
use rusqlite::ffi;
use varve_sqlite_vfs::{Api, Stores};

use self::system::{Cost, Load, Run, SYSTEMS, VFS, measure, system};
use self::writers::Writers;
use crate::args::Args;
use ::sqlite::measure::Disk;

/// Text of the `sqlite` command.
pub const HELP: &str = "\
varve-bench sqlite [--load overwrite] [--value 4096] [--data 16777216] [--commits 500] [--rounds 10]
                   [--fill 17 | --new] [--log SIZE] [--age 0] [--systems NAMES] [--dir FOLDER]
varve-bench sqlite --table [--only TEXT] [--dir FOLDER]
varve-bench sqlite --writers 8 [--commits 500] [--rounds 10] [--dir FOLDER]
    Durable transactions (synchronous=FULL) in --rounds rounds of --commits; the systems take turns.
    overwrite: random rows of --value bytes in a table of --data bytes, each value runs of 64 equal
    bytes; noise: the same of bytes that nothing packs; update, sensor, mixed, bulk: what small programs
    do. Stock SQLite in WAL and DELETE mode (wal, delete), with its checkpoints, the
    last one included; the same SQLite on a store in an image file that --data fills to --fill percent,
    or that is made and grows as one of whom nothing is asked (--new),
    of which each commit writes its pages, locking normal and exclusive (nolog, nolog-exclusive), or a
    record of what it changes (delta; delta-512: records of multiples of 512 bytes), in a log of --log.
    For each: commits per second (median of the rounds), CPU and bytes of the write calls per commit;
    where the folder lies on a block device, what has reached that: bytes, writes and flushes. Then
    ratios. With --age, every system first commits so often: the table is as scattered as one in use, and
    cleaning is part of every commit of the store.
    --table: the bytes at the device of all loads beside WAL's in the same run, as a table, and what they
    are to reach; --only: rows whose name holds that. scripts/store-bytes gives it a device of its own.
    --writers: so many threads, each with its connection and --commits durable updates of a row in a round: stock
    SQLite in WAL mode and a store, all on one database, and each on its own (apart). Commits per second (median of the
    rounds), commits of the store for each flush of its log, flushes at the device, and ratios.";

/// The `sqlite` command.
///
/// # Errors
/// Bad arguments; SQLite or the folder fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let folder = args.value("dir")?.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("varve-bench-sqlite-{}", std::process::id()));
    let job = match (args.flag("table"), args.number("writers", 0)?) {
        (true, _) => Job::Table(args.value("only")?.unwrap_or_default()),
        (false, 0) => single(&mut args)?,
        (false, writers) => Job::Writers(Writers {
            writers,
            commits: args.number("commits", 500)?.max(1),
            rounds: args.number("rounds", 10)?.max(1),
        }),
    };
    args.finish()?;
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let done = work(&folder, &job);
    // What the measurement says matters more than files that cannot be removed.
    let _ = std::fs::remove_dir_all(&folder);
    done
}

enum Job {
    Table(String),
    Single(Vec<&'static system::System>, Run),
    Writers(Writers),
}

fn single(args: &mut Args) -> Result<Job, String> {
    let name = args.value("load")?.unwrap_or_else(|| "overwrite".to_string());
    let kind = Kind::NAMES.iter().find(|(one, _)| *one == name).map(|(_, kind)| *kind);
    let value = args.number("value", 4096)?.max(1);
    let data = args.number("data", 16 << 20)?.max(value);
    let new = args.flag("new");
    let fill = args.number("fill", 17)?.clamp(5, 80);
    let log = match args.value("log")? {
        None => None,
        Some(text) => {
            let bytes = parse_size(&text).map_err(|e| format!("--log {text}: {}", e.expected))?;
            Some(bytes.0)
        }
    };
    let load = match kind {
        Some(kind) => Load::Program(Program::new(kind)),
        None if name == "overwrite" => {
            Load::Overwrite(Overwrite::new(Shape::holding(data, value as usize)))
        }
        None if name == "noise" => {
            Load::Overwrite(Overwrite::new(Shape::holding(data, value as usize)).of_noise())
        }
        None => {
            let text = "expected overwrite, noise, update, sensor, mixed or bulk";
            return Err(format!("--load {name}: {text}"));
        }
    };
    let names = args.value("systems")?;
    let systems = match &names {
        None => SYSTEMS.iter().collect(),
        Some(names) => names.split(',').map(system).collect::<Result<_, _>>()?,
    };
    let run = Run {
        load,
        capacity: (!new).then_some(data * 100 / fill),
        log,
        age: args.number("age", 0)?,
        commits: args.number("commits", 500)?.max(1),
        rounds: args.number("rounds", 10)?.max(1),
    };
    Ok(Job::Single(systems, run))
}

fn work(folder: &Path, job: &Job) -> Result<(), String> {
    let api = Api::new(
        ffi::sqlite3_vfs_find,
        ffi::sqlite3_vfs_register,
        ffi::sqlite3_uri_parameter,
        ffi::sqlite3_malloc,
        ffi::sqlite3_log,
    );
    Stores::new().register(&api, VFS, false, None).map_err(|e| e.to_string())?;
    let disk = Disk::below(folder).map_err(|e| e.to_string())?;
    match job {
        Job::Single(systems, run) => {
            print(&measure(folder, systems, run, disk.as_ref())?);
            Ok(())
        }
        Job::Writers(run) => writers::run(folder, run, disk.as_ref()),
        Job::Table(only) => {
            let disk = disk.ok_or_else(|| {
                let text = "expected a folder on a block device, for its counts";
                format!("{}: {text}", folder.display())
            })?;
            table::run(folder, &disk, only)
        }
    }
}

fn print(all: &[Cost]) {
    for one in all {
        let name = one.system.name;
        println!("{name}_commits_per_s {:.0}", one.commits_per_s);
        println!("{name}_cpu_us_per_commit {:.1}", one.cpu_us);
        println!("{name}_write_bytes_per_commit {:.0}", one.write_bytes);
        if let Some(device) = one.device {
            println!("{name}_device_bytes_per_commit {:.0}", device.bytes);
            println!("{name}_device_writes_per_commit {:.2}", device.writes);
            println!("{name}_flushes_per_commit {:.3}", device.flushes);
        }
    }
    let stock = |name: &str| all.iter().find(|one| one.system.name == name);
    for base in ["wal", "delete"].into_iter().filter_map(stock) {
        for one in all.iter().filter(|one| !["wal", "delete"].contains(&one.system.name)) {
            let (name, other) = (one.system.name, base.system.name);
            println!("{name}/{other}_commits {:.2}", one.commits_per_s / base.commits_per_s);
            println!("{name}/{other}_write_bytes {:.3}", one.write_bytes / base.write_bytes);
            if let (Some(one), Some(base)) = (one.device, base.device) {
                println!("{name}/{other}_device_bytes {:.3}", one.bytes / base.bytes);
            }
        }
    }
}
