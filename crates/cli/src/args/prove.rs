//! What `varve prove` accepts.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;

#[derive(ClapArgs)]
pub struct Prove {
    /// Drives and hosts with transactions
    #[arg(long)]
    pub tx: bool,
    /// Host logs over a disk, through both of their shells
    #[arg(long, conflicts_with_all = ["tx", "lfs"])]
    pub remap: bool,
    /// The paper's own host log, which promises nothing
    #[arg(long, requires = "remap")]
    pub paper: bool,
    /// The file system: short sequences of operations, all of them in the end, and random work
    #[arg(long, conflicts_with = "tx")]
    pub lfs: bool,
    /// A whole stack in one text, `drive(mqsim-default, capacity=2MiB, ..)+log(segment=64KiB)`: the power
    /// of what lies at the bottom is cut
    #[arg(long, value_name = "STACK", conflicts_with_all = ["tx", "remap", "lfs"])]
    pub stack: Option<String>,
    /// Only the sequences, each once, from the one numbered --seed on
    #[arg(long, requires = "lfs", conflicts_with = "long")]
    pub sequences: bool,
    /// Stop at so many cuts
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = whole)]
    pub cuts: u64,
    /// Stop after so many minutes
    #[arg(long, value_name = "N", value_parser = whole, overrides_with = "seconds")]
    pub minutes: Option<u64>,
    /// Stop after so many seconds; of minutes and seconds what is given last counts
    #[arg(long, value_name = "N", value_parser = whole, overrides_with = "minutes")]
    pub seconds: Option<u64>,
    /// Threads; which seeds are done does not depend on it
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// The first run
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole)]
    pub seed: u64,
    /// Exactly these runs, both ends included, whatever is said of cuts and time; what they come to is one
    /// document, the same on any number of threads
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    pub seeds: Option<Seeds>,
    /// No search: puts together the documents of ranges of seeds, which must tile one
    #[arg(long, value_name = "DIR|FILE", num_args = 1.., conflicts_with_all = ["seeds", "tx", "remap", "lfs", "stack"])]
    pub merge: Vec<PathBuf>,
    /// Print the document of --seeds or --merge on standard output, everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// End when the program that started this one ends; by default with --seeds
    #[arg(long, value_name = "WHETHER", num_args = 0..=1, default_missing_value = "on",
        value_parser = ["on", "off"])]
    pub exit_with_parent: Option<String>,
    /// Longer runs, operations sampled
    #[arg(long)]
    pub long: bool,
    /// No faults of the medium
    #[arg(long)]
    pub healthy: bool,
    /// Faults of the medium in every run, not in one of six
    #[arg(long, conflicts_with_all = ["healthy", "lfs", "sequences", "stack"])]
    pub faulty: bool,
    /// Go on after a broken promise
    #[arg(long)]
    pub keep_going: bool,
    /// Plant a bug, to see that the search finds it; in a build with `--features planted`
    #[arg(long, value_name = "NAME")]
    pub bug: Option<String>,
    /// What plans say of the program that wrote them
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub commit: String,
    /// Folder for the plans of broken promises [default: .], and for the document of --seeds or --merge
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A range of seeds, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Seeds {
    /// From a first seed to a last one.
    ///
    /// # Errors
    /// There is none of it, or too many to count.
    pub fn new(first: u64, last: u64) -> Result<Seeds, String> {
        match first <= last && last < u64::MAX {
            true => Ok(Seeds { first, last }),
            false => Err(format!("found seeds {first}..{last}, expected A..B with A not above B")),
        }
    }

    /// How many there are.
    pub fn count(self) -> u64 {
        self.last - self.first + 1
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Seeds, String> {
        let (first, last) = text.split_once("..").ok_or("expected A..B, both ends included")?;
        Seeds::new(whole(first)?, whole(last)?)
    }
}

/// A whole number, with `_` where it helps to read it.
fn whole(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| "expected a whole number".to_string())
}
