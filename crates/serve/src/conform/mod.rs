//! Does a device keep what it says? Checks against any server, ours or another's.
//!
//! The contents of the device are overwritten. What it does not offer is not checked, and said.

mod cut;
mod data;
mod edge;
mod host;
mod link;
mod pipe;
mod stamp;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use block::Rng;
use serde_json::Value;

pub use link::{Link, Target};

use crate::control::ask;

/// What came of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It holds.
    Pass(String),
    /// It does not.
    Fail(String),
    /// The device does not offer it, or cannot be asked.
    NotOffered(String),
}

/// One line of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number.
    pub number: usize,
    /// What is checked.
    pub what: &'static str,
    /// What came of it.
    pub outcome: Outcome,
}

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct Conformance {
    /// The device.
    pub target: Target,
    /// The control socket of its server: power cuts.
    pub control: Option<PathBuf>,
    /// A shell command that starts the server again after `quit`.
    pub restart: Option<String>,
    /// Draws places and versions.
    pub seed: u64,
}

/// A check at work.
struct Check<'a> {
    all: &'a Conformance,
    rng: Rng,
    /// Versions are never used twice.
    version: &'a mut u64,
}

type Verdict = Result<Outcome, String>;
type Work = fn(&mut Check<'_>) -> Verdict;

const CHECKS: [(&str, Work); 18] = [
    ("fill and read back, at any alignment", data::fill),
    ("unmapped ranges read as zeroes", data::unmapped),
    ("write, FLUSH, cut: present", cut::flushed),
    ("write, cut: old or new, and old at least once", cut::unflushed),
    ("write with FUA, cut: present", cut::forced),
    ("a FLUSH covers replies seen on another connection", cut::crossed),
    ("trimmed: zero or old, and stable after FLUSH", data::trimmed),
    ("zeroes exact to the byte; NO_HOLE; FAST_ZERO fast or refused", data::zeroed),
    ("block status agrees with reads", data::status),
    ("beyond the end, near 2^64, of no length; FLUSH with an address", edge::bounds),
    ("32 MiB in one request", data::large),
    ("the atomic unit under a cut", cut::atomic),
    ("read-only refuses every kind of write", edge::read_only),
    ("a disconnect inside a write: old or new", edge::disconnect),
    ("a new connection sees all flushed data", data::reconnect),
    ("unknown command or flag: an error, and the connection lives", edge::unknown),
    ("2 connections with 32 in flight, verified", edge::parallel),
    ("a stop under load, and a clean start", cut::restart),
];

impl Conformance {
    /// Whether there is anything to check.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn reach(&self) -> Result<(), String> {
        self.target.link().map(drop)
    }

    /// Runs the checks one after the other, until `stop`; each line is told as it is there.
    pub fn run(&self, stop: &AtomicBool, mut tell: impl FnMut(&Line)) -> Vec<Line> {
        let (mut lines, mut version) = (Vec::new(), 0);
        for (number, (what, work)) in (1..).zip(CHECKS) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let rng = Rng::stream(self.seed, what);
            let mut check = Check { all: self, rng, version: &mut version };
            let outcome = work(&mut check).unwrap_or_else(Outcome::Fail);
            let line = Line { number, what, outcome };
            tell(&line);
            lines.push(line);
        }
        lines
    }
}

impl Check<'_> {
    fn link(&self) -> Result<Link, String> {
        self.all.target.link()
    }
    /// A version of its own.
    fn fresh(&mut self) -> u64 {
        *self.version += 1;
        *self.version
    }
    /// What the server answers; `None`: there is no control socket.
    fn control(&self, line: &str) -> Result<Option<Value>, String> {
        let Some(path) = &self.all.control else { return Ok(None) };
        let text = ask(path, line).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut value: Value =
            serde_json::from_str(&text).map_err(|_| format!("control: answered {text}"))?;
        match value["ok"].as_bool() {
            Some(true) => Ok(Some(value["result"].take())),
            _ => Err(format!("control: {line}: {}", value["error"])),
        }
    }
}

fn pass(what: impl Into<String>) -> Verdict {
    Ok(Outcome::Pass(what.into()))
}
fn absent(what: impl Into<String>) -> Verdict {
    Ok(Outcome::NotOffered(what.into()))
}

/// The error text unless it holds.
fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
