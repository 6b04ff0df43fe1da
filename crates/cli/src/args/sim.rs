//! What `varve sim` and `compare` accept: experiments on modelled drives.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::trace::Reading;

/// Where results go.
#[derive(ClapArgs)]
pub struct Output {
    /// Print one JSON document on standard output, everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Leave out what differs between equal runs (wall clock, processor time, memory)
    #[arg(long)]
    pub deterministic: bool,
    /// A row for each run, a column for each number (`varve list columns`); `-`: standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
    /// Write results.json, report.html and run.toml to this folder (with --hits: results.json);
    /// the points of a sweep as each ends
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Say where the time went: latency by cause, of all requests and of the slow ones, and the
    /// slowest one in a line
    #[arg(long)]
    pub explain: bool,
    /// Write a line for each request of the only run, with what its time went to (.csv, .csv.zst)
    #[arg(long, value_name = "FILE")]
    pub requests_out: Option<PathBuf>,
    /// Draw a part of the only run for Perfetto: what dies did, and what requests stood behind
    #[arg(long, value_name = "FROM..TO", requires = "timeline_out")]
    pub timeline: Option<String>,
    /// The file of --timeline
    #[arg(long, value_name = "FILE", requires = "timeline")]
    pub timeline_out: Option<PathBuf>,
    /// Slices of --timeline at most
    #[arg(long, value_name = "N", default_value_t = lab::explain::MOST_SLICES, requires = "timeline")]
    pub timeline_max: usize,
    /// Runs at a time; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(ClapArgs)]
pub struct Sim {
    /// A trace file, @demo (bundled) or gen:RECIPE (`varve list generators`)
    #[arg(value_name = "TRACE")]
    pub trace: String,
    /// The drive: a preset (`varve list presets`), a TOML file, or MQSim's ssdconfig.xml
    #[arg(long, value_name = "PRESET|FILE")]
    pub ssd: Option<String>,
    /// A smaller drive that behaves like the whole one: as many lines and dies, fewer pages a block
    #[arg(long, value_name = "1/N", conflicts_with = "fit_drive")]
    pub scale: Option<String>,
    /// The smallest scaled drive that holds what the trace touches
    #[arg(long)]
    pub fit_drive: bool,
    /// Set a key of the drive (`varve list keys`) or of the scenario
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Size of the drive's buffer; several are swept; 1% is a share of the drive
    #[arg(long, value_name = "SIZE[,SIZE..]")]
    pub buffer: Option<String>,
    /// Buffer policy (`varve list policies`); several are swept
    #[arg(long, value_name = "NAME[,NAME..]")]
    pub policy: Option<String>,
    /// Seeds: 7, 1..5 or 1,2,3
    #[arg(long, value_name = "SEEDS")]
    pub seed: Option<String>,
    #[command(flatten)]
    pub replay: ReplayArgs,
    #[command(flatten)]
    pub reading: Reading,
    /// If the trace does not suit the drive: exact (refuse), wrap, compact, compact:SIZE
    #[arg(long, value_name = "HOW")]
    pub fit: Option<String>,
    /// Leave out the trace's flushes
    #[arg(long)]
    pub drop_flushes: bool,
    /// Count hits alone: no flash, no time, all policies and sizes over one reading of the trace
    #[arg(long)]
    pub hits: bool,
    /// With --hits: the miss-ratio curve of LRU for all sizes: exact, or of a sample such as 1/100
    #[arg(long, value_name = "SAMPLE", requires = "hits")]
    pub curve: Option<String>,
    /// One line for the report
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

/// How requests are submitted.
#[derive(ClapArgs)]
pub struct ReplayArgs {
    /// open (trace times), closed (--qd in flight), dependent, untimed
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Requests in flight of a closed replay
    #[arg(long, value_name = "N")]
    pub qd: Option<String>,
    /// --qd is that of each application
    #[arg(long)]
    pub per_app: bool,
    /// Replay faster: 10, 3/2, 0.5
    #[arg(long, value_name = "RATIO")]
    pub speed: Option<String>,
    /// State of the drive before: none, seq, steady (uniform random writes over all of it),
    /// steady(workload)
    #[arg(long, value_name = "HOW")]
    pub precondition: Option<String>,
    /// Write before what the trace reads first: none, reads
    #[arg(long, value_name = "WHAT")]
    pub preload: Option<String>,
    /// Measure only after N requests, or after a time such as 2s
    #[arg(long, value_name = "N|TIME")]
    pub measure_after: Option<String>,
    /// A flush after every N writes
    #[arg(long, value_name = "N")]
    pub flush_every: Option<String>,
    /// A queue for each application, taken in turn by weight: A:B=3:1; fifo is one queue for all
    #[arg(long, value_name = "NAMES=WEIGHTS")]
    pub share: Option<String>,
    /// Replay each application alone, too, and tell what it loses by the others
    #[arg(long)]
    pub slowdown: bool,
}

#[derive(ClapArgs)]
pub struct Compare {
    /// Result documents, or folders with a results.json; the first is the base
    #[arg(value_name = "RUN", num_args = 2.., required = true)]
    pub runs: Vec<PathBuf>,
    /// Exit with 5 if METRIC differs from the base by more than PCT percent
    #[arg(long, value_name = "METRIC=PCT")]
    pub fail_over: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
