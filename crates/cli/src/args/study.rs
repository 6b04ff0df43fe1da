//! What `varve run`, `points`, `merge` and `cite` accept: scenarios, and sweeps in parts.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::sim::Output;

#[derive(ClapArgs)]
pub struct Run {
    /// The scenario, or @demo
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: String,
    /// Set a key of the scenario or of the drive
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Go on where an earlier run into the same folder ended: points that are there are not run again
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Only these points of the sweep (`varve points`): numbers, A..B, ids; implies --resume
    #[arg(long, value_name = "N|A..B|ID", requires = "out", conflicts_with = "shard")]
    pub point: Vec<String>,
    /// Only every N-th point, from the I-th on, counted from 0 or from 1; implies --resume
    #[arg(long, value_name = "I/N", requires = "out")]
    pub shard: Option<String>,
    /// End when the program that started this one ends; by default with --point and --shard
    #[arg(long, value_name = "WHETHER", num_args = 0..=1, default_missing_value = "on",
        value_parser = ["on", "off"])]
    pub exit_with_parent: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(ClapArgs)]
pub struct Points {
    /// The scenario, or @demo
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: String,
    /// Set a key of the scenario or of the drive
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A folder of results: which points are there; it must take files
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Ids only, one a line, of the points that can be run; with --out of those that are not there
    #[arg(long, conflicts_with = "json")]
    pub ids: bool,
    /// Print one JSON document: the index of the study
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct MergeParts {
    /// Folders of `varve run --out`, and files of their `points`
    #[arg(value_name = "DIR|FILE", required = true)]
    pub parts: Vec<PathBuf>,
    /// Write results.json, report.html and run.toml to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Take what is there, though points are missing; the results say so
    #[arg(long)]
    pub partial: bool,
    /// Print one JSON document on standard output, everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// A row for each run, a column for each number (`varve list columns`); `-`: standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
}

#[derive(ClapArgs)]
pub struct Cite {
    /// A result document, or a folder with a results.json
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
