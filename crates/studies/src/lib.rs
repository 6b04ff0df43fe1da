//! The papers' experiments, repeated: what a paper reports beside what comes out here, and what the
//! four mechanisms do together.
//!
//! Nothing here is tuned until it agrees: statements about direction are checked and told as they
//! come out, and every table says what it was run on. Each study is a folder: `mod.rs` runs it,
//! `paper.rs` has the paper's numbers, `cell.rs` or `experiment.rs` is one run, each other file a
//! figure.

pub mod compose;
pub mod isolation;
pub mod nolog;
mod parallel;
mod port;
pub mod remap;
pub mod scj;
mod text;
mod turnstile;

use std::path::PathBuf;

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Smaller drives, fewer sizes, loads and seeds: some tens of seconds.
    Quick,
    /// The study's own: some minutes.
    Default,
    /// The paper's, where a study has it ([`scj`]): an hour.
    Full,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much.
    pub scale: Scale,
    /// The folder of the captured traces.
    pub data: PathBuf,
    /// [`isolation`]: a folder of MSR Cambridge traces to take the targets from, instead of
    /// generators.
    pub msr: Option<PathBuf>,
    /// [`isolation`]: 4 KiB accesses of each generated workload.
    pub units: u64,
    /// Runs at a time; the results do not depend on it.
    pub threads: usize,
    /// [`scj`]: a folder where what was run is kept, and not run again.
    pub kept: Option<PathBuf>,
    /// [`scj`]: seeds of the main comparison, if not as usual.
    pub seeds: Option<u64>,
    /// [`scj`]: only what the paper's numbers need.
    pub claims: bool,
    /// [`scj`]: of that only this load and the file server.
    pub load: Option<lab::fileload::FileLoad>,
    /// The command that repeats it.
    pub command: String,
}

impl Options {
    /// As the command line has it, without an option.
    pub fn new(scale: Scale, command: impl Into<String>) -> Options {
        let command = command.into();
        Options {
            scale,
            data: PathBuf::from("data"),
            msr: None,
            units: isolation::UNITS,
            threads: 1,
            kept: None,
            seeds: None,
            claims: false,
            load: None,
            command,
        }
    }
}
