//! What `varve reproduce` accepts.

use std::path::PathBuf;

use clap::Args as ClapArgs;

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
    /// scj: only what the paper's numbers need
    #[arg(long)]
    pub claims: bool,
    /// scj: only this load, and the file server: fileserver, varmail, tpcc or ycsb-a; what the paper's numbers
    /// need, and without --claims what cleaning ahead of need is to reach
    #[arg(long, value_name = "LOAD")]
    pub load: Option<String>,
    /// scj: seeds of the main comparison, whose medians are told (default 1; 3 without --quick and --full)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=99))]
    pub seeds: Option<u64>,
    /// scj: keep each run in this folder, and do not run again what is kept there (by the same version; nobody
    /// looks whether the program was changed)
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Folder of the captured traces
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub data: PathBuf,
    /// isolation: folder of MSR Cambridge traces (mds_0.csv, ..) for the targets, instead of generators
    #[arg(long, value_name = "DIR")]
    pub msr: Option<PathBuf>,
    /// isolation: 4 KiB accesses of each generated workload
    #[arg(long, value_name = "N", default_value_t = studies::isolation::UNITS)]
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
