//! What `varve trace` accepts, and how a trace is read wherever one is.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

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
    /// Puts a trace into $VARVE_TRACES, and prints the name that it has on every host: sha256:..
    Keep(Keep),
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
            keys.push(("app-is-comm", "on".to_string()));
        }
        keys
    }
}

#[derive(ClapArgs)]
pub struct Keep {
    /// The file, or a URL that $VARVE_FETCH fetches (called with the URL and the file to be written)
    pub source: String,
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
    /// Set how the traces of one application are read: tenant.NAME.KEY=VALUE, with a key of a scenario's
    /// workload (format, app, time-unit, columns, ..)
    #[arg(long = "set", value_name = "tenant.NAME.KEY=VALUE")]
    pub set: Vec<String>,
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
    /// With whose last request the stream ends: shortest (default), longest, first:NAME
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
