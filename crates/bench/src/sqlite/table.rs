//! The bytes that a durable commit makes at the device, by load: a store with a log of commits beside WAL.

use std::path::Path;

use ::sqlite::workload::bench::{Overwrite, Shape};
use ::sqlite::workload::programs::{Kind, Program};

use super::system::{Cost, Load, OnDevice, Run, measure, system};
use ::sqlite::measure::Disk;

/// What a row runs, and what it is to reach.
struct Row {
    name: &'static str,
    load: What,
    /// In a store of whom nothing is asked, which begins small and grows.
    new: bool,
    /// The log's bytes; `None`: the usual ones.
    log: Option<u64>,
    commits: u64,
    aim: Aim,
}

#[derive(Clone, Copy)]
enum What {
    /// Values of so many bytes in an image that is so full, in per cent.
    Values(u64, u64),
    /// The same, of bytes that nothing packs.
    Noise(u64, u64),
    Program(Kind),
}

/// The most at the device: records in multiples of 4096 bytes, of 512.
#[derive(Clone, Copy)]
enum Aim {
    /// Hundredths of WAL's bytes; 0: none is stated.
    OfWal(u64, u64),
    /// KiB a commit, in multiples of 4096.
    Kib(u64),
}

const MIB: u64 = 1 << 20;
/// Bytes of the values.
const DATA: u64 = 16 * MIB;
/// The same of a database that a new store holds.
const SMALL: u64 = 384 << 10;
const COMMITS: u64 = 10_000;
const AGE: u64 = 12_000;

const fn values(name: &'static str, value: u64, aim: Aim) -> Row {
    let load = What::Values(value, 17);
    Row { name, load, new: false, log: Some(16 * MIB), commits: COMMITS, aim }
}

const fn program(name: &'static str, kind: Kind, commits: u64, aim: Aim) -> Row {
    Row { name, load: What::Program(kind), new: false, log: None, commits, aim }
}

const fn new(row: Row, name: &'static str) -> Row {
    Row { name, new: true, log: None, ..row }
}

const ROWS: [Row; 12] = [
    values("4 KiB, 17 % full", 4096, Aim::OfWal(45, 35)),
    values("1 KiB, 17 % full", 1024, Aim::OfWal(42, 30)),
    values("256 B, 17 % full", 256, Aim::OfWal(45, 22)),
    Row {
        name: "4 KiB, 60 % full",
        load: What::Values(4096, 60),
        new: false,
        log: None,
        commits: COMMITS,
        aim: Aim::OfWal(75, 0),
    },
    Row {
        name: "4 KiB of noise, 17 % full",
        load: What::Noise(4096, 17),
        new: false,
        log: Some(16 * MIB),
        commits: COMMITS,
        aim: Aim::OfWal(45, 35),
    },
    program("one UPDATE", Kind::Update, COMMITS, Aim::Kib(5)),
    program("sensor, 4 indexes", Kind::Sensor, 4_000, Aim::Kib(20)),
    program("mixed, 3 indexes", Kind::Mixed, COMMITS, Aim::Kib(10)),
    program("bulk", Kind::Bulk, 20, Aim::OfWal(100, 0)),
    new(values("", 1024, Aim::OfWal(100, 0)), "1 KiB, new small store"),
    new(program("", Kind::Update, COMMITS, Aim::Kib(5)), "one UPDATE, new store"),
    new(program("", Kind::Mixed, COMMITS, Aim::Kib(10)), "mixed, new store"),
];

impl Row {
    fn run(&self) -> Run {
        let (load, capacity, age) = match self.load {
            What::Values(value, fill) => {
                let data = if self.new { SMALL } else { DATA };
                let shape = Shape::holding(data, value as usize);
                (Load::Overwrite(Overwrite::new(shape)), data * 100 / fill, AGE)
            }
            What::Noise(value, fill) => {
                let shape = Shape::holding(DATA, value as usize);
                (Load::Overwrite(Overwrite::new(shape).of_noise()), DATA * 100 / fill, AGE)
            }
            What::Program(kind) => {
                let (capacity, age) = match kind {
                    Kind::Update => (64 * MIB, AGE),
                    Kind::Sensor | Kind::Mixed => (128 * MIB, AGE / 4),
                    Kind::Bulk => (256 * MIB, 0),
                };
                (Load::Program(Program::new(kind)), capacity, age)
            }
        };
        let (rounds, capacity) = (4, (!self.new).then_some(capacity));
        Run { load, capacity, log: self.log, age, commits: self.commits / rounds, rounds }
    }
}

const NAMES: [&str; 4] = ["wal", "nolog", "delta", "delta-512"];

/// An aim and what was found.
struct Found {
    what: String,
    found: f64,
    most: f64,
}

/// Runs the rows whose name holds `only`, prints the tables and what they are to reach.
///
/// # Errors
/// SQLite's, the folder's; no row has such a name.
pub fn run(folder: &Path, disk: &Disk, only: &str) -> Result<(), String> {
    let systems = NAMES.map(system).into_iter().collect::<Result<Vec<_>, _>>()?;
    let (mut bytes, mut cost, mut aims) = (Vec::new(), Vec::new(), Vec::new());
    for row in ROWS.iter().filter(|row| row.name.contains(only)) {
        let place = folder.join("row");
        std::fs::create_dir(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        let found = measure(&place, &systems, &row.run(), Some(disk));
        std::fs::remove_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        let found = found.map_err(|e| format!("{}: {e}", row.name))?;
        let [wal, pages, delta, sectors] = found.as_slice() else {
            return Err(format!("{}: expected {} systems", row.name, NAMES.len()));
        };
        let all = [device(wal)?, device(pages)?, device(delta)?, device(sectors)?];
        let kib = |one: OnDevice| format!("{:.1}", one.bytes / 1024.0);
        let of_wal = |one: OnDevice| one.bytes / all[0].bytes;
        bytes.push(format!(
            "| {} | {} | {:.2} | {:.2} | {:.2} |",
            row.name,
            all.map(kib).join(" | "),
            of_wal(all[1]),
            of_wal(all[2]),
            of_wal(all[3]),
        ));
        cost.push(costs(row.name, &all, wal, delta));
        aims.extend(row_aims(row, &all, wal, delta));
    }
    if bytes.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("--only {only}: expected part of one of: {}", names.join("; ")));
    }
    println!("KiB a commit at the device:\n");
    println!(
        "| load | WAL FULL | store, pages | store, records | records of 512 B | pages / WAL | records / WAL | 512 B / WAL |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |\n{}", bytes.join("\n"));
    println!("\nFor each commit, WAL FULL and the store with records of 4096 B:\n");
    println!(
        "| load | flushes, WAL | records | writes, WAL | records | CPU, records / WAL | commits/s, records / WAL |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |\n{}\n", cost.join("\n"));
    for aim in &aims {
        let word = if aim.found <= aim.most { "met" } else { "MISSED" };
        println!("{word}: {}: {:.2}, at most {:.2}", aim.what, aim.found, aim.most);
    }
    let met = aims.iter().filter(|aim| aim.found <= aim.most).count();
    println!("{met} of {} are met", aims.len());
    Ok(())
}

fn device(cost: &Cost) -> Result<OnDevice, String> {
    cost.device.ok_or_else(|| "the device was not counted".to_string())
}

fn costs(name: &str, all: &[OnDevice; 4], wal: &Cost, delta: &Cost) -> String {
    format!(
        "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
        all[0].flushes,
        all[2].flushes,
        all[0].writes,
        all[2].writes,
        delta.cpu_us / wal.cpu_us,
        delta.commits_per_s / wal.commits_per_s,
    )
}

fn row_aims(row: &Row, all: &[OnDevice; 4], wal: &Cost, delta: &Cost) -> Vec<Found> {
    let mut aims = Vec::new();
    let mut add = |what: &str, found: f64, most: f64| {
        aims.push(Found { what: format!("{}: {what}", row.name), found, most });
    };
    match row.aim {
        Aim::OfWal(pages, sectors) => {
            for (grain, most, one) in [("4096 B", pages, all[2]), ("512 B", sectors, all[3])] {
                if most > 0 {
                    let what = format!("bytes of WAL's, records of {grain}");
                    add(&what, one.bytes / all[0].bytes, most as f64 / 100.0);
                }
            }
        }
        Aim::Kib(most) => add("KiB a commit", all[2].bytes / 1024.0, most as f64),
    }
    if let What::Values(_, 17) = row.load {
        add("flushes a commit", all[2].flushes, 1.02);
        add("writes a commit", all[2].writes, 2.2);
        add("CPU of WAL's", delta.cpu_us / wal.cpu_us, 1.0);
        add("time of WAL's", wal.commits_per_s / delta.commits_per_s, 1.0);
    }
    aims
}
