//! What `varve sqlite` accepts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, Subcommand};

use super::size;
use ::sqlite::measure::At;
use block::Bytes;

#[derive(Subcommand)]
pub enum Sqlite {
    /// What is written: SQL on copies of a database in every mode, or a program as it is
    Measure(Measure),
    /// SQL on a database in a volume on a stack, in this process: no kernel, no mount
    Run(RunOnStack),
    /// A database into a new store in an image file, verified
    Import(Import),
    /// A database of a store to a new file, page for page, verified
    Export(Export),
    /// All databases of an image to a new image, verified; beside the program that writes it
    Backup(Backup),
    /// Drive and databases of an image, or the databases in a namespace; with --crash, after power cuts
    Check(Check),
    /// More room in an image, all at once; verified
    Resize(Resize),
}

#[derive(ClapArgs)]
pub struct Measure {
    /// The database; it is opened read-only and never changed (of one in WAL mode SQLite makes the -wal and -shm beside it)
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
    /// Run it on real files as well, and say what reaches their device: a folder on it, or `loop`, an ext4
    /// on a loop device of its own (root)
    #[arg(long, value_name = "DIR|loop", conflicts_with = "program")]
    pub at: Option<At>,
    /// With --at: so many transactions a day, for bytes a day
    #[arg(long, value_name = "N", requires = "at")]
    pub a_day: Option<u64>,
    /// With --a-day: size of the device, for years until it is worn out
    #[arg(long, value_name = "SIZE", requires = "a_day", requires = "cycles", value_parser = size)]
    pub card: Option<Bytes>,
    /// With --card: how often each of its blocks can be erased (its data sheet says)
    #[arg(long, value_name = "N", requires = "card")]
    pub cycles: Option<u64>,
    /// Print one JSON document on standard output, what a program prints on standard error
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct RunOnStack {
    /// The SQL to run
    #[arg(value_name = "FILE")]
    pub workload: PathBuf,
    /// The stack in one text, `drive(samsung-970pro, scale=1/64)+log+lfs`; without `lfs(..)` at the end a
    /// volume is put on it
    #[arg(long, value_name = "STACK")]
    pub stack: String,
    /// Where the stack runs: in virtual time, new, or live, where what it held is opened
    #[arg(long, value_enum, default_value_t = StackWorld::Modelled)]
    pub world: StackWorld,
    /// Name of the database in the volume
    #[arg(long, value_name = "NAME", default_value = "main.db")]
    pub database: String,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Where a stack runs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StackWorld {
    /// In virtual time
    Modelled,
    /// Live
    Live,
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
    /// Bytes the store can hold, for good; if absent, 6 times the database, and it grows on demand
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub capacity: Option<block::Bytes>,
}

#[derive(ClapArgs)]
pub struct Export {
    #[command(flatten)]
    pub from: Kept,
    /// The file to make
    #[arg(value_name = "DB")]
    pub database: PathBuf,
    /// Which database of the store; if absent, its only one, or `main`
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// What can be read of a damaged one, not verified: pages that cannot be read are zeroes and are named, and the exit
    /// code is 4; `sqlite3 DB .recover` makes a database of the others
    #[arg(long)]
    pub salvage: bool,
}

/// A store, wherever it is.
#[derive(ClapArgs)]
pub struct Kept {
    /// The image, which is only read, and which another program may be writing; or nvme-tcp://HOST[:PORT][/NQN][?nsid=N],
    /// the store in a namespace, which no program may have open
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// What the controller of a namespace is told that asks who connects: a secret as `nvme gen-dhchap-key` prints it
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Backup {
    /// The image; another program may be writing it
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// The image to make
    #[arg(value_name = "COPY")]
    pub copy: PathBuf,
}

#[derive(ClapArgs)]
pub struct Resize {
    /// The image; no program may have it open
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Bytes it can hold from here on: more than it does
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub capacity: Bytes,
}

#[derive(ClapArgs)]
#[command(group(ArgGroup::new("cut").args(["crash", "at"])))]
pub struct Check {
    #[command(flatten)]
    pub of: Kept,
    /// Run SQL and cut the power at so many places of it, at all if there are fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub crash: Option<u64>,
    /// Draws the places, and what a cut leaves of what was not synced
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// The SQL, which must do the same each time; one of our own if absent
    #[arg(long, value_name = "FILE", requires = "cut")]
    pub workload: Option<PathBuf>,
    /// Cut at this write or sync of the image only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
}

fn page_size(text: &str) -> Result<u32, String> {
    let expected = || "expected a power of two from 512 to 65536".to_string();
    let bytes: u32 = text.parse().map_err(|_| expected())?;
    match bytes.is_power_of_two() && (512..=65_536).contains(&bytes) {
        true => Ok(bytes),
        false => Err(expected()),
    }
}
