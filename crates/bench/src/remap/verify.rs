//! What it costs that a host log keeps a CRC of each block beside its map, and compares every read.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ::remap::LogOptions;
use block::Medium;
use block::{Rng, parse_size};
use live::FileMedium;
use stack::disk::{Disk, Done, LogDisk, RamDisk};

use super::text;
use crate::args::Args;

const BLOCK: usize = 4096;
/// Bytes of a long read.
const LONG: usize = 1 << 20;

/// How a log is made and read.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// CRCs are kept.
    kept: bool,
    /// Reads are compared with them.
    compared: bool,
}

const WAYS: [Way; 3] = [
    Way { name: "without", kept: false, compared: false },
    Way { name: "off", kept: true, compared: false },
    Way { name: "on", kept: true, compared: true },
];

/// What was measured of one way: rates, of which more is better, and what was written.
#[derive(Clone, Copy)]
struct Found {
    writes: f64,
    reads: f64,
    long: f64,
    /// Blocks written for each of the user.
    written: f64,
    memory: f64,
}

fn one(medium: Arc<dyn Medium>, way: Way, seed: u64, count: u64) -> Result<Found, String> {
    let options = LogOptions { verify: way.kept, ..LogOptions::default() };
    let disk = LogDisk::format(medium, &options).map_err(text)?;
    if !way.compared {
        disk.verify_reads(false);
    }
    let blocks = disk.capabilities().size / BLOCK as u64;
    let mut rng = Rng::stream(seed, "bench/remap/verify");
    let mut block = vec![0; BLOCK];
    for byte in &mut block {
        *byte = rng.next_u64() as u8;
    }
    let mut write = |lpn: u64| {
        block[..8].copy_from_slice(&lpn.to_le_bytes());
        disk.write(lpn * BLOCK as u64, &block, false).map(drop).map_err(text)
    };
    for lpn in 0..blocks {
        write(lpn)?;
    }
    let start = Instant::now();
    for _ in 0..count {
        write(rng.below(blocks))?;
    }
    disk.flush().and_then(Done::wait).map_err(text)?;
    let writes = count as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for _ in 0..count {
        disk.read(rng.below(blocks) * BLOCK as u64, &mut block)
            .and_then(Done::wait)
            .map_err(text)?;
    }
    let reads = count as f64 / start.elapsed().as_secs_f64();
    let (mut long, runs) = (vec![0; LONG], blocks * BLOCK as u64 / LONG as u64);
    let start = Instant::now();
    for run in 0..runs {
        disk.read(run * LONG as u64, &mut long).and_then(Done::wait).map_err(text)?;
    }
    let bytes = runs as f64 * LONG as f64 / start.elapsed().as_secs_f64();
    let counters = disk.counters();
    let counted = |name| counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, n)| *n) as f64;
    let causes = ["user_blocks", "header_blocks", "gc_blocks", "meta_blocks", "root_blocks"];
    let written = causes.map(counted).iter().sum::<f64>() / counted("user_blocks");
    let memory = counted("memory_bytes");
    disk.close().map_err(text)?;
    Ok(Found { writes, reads, long: bytes / 1e6, written, memory })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// `remap verify`.
///
/// # Errors
/// Bad arguments; the file system or a disk fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let size = args.value("size")?.unwrap_or_else(|| "512MiB".to_string());
    let size = parse_size(&size).map_err(text)?.0;
    let (runs, count) = (args.number("runs", 3)?, args.number("count", 200_000)?);
    let path = args.value("file")?.map(PathBuf::from);
    args.finish()?;
    if runs == 0 || count == 0 || size < 64 << 20 {
        return Err("expected --size of 64 MiB or more, --runs and --count above 0".to_string());
    }
    let mut all = WAYS.map(|_| Vec::new());
    for run in 0..runs {
        for (way, found) in WAYS.iter().zip(&mut all) {
            let medium: Arc<dyn Medium> = match &path {
                None => Arc::new(RamDisk::new(size).map_err(text)?),
                Some(path) => {
                    let file = File::options().read(true).write(true).create_new(true).open(path);
                    let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
                    file.set_len(size).map_err(text)?;
                    Arc::new(FileMedium(file))
                }
            };
            let one = one(medium, *way, run, count);
            if let Some(path) = &path {
                std::fs::remove_file(path).map_err(text)?;
            }
            let one = one?;
            println!(
                "run {} {} writes_per_s {:.0} reads_per_s {:.0} long_reads_mb_per_s {:.0} \
                 blocks_per_write {:.4} map_bytes {:.0}",
                run + 1,
                way.name,
                one.writes,
                one.reads,
                one.long,
                one.written,
                one.memory,
            );
            found.push(one);
        }
    }
    let [without, off, on] = all;
    let of = |found: &[Found], what: fn(&Found) -> f64| median(found.iter().map(what).collect());
    let ratios = |name: &str, a: &[Found], b: &[Found]| {
        let ratio = |what: fn(&Found) -> f64| of(a, what) / of(b, what);
        println!(
            "ratio {name} writes {:.2} reads {:.2} long_reads {:.2} blocks_per_write {:.3} \
             map_bytes {:.2}",
            ratio(|f| f.writes),
            ratio(|f| f.reads),
            ratio(|f| f.long),
            ratio(|f| f.written),
            ratio(|f| f.memory),
        );
    };
    ratios("on_to_off", &on, &off);
    ratios("on_to_without", &on, &without);
    Ok(())
}
