//! What the command line accepts.

mod groups;
mod manual;
mod prove;
mod remap;
mod reproduce;
mod serve;
mod sim;
mod sqlite;
mod study;
mod top;
mod torture;
mod trace;
mod view;
mod volume;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

pub use groups::command;
pub use manual::{Completions, Man};
pub use prove::{Prove, Seeds};
pub use remap::{Dump, HostLog, Image};
pub use reproduce::{Paper, Reproduce};
pub use serve::{
    Background, ConformanceArgs, Ctl, CtlCommand, Digest, OnCut, Remap, Serve, ServeFuse, ServeNbd,
    ServeNvme, ServeVhost, StackArgs, Switch, Timing,
};
pub use sim::{Compare, Output, Sim};
pub use sqlite::{
    Backup, Check, Export, Import, Kept, Measure, Resize, RunOnStack, Sqlite, StackWorld,
};
pub use study::{Cite, MergeParts, Points, Run};
pub use top::Top;
pub use torture::{Cuts, Torture};
pub use trace::{Convert, Gen, Info, Keep, Merge, Reading, Trace};
pub use view::View;
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
    /// Run a scenario file: all of it, what is missing of it, or a part
    Run(Run),
    /// The points of a scenario's sweep, each with its id
    Points(Points),
    /// Put together what was run of a sweep in several places: the bytes of one machine
    Merge(MergeParts),
    /// Compare result documents: differing configuration first, then metrics
    Compare(Compare),
    /// Results as a page: panels over the run, several runs side by side
    View(View),
    /// A paragraph on methods for a paper, and whom to cite, of a run
    Cite(Cite),
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
    /// Search for a broken promise: draws runs from seeds and cuts the power everywhere in each
    Prove(Box<Prove>),
    /// Crash-test any program: record its writes once, check every state a power cut could have left
    Torture(Box<Torture>),
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
    /// Drives, and how near each is to its source
    Presets,
    /// Every point that is published of a preset's drive, beside what the preset gives
    Sheets,
    /// Trace formats
    Formats,
    /// Bundled scenarios
    Scenarios,
    /// Workload generators
    Generators,
    /// Keys of a drive's configuration
    Keys,
    /// Columns of --csv that every run has, with their units
    Columns,
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
    /// Of a plan of `varve torture`: no check, but a shell in that file system (VARVE_DIR)
    #[arg(long)]
    pub shell: bool,
    /// Of a plan of `varve torture`: leave the drive, as it was when power came back, in this file
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Of a plan of `varve torture`: so many times; exit code 4 if it comes out as written each time
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["shell", "image"],
        value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn size(text: &str) -> Result<block::Bytes, String> {
    block::parse_size(text).map_err(|wrong| format!("expected {}", wrong.expected))
}
