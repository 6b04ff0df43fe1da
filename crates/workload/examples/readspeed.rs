//! How fast a trace file is read: `readspeed FILE [FORMAT [ROUNDS]]` prints millions of records and
//! megabytes per second of wall time (one thread); `readspeed --vtr IN OUT` converts to `.vtr`.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use varve_workload::read::{VtrHeader, VtrWriter, file_sha256};
use varve_workload::{BLOCK_RECORDS, ReadOptions, Source, open};

type Failed = Box<dyn std::error::Error>;

fn read(path: &Path, options: &ReadOptions) -> Result<(u64, u64), Failed> {
    let mut trace = open(path, options)?;
    let mut block = Vec::with_capacity(BLOCK_RECORDS);
    let (mut n, mut mixed) = (0u64, 0u64);
    loop {
        trace.fill(&mut block)?;
        if block.is_empty() {
            return Ok((n, mixed));
        }
        n += block.len() as u64;
        for r in &block {
            mixed = mixed.rotate_left(1) ^ r.at.as_ps() ^ r.offset.0 ^ r.len.0 << 32;
        }
    }
}

fn convert(from: &Path, to: &Path) -> Result<(), Failed> {
    let mut trace = open(from, &ReadOptions::default())?;
    let header = VtrHeader {
        source: from.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        format: trace.format().name.to_string(),
        source_sha256: file_sha256(from)?,
        carries: trace.carries(),
        ..VtrHeader::default()
    };
    let out = std::io::BufWriter::new(std::fs::File::create(to)?);
    let mut writer = VtrWriter::new(out, &header)?;
    writer.copy(&mut trace, to)?;
    let (_, totals) = writer.finish(trace.apps())?;
    writeln!(std::io::stderr(), "{totals:?}")?;
    Ok(())
}

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--vtr", from, to] => convert(Path::new(from), Path::new(to)),
        [file, ref rest @ ..] => {
            let format = rest.first().filter(|f| **f != "auto").map(|f| (*f).to_string());
            let options = ReadOptions { format, ..ReadOptions::default() };
            let rounds: u32 = rest.get(1).map_or(Ok(3), |r| r.parse())?;
            let bytes = std::fs::metadata(file)?.len();
            for _ in 0..rounds {
                let begun = Instant::now();
                let (n, mixed) = read(Path::new(file), &options)?;
                let s = begun.elapsed().as_secs_f64();
                writeln!(
                    std::io::stdout(),
                    "{n} records in {s:.3} s: {:.1} M records/s, {:.0} MB/s ({mixed:016x})",
                    n as f64 / s / 1e6,
                    bytes as f64 / s / 1e6
                )?;
            }
            Ok(())
        }
        _ => Err("usage: readspeed FILE [FORMAT|auto [ROUNDS]] | readspeed --vtr IN OUT".into()),
    }
}
