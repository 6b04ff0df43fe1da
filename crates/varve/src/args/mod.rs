//! What the command line accepts.

mod manual;
mod serve;
mod top;
mod volume;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

pub use manual::{Completions, Man};
pub use serve::{
    ConformanceArgs, Ctl, CtlCommand, Remap, Serve, ServeFuse, ServeNbd, StackArgs, Timing,
};

pub use top::Top;
pub use volume::{DumpVolume, Fsck, Mkfs, Mount, NewVolume, Source, Umount};

/// A flash storage stack in user space: modelled and live.
#[derive(Parser)]
#[command(name = "varve", version = crate::VERSION, max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Replay a trace or a recipe on a modelled drive; compare policies and buffer sizes
    Sim(Box<Sim>),
    /// Run a scenario file
    Run(Run),
    /// Compare result documents: differing configuration first, then metrics
    Compare(Compare),
    /// Look at, convert, make and merge traces
    #[command(subcommand)]
    Trace(Box<Trace>),
    /// Repeat a paper's experiments: the paper's numbers beside ours
    Reproduce(Reproduce),
    /// An image of the host log: check it, count, list its records
    #[command(subcommand)]
    Remap(HostLog),
    /// SQLite: measure what it writes; databases into stores and out of them; check a store
    #[command(subcommand)]
    Sqlite(Sqlite),
    /// List what there is by name
    List(List),
    /// What works on this machine; with --self-check, the model against closed forms
    Doctor(Doctor),
    /// Follow a plan file: a failure, again
    Replay(Replay),
    /// A stack as a device that ordinary programs use
    #[command(subcommand)]
    Serve(Box<Serve>),
    /// Ask a running server, or make it fail
    Ctl(Ctl),
    /// A served device or a mounted volume, live: bandwidth, write amplification, cleaning, latency
    Top(Top),
    /// Does a server, ours or another's, keep what it says? Overwrites the device
    Conformance(ConformanceArgs),
    /// A new volume of the log-structured file system (F2FS format) in an image or on a device
    Mkfs(Mkfs),
    /// Mount such a volume, from an image, a device or any stack
    Mount(Box<Mount>),
    /// Unmount it, and wait until its image is free
    Umount(Umount),
    /// Check such a volume; recover one that was not unmounted
    Fsck(Fsck),
    /// What lies on such a volume: superblock, checkpoint, journal, table entries, nodes
    Dump(DumpVolume),
    /// A manual page for each subcommand, in a folder
    Man(Man),
    /// A script that completes command lines in a shell, on standard output
    Completions(Completions),
}

/// Where results go.
#[derive(ClapArgs)]
pub struct Output {
    /// Print one JSON document on standard output, everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Leave out what differs between equal runs (wall clock, processor time, memory)
    #[arg(long)]
    pub deterministic: bool,
    /// Write results.json, report.html and run.toml to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at a time; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// A paper whose experiments can be repeated.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Paper {
    /// Address remapping in the host (paper 1)
    Remap,
    /// Append-only data isolation in the buffer (paper 3)
    Isolation,
    /// Transactions in the drive instead of logging, with SQLite above (paper 4)
    Nolog,
    /// Segment cleaning journaling (paper 2)
    Scj,
    /// The four mechanisms together on one drive, in pairs and in all combinations
    Compose,
    /// All of them, one report; goes on where it was interrupted
    All,
}

#[derive(Subcommand)]
pub enum HostLog {
    /// Every live block against its CRC; what opening the log would find
    Check(Image),
    /// How full the log and its segments are
    Stats(Image),
    /// Its records, one a line
    Dump(Dump),
}

/// An image of a host log.
#[derive(ClapArgs)]
pub struct Image {
    /// The image, or the block device; it is only read
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Dump {
    /// The image, or the block device; it is only read
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Only this segment
    #[arg(long, value_name = "N")]
    pub segment: Option<u32>,
    /// Only records that name this block of 4 KiB of the client, and where it is now
    #[arg(long, value_name = "N")]
    pub block: Option<u32>,
    /// The entries of each record
    #[arg(long)]
    pub entries: bool,
}

#[derive(Subcommand)]
pub enum Sqlite {
    /// What is written: SQL on copies of a database in every mode, or a program as it is
    Measure(Measure),
    /// A database into a new store in an image file, verified
    Import(Import),
    /// The database of a store to a new file, byte for byte, verified
    Export(Export),
    /// Drive and databases of an image; with --crash, after power cuts
    Check(Check),
}

#[derive(ClapArgs)]
pub struct Measure {
    /// The database; it is opened read-only and never changed
    #[arg(value_name = "DB", required_unless_present = "program", conflicts_with = "program")]
    pub database: Option<PathBuf>,
    /// The SQL to run
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "program",
        conflicts_with = "program"
    )]
    pub workload: Option<PathBuf>,
    /// A program whose SQLite is counted: it must link the shared library
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
    /// The library to preload; looked for beside varve if absent
    #[arg(long, value_name = "FILE", requires = "program")]
    pub library: Option<PathBuf>,
    /// What the recorded pages cost on this drive, filled and overwritten before (`varve list
    /// presets`)
    #[arg(long, value_name = "PRESET", conflicts_with = "program")]
    pub ssd: Option<String>,
    /// Print one JSON document on standard output, what a program prints on standard error
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Import {
    /// The database; it is opened read-only and never changed
    #[arg(value_name = "DB")]
    pub database: PathBuf,
    /// The image to make
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Bytes of a page in the store, such as 4096, instead of the database's
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub page_size: Option<u32>,
    /// Bytes the store can hold; 6 times the database and at least 64 MiB if absent
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub capacity: Option<block::Bytes>,
}

#[derive(ClapArgs)]
pub struct Export {
    /// The image
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// The file to make
    #[arg(value_name = "DB")]
    pub database: PathBuf,
}

#[derive(ClapArgs)]
pub struct Check {
    /// The image; with --crash it is only read
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Run SQL and cut the power at so many places of it, at all if there are fewer
    #[arg(long, value_name = "N")]
    pub crash: Option<u64>,
    /// Draws the places, and what a cut leaves of what was not synced
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// The SQL, which must do the same each time; one of our own if absent
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Cut at this write or sync of the image only
    #[arg(long, value_name = "N", conflicts_with = "crash", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
}

fn size(text: &str) -> Result<block::Bytes, String> {
    block::parse_size(text).map_err(|wrong| format!("expected {}", wrong.expected))
}

fn page_size(text: &str) -> Result<u32, String> {
    let expected = || "expected a power of two from 512 to 65536".to_string();
    let bytes: u32 = text.parse().map_err(|_| expected())?;
    match bytes.is_power_of_two() && (512..=65_536).contains(&bytes) {
        true => Ok(bytes),
        false => Err(expected()),
    }
}

#[derive(ClapArgs)]
pub struct Reproduce {
    /// The paper
    #[arg(value_enum)]
    pub paper: Paper,
    /// A smaller drive, fewer sizes and pairs: some tens of seconds
    #[arg(long)]
    pub quick: bool,
    /// scj: a volume of the paper's 16 GiB, without the sweeps: an hour
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Folder of the captured traces
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub data: PathBuf,
    /// isolation: folder of MSR Cambridge traces (mds_0.csv, ..) for the targets, instead of generators
    #[arg(long, value_name = "DIR")]
    pub msr: Option<PathBuf>,
    /// isolation: 4 KiB accesses of each generated workload
    #[arg(long, value_name = "N", default_value_t = lab::reproduce::isolation::UNITS)]
    pub units: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Write study.json and study.html to this folder; all: index.html and a file for each study
    /// (varve-reproduce if none is named)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

#[derive(ClapArgs)]
pub struct Sim {
    /// A trace file, @demo (bundled) or gen:RECIPE (`varve list generators`)
    #[arg(value_name = "TRACE")]
    pub trace: String,
    /// The drive: a preset (`varve list presets`), a TOML file, or MQSim's ssdconfig.xml
    #[arg(long, value_name = "PRESET|FILE")]
    pub ssd: Option<String>,
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
    /// State of the drive before: none, seq, steady
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
}

/// How a trace file is read.
#[derive(ClapArgs, Default)]
pub struct Reading {
    /// Format of the trace (`varve list formats`); found out by content if absent
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Unit of the time column, where a format does not fix it
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<String>,
    /// Unit of the size column, where a format does not fix it
    #[arg(long, value_name = "UNIT")]
    pub size_unit: Option<String>,
    /// Columns of a CSV: at=1:us,op=2,off=3:sector,len=4:byte
    #[arg(long, value_name = "SPEC")]
    pub columns: Option<String>,
    /// Operations of a CSV: R=0,W=1
    #[arg(long = "op", value_name = "MAP")]
    pub op_map: Option<String>,
    /// Bad lines to leave out before giving up
    #[arg(long, value_name = "N")]
    pub skip_bad: Option<String>,
    /// Only this volume, device or file
    #[arg(long, value_name = "NAME")]
    pub app: Option<String>,
    /// The issuing thread is the application
    #[arg(long)]
    pub app_is_comm: bool,
    /// Bytes added to every offset
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub align_shift: Option<String>,
    /// Sort requests within this time
    #[arg(long, value_name = "TIME")]
    pub sort_window: Option<String>,
}

impl Reading {
    /// The options as keys of a scenario.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("format", &self.format),
            ("time-unit", &self.time_unit),
            ("size-unit", &self.size_unit),
            ("columns", &self.columns),
            ("op-map", &self.op_map),
            ("skip-bad", &self.skip_bad),
            ("app", &self.app),
            ("align-shift", &self.align_shift),
            ("sort-window", &self.sort_window),
        ];
        let mut keys: Vec<_> =
            texts.into_iter().filter_map(|(key, text)| Some((key, text.clone()?))).collect();
        if self.app_is_comm {
            keys.push(("app-is-comm", "true".to_string()));
        }
        keys
    }
}

#[derive(ClapArgs)]
pub struct Run {
    /// The scenario, or @demo
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: String,
    /// Set a key of the scenario or of the drive
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub output: Output,
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

#[derive(Subcommand)]
pub enum Trace {
    /// Counts, sizes, footprint, working set
    Info(Info),
    /// Any format to .vtr
    Convert(Convert),
    /// A recipe to .vtr (`varve list generators`)
    Gen(Gen),
    /// Several applications to one stream
    Merge(Merge),
}

#[derive(ClapArgs)]
pub struct Info {
    /// The trace, or @demo
    pub trace: String,
    #[command(flatten)]
    pub reading: Reading,
    /// Length of a working-set window
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub window: String,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Convert {
    /// The trace to read
    pub trace: String,
    /// The .vtr file to write
    pub output: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
    /// Leave out untouched address space: compact, compact:SIZE
    #[arg(long, value_name = "HOW")]
    pub fit: Option<String>,
    /// Only the first N requests
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Licence or terms of the data, for the header
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub licence: String,
}

#[derive(ClapArgs)]
pub struct Gen {
    /// The recipe, such as uniform,size=1GiB,count=1M
    pub recipe: String,
    /// The .vtr file to write
    pub output: PathBuf,
    /// Seed of every draw
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(ClapArgs)]
pub struct Merge {
    /// Applications: A=one.csv,two.csv B=gen:RECIPE
    #[arg(value_name = "NAME=FILE[,FILE..]", required = true)]
    pub apps: Vec<String>,
    /// The .vtr file to write
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
    /// Address map: partition, identity, modulo:SIZE
    #[arg(long, value_name = "MAP")]
    pub map: Option<String>,
    /// Multiply an application's times: A=10
    #[arg(long, value_name = "NAME=FACTOR")]
    pub stretch: Vec<String>,
    /// Repeat an application: B=6
    #[arg(long = "loop", value_name = "NAME=N")]
    pub rounds: Vec<String>,
    /// Discard an application's area between rounds: on, off
    #[arg(long, value_name = "on|off")]
    pub loop_discard: Option<String>,
    /// shortest, longest, first:NAME
    #[arg(long, value_name = "END")]
    pub end: Option<String>,
    /// Instead of clocks: A:B=1:60
    #[arg(long, value_name = "A:B=N:M")]
    pub ratio: Option<String>,
    /// Leave out flushes
    #[arg(long)]
    pub drop_flushes: bool,
    /// Seed of recipes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(ClapArgs)]
pub struct List {
    #[arg(value_enum)]
    pub what: What,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum What {
    /// Buffer policies
    Policies,
    /// Victim policies of garbage collection
    Victims,
    /// Drives
    Presets,
    /// Trace formats
    Formats,
    /// Bundled scenarios
    Scenarios,
    /// Workload generators
    Generators,
    /// Keys of a drive's configuration
    Keys,
}

#[derive(ClapArgs)]
pub struct Doctor {
    /// Check the model against closed forms
    #[arg(long)]
    pub self_check: bool,
    /// Only the quick part of the self-check
    #[arg(long, requires = "self_check")]
    pub quick: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Replay {
    /// The plan file
    pub plan: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
