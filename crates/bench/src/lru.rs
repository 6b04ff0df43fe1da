//! Hit ratios only: the reader and the buffer's policies, nothing else.

use std::path::Path;

use block::{Lpn, Op, UNIT_BYTES};
use ssd::{BufferShape, HitAccess, HitSim};
use workload::read::{self, ReadOptions};
use workload::{BLOCK_RECORDS, Record, Source, TraceOp};

use crate::args::Args;
use crate::meter;

/// Text of the `lru` command.
pub const HELP: &str = "\
varve-bench lru --trace FILE [--format oracle-general] [--cache 100000] [--policy lru]
                [--pages 1048576]
    Hit ratios of a cache of --cache 4 KiB entries over --pages 4 KiB pages, the trace being read
    in the same pass.";

/// The `lru` command.
///
/// # Errors
/// Bad arguments, a trace that cannot be read, a page beyond `--pages`.
pub fn run(mut args: Args) -> Result<(), String> {
    let trace = args.required("trace")?;
    let format = args.value("format")?.unwrap_or_else(|| "oracle-general".to_string());
    let entries = args.number("cache", 100_000)?;
    let policy = args.value("policy")?.unwrap_or_else(|| "lru".to_string());
    let pages = args.number("pages", 1 << 20)?;
    args.finish()?;
    let pages = u32::try_from(pages).map_err(|_| format!("--pages {pages}: at most 2^32 - 1"))?;
    let shape = BufferShape::alone(entries as usize, pages);
    let mut sim = HitSim::new(&policy, shape).map_err(|e| format!("--policy: {e}"))?;
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let mut source = read::open(Path::new(&trace), &options).map_err(|e| e.to_string())?;

    let mut records: Vec<Record> = Vec::with_capacity(BLOCK_RECORDS);
    let mut accesses: Vec<HitAccess> = Vec::with_capacity(BLOCK_RECORDS);
    let mut requests = 0;
    loop {
        source.fill(&mut records).map_err(|e| e.to_string())?;
        if records.is_empty() {
            break;
        }
        accesses.clear();
        for record in &records {
            requests += 1;
            split(record, requests, pages, &mut accesses)?;
        }
        sim.play(&accesses);
    }
    sim.check()?;
    let cpu = meter::cpu_seconds()?;
    let (mut units, mut hits) = (0, 0);
    for app in sim.apps() {
        units += app.read_units + app.write_units;
        hits += app.read_hits + app.write_hits;
    }
    println!("policy {policy}");
    println!("served {requests}");
    println!("accesses {units}");
    println!("miss_ratio {:.4}", (units - hits) as f64 / units.max(1) as f64);
    println!("cpu_s {cpu:.3}");
    println!("requests_per_cpu_s {:.0}", requests as f64 / cpu);
    println!("peak_rss_kib {}", meter::peak_rss_kib()?);
    Ok(())
}

/// The 4 KiB pages of one record.
fn split(record: &Record, id: u64, pages: u32, out: &mut Vec<HitAccess>) -> Result<(), String> {
    let op = match record.op {
        TraceOp::Read => Op::Read,
        TraceOp::Write | TraceOp::Zero => Op::Write,
        TraceOp::Flush | TraceOp::Discard => return Ok(()),
    };
    let (first, len) = (record.offset.0 / UNIT_BYTES, record.len.0);
    let end = (record.offset.0 + len).div_ceil(UNIT_BYTES);
    if end > u64::from(pages) {
        return Err(format!("request {id}: page {} and --pages is {pages}", end - 1));
    }
    for page in first..end {
        let page = Lpn(page as u32);
        out.push(HitAccess {
            page,
            op,
            app: record.app,
            request: id,
            len: len as u32,
            next_use: u64::MAX,
        });
    }
    Ok(())
}
