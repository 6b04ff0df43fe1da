//! A live drive: what commits cost on this disk, and how long power-on takes.

use std::path::PathBuf;
use std::time::Instant;

use block::{Bytes, Data, Lpn, Time, Transactional, UNIT_BYTES, parse_size};
use live::ImageDrive;

use crate::args::Args;
use crate::meter;

/// Text of the `image` command.
pub const HELP: &str = "\
varve-bench image [--capacity 1GiB] [--fill 80] [--commits 2000] [--pages 4] [--dir FOLDER]
    An image for that much data is made in --dir (the folder for temporary files), filled to
    that percentage in large transactions, then --commits transactions of --pages random pages each
    are committed durably. Prints bytes in the file for each byte committed, commits per second,
    and the time and the memory of a power-on of the image as a process that ended without closing
    left it. The image is removed.";

const PAGE: usize = UNIT_BYTES as usize;
/// Pages of a transaction of the fill.
const BATCH: u32 = 256;

/// The `image` command.
///
/// # Errors
/// Bad arguments; the file or the drive fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let text = args.value("capacity")?.unwrap_or_else(|| "1GiB".to_string());
    let capacity = parse_size(&text).map_err(|e| format!("--capacity {text}: {}", e.expected))?;
    let fill = args.number("fill", 80)?.min(100);
    let commits = args.number("commits", 2000)?;
    let pages = args.number("pages", 4)?.max(1);
    let folder = args.value("dir")?.map_or_else(std::env::temp_dir, PathBuf::from);
    args.finish()?;
    let path = folder.join(format!("varve-bench-{}.image", std::process::id()));
    let done = measure(&path, capacity, fill, commits, pages);
    // What the measurement says matters more than a file that cannot be removed.
    let _ = std::fs::remove_file(&path);
    done
}

fn measure(
    path: &std::path::Path,
    capacity: Bytes,
    fill: u64,
    commits: u64,
    pages: u64,
) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let image = ImageDrive::image_bytes(capacity).map_err(|e| text(&e))?;
    println!("image_bytes {}", image.0);
    let start = Instant::now();
    let mut drive = ImageDrive::create(path, capacity).map_err(|e| text(&e))?;
    println!("create_s {:.3}", start.elapsed().as_secs_f64());
    let filled = (capacity.0 / UNIT_BYTES * fill / 100) as u32;
    let (mut next, start) = (0, Instant::now());
    while next < filled {
        let end = (next + BATCH).min(filled);
        commit(&mut drive, next..end)?;
        next = end;
    }
    println!("fill_s {:.3}", start.elapsed().as_secs_f64());
    let mut rng = block::Rng::stream(1, "bench/image");
    let (before, start) = (drive.file_stats(), Instant::now());
    for _ in 0..commits {
        let places: Vec<u32> =
            (0..pages).map(|_| rng.below(u64::from(filled.max(1))) as u32).collect();
        commit(&mut drive, places.into_iter())?;
    }
    let (after, seconds) = (drive.file_stats(), start.elapsed().as_secs_f64());
    println!("commits_per_s {:.0}", commits as f64 / seconds);
    let bytes = (commits * pages * UNIT_BYTES) as f64;
    println!("file_bytes_per_byte {:.3}", (after.bytes - before.bytes) as f64 / bytes);
    println!("syncs_per_commit {:.3}", (after.syncs - before.syncs) as f64 / commits as f64);
    drop(drive);
    let (start, cpu) = (Instant::now(), meter::cpu_seconds()?);
    let drive = ImageDrive::open(path).map_err(|e| text(&e))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("power_on_s {seconds:.3}");
    println!("power_on_cpu_s {:.3}", meter::cpu_seconds()? - cpu);
    println!("power_on_s_per_10gib {:.3}", seconds * 10.0 * (1u64 << 30) as f64 / image.0 as f64);
    println!("peak_rss_kib {}", meter::peak_rss_kib()?);
    drive.drive().check().map_err(|e| text(&e))
}

fn commit(drive: &mut ImageDrive, pages: impl Iterator<Item = u32>) -> Result<(), String> {
    let tid = drive.tx_begin().map_err(|e| e.to_string())?;
    let mut data = [0; PAGE];
    for page in pages {
        data[..4].copy_from_slice(&page.to_le_bytes());
        drive
            .tx_write(Time::ZERO, tid, Lpn(page), Data::Write(&data))
            .map_err(|e| e.to_string())?;
    }
    drive.tx_commit(Time::ZERO, &[tid]).map(|_| ()).map_err(|e| e.to_string())
}
