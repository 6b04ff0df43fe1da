//! A drive under load: page operations per CPU second.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use block::{AppId, BlockDevice, Bytes, Op, Rng, Time};
use lab::replay::{
    Mode, Outcome, Precondition, ReplayPlan, Speed, Watch, precondition, preload, replay,
};
use nand::Cause;
use ssd::{Config, Drive, Params, load_file, load_mqsim, preset};
use workload::read::{self, ReadOptions, TimeUnit};
use workload::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

use crate::args::Args;
use crate::meter;

/// Text of the `drive` command.
pub const HELP: &str = "\
varve-bench drive [--preset NAME | --config FILE | --mqsim FILE.xml] [--set KEY=VALUE].. [--seed 1]
                  [--requests 4000000] [--bytes 8192] [--depth 64]
                  [--trace FILE [--format ssdsim] [--time-unit ns] [--fold]]
    Without a trace: a drive (mqsim-default, 64 blocks per plane, OP 12.5 %, greedy, unless one is
    given) is filled and overwritten until write amplification stands still, then --requests
    uniform random writes of --bytes are measured, --depth of them in flight.
    With a trace: all of it, at its times, on a fresh drive; what it reads but never wrote is
    written first, without time. --fold takes places beyond the drive modulo its size.";

/// Nobody stops a benchmark, and nobody watches.
static STOP: AtomicBool = AtomicBool::new(false);

fn watch() -> Watch<'static> {
    Watch { stop: &STOP, progress: &|_| {} }
}

/// The configuration the arguments name.
///
/// # Errors
/// Bad arguments or a bad configuration.
pub fn config(args: &mut Args, default: &str, settings: &[&str]) -> Result<Config, String> {
    let text = |e: ssd::ConfigError| e.to_string();
    let named = [args.value("preset")?, args.value("config")?, args.value("mqsim")?];
    let mut config = match named {
        [Some(name), None, None] => preset(&name).map_err(text)?.config,
        [None, Some(file), None] => load_file(file).map_err(text)?,
        [None, None, Some(file)] => load_mqsim(file).map_err(text)?.config,
        [None, None, None] => {
            let mut config = preset(default).map_err(text)?.config;
            for pair in settings {
                config.set_pair(pair).map_err(text)?;
            }
            config
        }
        _ => return Err("expected one of --preset, --config and --mqsim".to_string()),
    };
    for pair in args.values("set")? {
        config.set_pair(&pair).map_err(text)?;
    }
    Ok(config)
}

/// The `drive` command.
///
/// # Errors
/// Bad arguments, a bad configuration or trace, a run that fails its checks.
pub fn run(mut args: Args) -> Result<(), String> {
    let settings = ["geometry.blocks=64", "line=channel", "op=12.5 %", "gc.victim=greedy"];
    let config = config(&mut args, "mqsim-default", &settings)?;
    let seed = args.number("seed", 1)?;
    let depth = args.number("depth", 64)?;
    let bytes = args.number("bytes", 8192)?;
    let requests = args.number("requests", 4_000_000)?;
    let fold = args.flag("fold");
    let format = args.value("format")?.unwrap_or_else(|| "ssdsim".to_string());
    let unit = args.value("time-unit")?.unwrap_or_else(|| "ns".to_string());
    let trace = args.value("trace")?;
    args.finish()?;
    let time_unit =
        TimeUnit::parse(&unit).ok_or_else(|| format!("--time-unit {unit}: expected ns, us, .."))?;
    let params = config.resolve().map_err(|e| e.to_string())?;
    let mut drive = Drive::new(&params).map_err(|e| e.to_string())?;
    match trace {
        Some(trace) => {
            let options = ReadOptions {
                time_unit: (format == "ssdsim").then_some(time_unit),
                format: Some(format),
                ..ReadOptions::default()
            };
            let size = fold.then(|| drive.capacity().bytes());
            play_trace(&mut drive, &params, &trace, &options, size)
        }
        None => {
            let how = Precondition::Steady;
            let unit = u64::from(params.unit_pages);
            let none = |_| Err(lab::LabError::Input("no workload".to_string()));
            let done = precondition(&mut drive, how, unit, seed, &none, watch())
                .map_err(|e| e.to_string())?;
            drive.reset_stats();
            println!("steady_after_half_drive_writes {}", done.windows);
            println!("precondition_cpu_s {:.3}", meter::cpu_seconds()?);
            let depth = u32::try_from(depth).map_err(|_| format!("--depth {depth}: too many"))?;
            let mut source = Uniform::new(seed, requests, bytes, drive.capacity().bytes())?;
            let mode = Mode::Closed { depth, per_app: false };
            measure(&mut drive, &params, &mut source, mode)
        }
    }
}

fn play_trace(
    drive: &mut Drive,
    params: &Params,
    trace: &str,
    options: &ReadOptions,
    size: Option<Bytes>,
) -> Result<(), String> {
    let open = || Folded::open(Path::new(trace), options, size);
    let written = preload(drive, &mut open()?, watch()).map_err(|e| e.to_string())?;
    drive.reset_stats();
    println!("preloaded_units {written}");
    measure(drive, params, &mut open()?, Mode::Open)
}

/// Replays `source` and prints what it took.
fn measure(
    drive: &mut Drive,
    params: &Params,
    source: &mut dyn Source,
    mode: Mode,
) -> Result<(), String> {
    let plan = ReplayPlan {
        mode,
        speed: Speed::ONE,
        queue_depth: params.queue_depth,
        flush_every: None,
        measure_after: None,
    };
    let (cpu, allocations) = (meter::cpu_seconds()?, meter::allocations());
    let outcome = replay(drive, source, &plan, watch()).map_err(|e| e.to_string())?;
    let cpu = meter::cpu_seconds()? - cpu;
    let allocations = meter::allocations() - allocations;
    report(params, &outcome, cpu, allocations)
}

fn report(params: &Params, outcome: &Outcome, cpu: f64, allocations: u64) -> Result<(), String> {
    let stats = &outcome.stats;
    let per_page = u64::from(params.geometry.slots_per_page);
    let page_bytes = u64::from(params.geometry.page_bytes);
    let host = [Op::Read, Op::Write].map(|op| stats.of(op).bytes / page_bytes);
    let host_pages = host[0] + host[1];
    let copied = stats.nand.programs[Cause::Gc as usize] / per_page;
    let (programs, accepted) = stats.waf();
    println!("served {}", outcome.requests);
    println!("host_pages {host_pages}");
    println!("gc_pages {copied}");
    println!("erases {}", stats.nand.erases);
    if accepted > 0 {
        println!("waf {:.4}", programs as f64 / accepted as f64);
    }
    for (name, op) in [("read", Op::Read), ("write", Op::Write)] {
        for (label, at) in [("p50", 5_000), ("p99", 9_900), ("p999", 9_990)] {
            if let Some(span) = outcome.tally.latency[op as usize].percentile(at) {
                println!("{name}_{label}_us {:.1}", span.as_ns() as f64 / 1e3);
            }
        }
    }
    let virtual_s = outcome.tally.end.since(outcome.tally.start).as_ps() as f64 / 1e12;
    println!("virtual_s {virtual_s:.6}");
    println!("cpu_s {cpu:.3}");
    println!("requests_per_cpu_s {:.0}", outcome.requests as f64 / cpu);
    println!("host_pages_per_cpu_s {:.0}", host_pages as f64 / cpu);
    println!("page_ops_per_cpu_s {:.0}", (host_pages + copied) as f64 / cpu);
    println!("allocations {allocations}");
    println!("peak_rss_kib {}", meter::peak_rss_kib()?);
    Ok(())
}

/// Uniform random writes of one size.
pub struct Uniform {
    rng: Rng,
    left: u64,
    bytes: u64,
    places: u64,
}

impl Uniform {
    /// `requests` writes of `bytes` to aligned places of a device of `capacity`.
    ///
    /// # Errors
    /// No place fits.
    pub fn new(seed: u64, requests: u64, bytes: u64, capacity: Bytes) -> Result<Uniform, String> {
        let places = capacity.0.checked_div(bytes).unwrap_or(0);
        if places == 0 || !bytes.is_multiple_of(512) {
            return Err(format!("--bytes {bytes}: expected a multiple of 512 that fits the drive"));
        }
        Ok(Uniform { rng: Rng::stream(seed, "bench"), left: requests, bytes, places })
    }
}

impl Source for Uniform {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        let n = self.left.min(BLOCK_RECORDS as u64);
        self.left -= n;
        for _ in 0..n {
            block.push(Record {
                at: Time::ZERO,
                offset: Bytes(self.rng.below(self.places) * self.bytes),
                len: Bytes(self.bytes),
                response: None,
                app: AppId(0),
                op: TraceOp::Write,
                flags: Flags::default(),
                hint: 0,
            });
        }
        Ok(())
    }
}

/// A trace whose places beyond the drive are taken modulo its size, all of one application: which
/// device a line names says nothing to a drive that is alone.
struct Folded {
    inner: read::OpenTrace,
    size: Option<Bytes>,
    path: PathBuf,
}

impl Folded {
    fn open(path: &Path, options: &ReadOptions, size: Option<Bytes>) -> Result<Folded, String> {
        let inner = read::open(path, options).map_err(|e| e.to_string())?;
        Ok(Folded { inner, size, path: path.to_path_buf() })
    }
}

impl Source for Folded {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        self.inner.fill(block)?;
        for record in block.iter_mut() {
            record.app = AppId(0);
            let Some(size) = self.size else { continue };
            if record.len.0 > size.0 {
                let reason = format!("a request of {} bytes on {} bytes", record.len, size);
                return Err(SourceError::Unusable { path: self.path.clone(), reason });
            }
            // One that would cross the end is moved to end there.
            record.offset = Bytes((record.offset.0 % size.0).min(size.0 - record.len.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_aligned_inside_and_as_many_as_asked_for() {
        let capacity = Bytes(10 * 8192 + 512);
        let mut source = Uniform::new(1, 5000, 8192, capacity).unwrap();
        let (mut block, mut seen) = (Vec::new(), [0u32; 10]);
        let mut total = 0;
        while source.fill(&mut block).is_ok() && !block.is_empty() {
            total += block.len();
            for r in &block {
                assert!(r.offset.0.is_multiple_of(8192) && r.op == TraceOp::Write);
                seen[(r.offset.0 / 8192) as usize] += 1;
            }
        }
        assert_eq!(total, 5000);
        assert!(seen.iter().all(|n| (400..600).contains(n)), "{seen:?}");
        assert!(Uniform::new(1, 1, 8192, Bytes(4096)).is_err());
        assert!(Uniform::new(1, 1, 100, capacity).is_err());
    }

    #[test]
    fn places_beyond_the_drive_come_back_to_it() {
        let path = std::env::temp_dir().join(format!("varve-bench-{}.trace", std::process::id()));
        std::fs::write(&path, "1000 4 8 16 0\n2000 3 2047 16 1\n3000 0 20480 8 0\n").unwrap();
        let options = ReadOptions {
            format: Some("ssdsim".to_string()),
            time_unit: Some(TimeUnit::Ns),
            ..ReadOptions::default()
        };
        let mut source = Folded::open(&path, &options, Some(Bytes(1 << 20))).unwrap();
        let mut block = Vec::new();
        source.fill(&mut block).unwrap();
        std::fs::remove_file(&path).unwrap();
        let places: Vec<(u64, u64)> = block.iter().map(|r| (r.offset.0, r.len.0)).collect();
        assert_eq!(places, [(4096, 8192), ((1 << 20) - 8192, 8192), (0, 4096)]);
        assert!(block.iter().all(|r| r.app == AppId(0)));
    }
}
