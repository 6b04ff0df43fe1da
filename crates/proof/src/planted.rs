//! Planted bugs by name: of drives, host logs and file systems. A build without the feature `planted`
//! knows none of them.

use std::fmt::Debug;

use block::{PLANTED, Plant};

use crate::plan::{Plan, PlanError};

/// The bug that a plan names, of those of `whose`.
pub(crate) fn of<B: Debug>(
    plan: &Plan,
    all: impl IntoIterator<Item = B>,
    whose: &str,
) -> Result<Plant<B>, PlanError> {
    let Some(name) = &plan.bug else { return Ok(Plant::default()) };
    Plant::named(name, all).ok_or_else(|| {
        PlanError::Malformed(match PLANTED {
            true => format!("`bug`: no bug `{name}` of {whose}"),
            false => format!("`bug = {name}`: {WITHOUT}"),
        })
    })
}

/// Why a build refuses to plant bugs.
pub const WITHOUT: &str =
    "this build has no planted bugs: cargo build -p varve-cli --release --features planted";

/// The names of all planted bugs.
pub fn bug_names() -> Vec<String> {
    if !PLANTED {
        return Vec::new();
    }
    let drive = ssd::Bug::ALL.iter().chain(&ssd::Bug::TX).map(|bug| format!("{bug:?}"));
    let log = remap::Planted::ALL.iter().map(|bug| format!("{bug:?}"));
    let volume = lfs::fs::Bug::ALL.iter().map(|bug| format!("{bug:?}"));
    let mut names: Vec<String> = drive.chain(log).chain(volume).collect();
    names.dedup();
    names
}
