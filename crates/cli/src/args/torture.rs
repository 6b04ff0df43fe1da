//! `varve torture`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use block::Bytes;
use clap::Args;

/// Records what a program writes to a drive, once, and checks every state that a power cut could have left.
///
/// PROGRAM finds in VARVE_DIR a folder on the drive, and in VARVE_ACK a file that hears its promises:
/// `echo 17 >$VARVE_ACK` says that 17 is promised, `echo ready >$VARVE_ACK` that the power may go from now on.
/// CHECK, a line for `sh -c`, finds the folder as a power cut left it in VARVE_DIR, and in the file VARVE_ACKED
/// what was promised, a line each. It ends with 0 if all is there, with 1 if something is lost (its last line
/// on standard output says what), with anything else if it cannot say.
#[derive(Args)]
#[command(
    after_help = "Verdicts: kept (exit code 0), lost (4), not measured (1), harness broken (1)."
)]
pub struct Torture {
    /// Who judges a state; without: its file system is checked and PROGRAM started again
    #[arg(long, conflicts_with = "recipe")]
    pub check: Option<String>,
    /// A program of others, ready to run: by its name, that of one of its configurations, or FILE.toml
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// All recipes, with their configurations and keys
    #[arg(long, conflicts_with_all = ["recipe", "check", "words"])]
    pub list: bool,
    /// A data log that is there already (`record(FILE.vlog)` of a stack), and no run
    #[arg(long, value_name = "FILE.vlog", conflicts_with = "list")]
    pub log: Option<PathBuf>,
    /// File system on the drive
    #[arg(long, value_name = "FS", default_value = "ext4", value_parser = ["ext4", "xfs", "btrfs", "f2fs", "lfs", "strict"])]
    pub fs: String,
    /// Size of the drive; default: what the file system needs
    #[arg(long, value_parser = super::size)]
    pub size: Option<Bytes>,
    /// More words for the maker of the file system
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    pub mkfs: String,
    /// Options of its mount, separated by commas
    #[arg(long, value_name = "LIST", default_value = "")]
    pub mount_options: String,
    /// Bytes that the drive keeps whole: 4096, or 512 [default: 4096]
    #[arg(long, value_name = "BYTES", value_parser = sector)]
    pub sector: Option<u64>,
    /// explore: power cuts; live: the program runs again and again on a drive that fails under it, or on a --stack
    /// that loses its power (20 times, or as often as --cuts says)
    #[arg(long, value_name = "MODE", default_value = "explore", value_parser = ["explore", "live"])]
    pub mode: String,
    /// The drive below, with --mode live: a stack in one text, the lowest first, `drive(samsung-970pro,
    /// scale=1/32)+log`; each run begins with a new one and ends with its power cut
    #[arg(long, value_name = "STACK", conflicts_with_all = ["log", "size", "sector", "list"])]
    pub stack: Option<String>,
    /// Cut the power again within the recovery of so many of the states
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub recoveries: u32,
    /// `all`: the worst case at every flush; N: none of them, and N drawn states; --mode live: N runs
    #[arg(long, value_name = "all|N", default_value = "all", value_parser = cuts)]
    pub cuts: Cuts,
    /// Drawn states beside the worst cases
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub random: u64,
    /// Nothing more is begun after that: 60s, 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub budget: Duration,
    /// How long PROGRAM may run
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub run_limit: Option<Duration>,
    /// How long a check may
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub limit: Option<Duration>,
    /// Processes that check, each with a drive of its own [default: processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<u16>,
    /// From when on the power may go: the first operation, or the first `ready` [default: ready]
    #[arg(long, value_name = "init|ready", value_parser = ["init", "ready"])]
    pub from: Option<String>,
    /// What is drawn is drawn from this
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The log, and a plan of each kind of failure
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// So many plans, if there are so many failures that were looked at (with --keep-going: all) [default: one of each kind]
    #[arg(long, value_name = "N", requires = "out", value_parser = clap::value_parser!(u16).range(1..))]
    pub plans: Option<u16>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// The same for a CI server, as JUnit's XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Look at all states, also after three different failures
    #[arg(long)]
    pub keep_going: bool,
    /// Do not try whether CHECK complains of a drive that forgot everything
    #[arg(long)]
    pub no_self_check: bool,
    /// This is a process that checks states: orders on standard input
    #[arg(long, hide = true)]
    pub worker: bool,
    /// PROGRAM [ARGUMENT..]; with --recipe: KEY=VALUE..
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

/// Which cuts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cuts {
    /// The worst case at every flush.
    All,
    /// So many drawn states.
    Drawn(u64),
}

fn cuts(text: &str) -> Result<Cuts, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(Cuts::All),
        (_, Ok(number)) if number > 0 => Ok(Cuts::Drawn(number)),
        _ => Err("expected all or a number".to_string()),
    }
}

fn sector(text: &str) -> Result<u64, String> {
    match text {
        "512" => Ok(512),
        "4096" => Ok(4096),
        _ => Err("expected 512 or 4096".to_string()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0 && *number < 1 << 32);
    let unit = match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(1)),
        "s" | "" => Some(Duration::from_secs(1)),
        "m" => Some(Duration::from_secs(60)),
        "h" => Some(Duration::from_secs(3600)),
        _ => None,
    };
    let both = number.zip(unit).and_then(|(number, unit)| unit.checked_mul(number as u32));
    both.ok_or_else(|| "expected a time, as 500ms, 60s or 10m".to_string())
}
