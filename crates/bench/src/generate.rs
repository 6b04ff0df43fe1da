//! Uniform random traces in the ASCII format MQSim reads, so that both simulators run the same.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use block::Rng;

use crate::args::Args;

/// Text of the `trace` command.
pub const HELP: &str = "\
varve-bench trace --out FILE [--requests 2500000] [--slots 915000] [--bytes 8192]
                  [--interval-ns 120000] [--reads 0] [--seed 42]
    Writes a trace `time_ns device sector sectors op` (op 0 = write, 1 = read): aligned requests of
    --bytes at uniformly random ones of --slots places, --interval-ns apart, --reads per cent of
    them reads.";

/// The `trace` command.
///
/// # Errors
/// Bad arguments, or the file cannot be written.
pub fn run(mut args: Args) -> Result<(), String> {
    let out = args.required("out")?;
    let requests = args.number("requests", 2_500_000)?;
    let slots = args.number("slots", 915_000)?.max(1);
    let bytes = args.number("bytes", 8192)?;
    let interval = args.number("interval-ns", 120_000)?;
    let reads = args.number("reads", 0)?;
    let seed = args.number("seed", 42)?;
    args.finish()?;
    if bytes == 0 || !bytes.is_multiple_of(512) {
        return Err(format!("--bytes {bytes}: expected a multiple of 512"));
    }
    let sectors = bytes / 512;
    let mut place = Rng::stream(seed, "place");
    let mut kind = Rng::stream(seed, "kind");
    let mut write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&out)?);
        for i in 0..requests {
            let at = 1000 + i * interval;
            let sector = place.below(slots) * sectors;
            let op = u8::from(kind.ratio(reads.min(100), 100));
            writeln!(file, "{at} 0 {sector} {sectors} {op}")?;
        }
        file.flush()
    };
    write().map_err(|e| format!("{out}: {e}"))
}
