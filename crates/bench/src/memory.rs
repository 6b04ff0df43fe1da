//! Memory: what a drive fully written holds, and whether a request allocates.

use block::{BlockDevice, Lba, Op, Request, Sectors, UNIT_BYTES};
use ssd::Drive;
use workload::Source;

use crate::args::Args;
use crate::drive::{Uniform, config};
use crate::meter;

/// Text of the `memory` command.
pub const HELP: &str = "\
varve-bench memory [--preset NAME | --config FILE | --mqsim FILE.xml] [--set KEY=VALUE]..
                   [--requests 1000000] [--seed 1]
    A drive (femu-default with 1 TiB, unless one is given) is made, written once in order in
    requests of 128 KiB, then overwritten by --requests random 4 KiB writes: CPU seconds of each
    part, peak memory per logical 4 KiB page, and calls of the allocator in the second half of the
    overwrites.";

/// Sectors of one request of the fill.
const FILL_SECTORS: u64 = 256;

/// The `memory` command.
///
/// # Errors
/// Bad arguments, a bad configuration, a request the drive fails.
pub fn run(mut args: Args) -> Result<(), String> {
    let settings = ["geometry.blocks=0", "capacity=1 TiB", "op=28 %"];
    let config = config(&mut args, "femu-default", &settings)?;
    let requests = args.number("requests", 1_000_000)?;
    let seed = args.number("seed", 1)?;
    args.finish()?;
    let (before, start) = (meter::peak_rss_kib()?, meter::cpu_seconds()?);
    let params = config.resolve().map_err(|e| e.to_string())?;
    let mut drive = Drive::new(&params).map_err(|e| e.to_string())?;
    let made = meter::cpu_seconds()?;
    let made_rss = meter::peak_rss_kib()?;

    let sectors = drive.capacity().0;
    for first in (0..sectors).step_by(FILL_SECTORS as usize) {
        let len = Sectors(FILL_SECTORS.min(sectors - first));
        submit(&mut drive, Request::write(Lba(first), len))?;
    }
    let filled = meter::cpu_seconds()?;

    let capacity = drive.capacity().bytes();
    let mut source = Uniform::new(seed, requests, UNIT_BYTES, capacity)?;
    let mut block = Vec::new();
    let (mut done, mut counted, mut allocations) = (0, 0, 0);
    loop {
        source.fill(&mut block).map_err(|e| e.to_string())?;
        if block.is_empty() {
            break;
        }
        let calls = meter::allocations();
        for record in &block {
            let request = Request::write(Lba(record.offset.0 / 512), record.len.sectors());
            submit(&mut drive, request)?;
        }
        done += block.len() as u64;
        if done > requests / 2 {
            counted += block.len() as u64;
            allocations += meter::allocations() - calls;
        }
    }
    let end = meter::cpu_seconds()?;
    let rss = meter::peak_rss_kib()?;
    let pages = capacity.0 / UNIT_BYTES;
    let written = drive.stats().of(Op::Write).units;
    println!("capacity {}", capacity.human());
    println!("logical_pages {pages}");
    println!("written_pages {written}");
    println!("make_cpu_s {:.4}", made - start);
    println!("make_rss_kib {}", made_rss - before);
    println!("fill_cpu_s {:.3}", filled - made);
    println!("overwrite_cpu_s {:.3}", end - filled);
    println!("peak_rss_kib {rss}");
    let beyond = (rss as f64 * 1024.0 - 64.0 * f64::from(1 << 20)).max(0.0);
    println!("bytes_per_page_beyond_64_mib {:.3}", beyond / pages as f64);
    println!("allocations {allocations}");
    println!("allocations_over_requests {counted}");
    Ok(())
}

fn submit(drive: &mut Drive, request: Request<'_>) -> Result<(), String> {
    let at = drive.now();
    drive.submit(at, request).map(|_| ()).map_err(|e| format!("at {at:?}: {e}"))
}
