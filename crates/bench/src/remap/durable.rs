//! Durable small writes on a file: through the host log, and without it.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{Rng, parse_size};
use live::FileMedium;
use stack::Keys;
use stack::disk::{Disk, LogDisk, MediumDisk};

use super::text;
use crate::args::Args;

const BLOCK: usize = 4096;

/// What durable writes go through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each writer writes the file and syncs it by itself.
    Alone,
    /// The file as it is served without a log: writers share syncs.
    Pass,
    /// The file below a host log, as it is served.
    Log,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Alone, "alone"), (Way::Pass, "pass_through"), (Way::Log, "host_log")];

/// What is run.
struct Plan {
    path: PathBuf,
    size: u64,
    /// Bytes that are written to at random.
    span: u64,
    writers: u64,
    time: Duration,
}

/// A file that is gone at the end.
struct Scratch<'a>(&'a Path);

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(self.0) {
            eprintln!("varve-bench: {}: {error}", self.0.display());
        }
    }
}

/// Writes the whole file, so that no way pays for space that the others find there.
fn fill(plan: &Plan) -> Result<(), String> {
    let mut file = File::options().write(true).open(&plan.path).map_err(text)?;
    let zeroes = vec![0; 1 << 20];
    for _ in 0..plan.size >> 20 {
        file.write_all(&zeroes).map_err(text)?;
    }
    file.sync_all().map_err(text)
}

/// Commits of all writers in the time of the plan. `commit` makes one write durable.
fn commits(
    plan: &Plan,
    run: u64,
    commit: impl Fn(u64, &[u8]) -> Result<(), String> + Sync,
) -> Result<f64, String> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let write = |writer: u64| -> Result<(), String> {
        let mut rng = Rng::stream(run << 32 | writer, "bench/remap/durable");
        let mut block = vec![writer as u8; BLOCK];
        while !stop.load(Ordering::Relaxed) {
            block[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            commit(rng.below(plan.span / BLOCK as u64) * BLOCK as u64, &block)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..plan.writers).map(|writer| scope.spawn(move || write(writer))).collect();
        std::thread::sleep(plan.time);
        let found = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| "a writer died".to_string())??;
        }
        Ok(found)
    })
}

/// One way: commits a second, and commits for each sync.
fn one(plan: &Plan, way: Way, run: u64) -> Result<(f64, f64), String> {
    fill(plan)?;
    let file = File::options().read(true).write(true).open(&plan.path).map_err(text)?;
    if way == Way::Alone {
        let rate = commits(plan, run, |at, block| {
            file.write_all_at(block, at).and_then(|()| file.sync_data()).map_err(text)
        })?;
        return Ok((rate, 1.0));
    }
    let medium = Arc::new(FileMedium(file));
    let disk: Box<dyn Disk> = match way {
        Way::Log => Box::new(LogDisk::open_or_format(medium, &Keys::default()).map_err(text)?),
        _ => Box::new(MediumDisk::new(medium).map_err(text)?),
    };
    let rate = commits(plan, run, |at, block| disk.write(at, block, true).map(drop).map_err(text))?;
    let counters = disk.counters();
    let count = |name| counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, n)| *n) as f64;
    let shared = count("flushes_asked") / count("syncs").max(1.0);
    disk.close().map_err(text)?;
    Ok((rate, shared))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// `remap durable`.
///
/// # Errors
/// Bad arguments; the file system or a disk fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let path = PathBuf::from(args.required("file")?);
    let size = args.value("size")?.unwrap_or_else(|| "2GiB".to_string());
    let span = args.value("span")?.unwrap_or_else(|| "512MiB".to_string());
    let (runs, seconds) = (args.number("runs", 3)?, args.number("seconds", 3)?);
    let writers = args.number("writers", 32)?;
    args.finish()?;
    let (size, span) = (parse_size(&size).map_err(text)?.0, parse_size(&span).map_err(text)?.0);
    if size < 64 << 20 || span < BLOCK as u64 || span > size / 2 || runs == 0 || writers == 0 {
        return Err("expected --size of 64 MiB or more, --span of half of it at most".to_string());
    }
    File::options().write(true).create_new(true).open(&path).map_err(text)?;
    let _scratch = Scratch(&path);
    let time = Duration::from_secs(seconds);
    let plan = Plan { path: path.clone(), size, span, writers, time };
    let mut found = [const { Vec::new() }; WAYS.len()];
    for run in 0..runs {
        for ((way, name), rates) in WAYS.iter().zip(&mut found) {
            let (rate, shared) = one(&plan, *way, run)?;
            println!("run {} {name} commits_per_s {rate:.0} commits_per_sync {shared:.1}", run + 1);
            rates.push(rate);
        }
    }
    let [alone, pass, log] = found.map(median);
    println!("median alone {alone:.0} pass_through {pass:.0} host_log {log:.0}");
    println!("ratio to_pass_through {:.2} to_alone {:.2}", log / pass, log / alone);
    Ok(())
}
