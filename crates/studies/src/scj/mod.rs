//! Paper 2: segment cleaning journaling and adaptive checkpoints, beside the paper's baseline and
//! what kernel 6.1 does.
//!
//! Every number is virtual time on a modelled drive, or a count. What a load is, and what of a real
//! machine is left out, is in [`lab::fileload`] and `docs/scj.md`.

mod ahead;
mod area;
mod barriers;
mod calibrate;
mod cell;
mod claims;
mod goals;
mod loads;
mod locality;
mod outcome;
mod paper;
mod phases;
mod scale;
mod thresholds;
mod utilisation;

use crate::{Options, Scale};
use cell::System;
use lab::LabError;
use lab::fileload::FileLoad;
use report::round::share;
use report::study::{Rows, Section, Study, Table, Value};

impl Scale {
    /// The volume's blocks: 1/16 of the paper's, 1/4, or all of it (without the sweeps of Figs 4, 5,
    /// 10 and 11).
    fn blocks(self) -> u64 {
        match self {
            Scale::Quick => 1 << 18,
            Scale::Default => 1 << 20,
            Scale::Full => 1 << 22,
        }
    }
    /// The paper's 16 GiB are so many times as large.
    fn factor(self) -> u64 {
        (1 << 22) / self.blocks()
    }
    /// The paper's journal area of 64 slots.
    fn slots(self) -> u32 {
        (64 / self.factor()) as u32
    }
}

impl Options {
    /// Seeds of the main comparison.
    fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.scale == Scale::Default { 3 } else { 1 })
    }
    /// Whether a load is run; the file server always is.
    fn shows(&self, what: FileLoad) -> bool {
        what == FileLoad::Fileserver || self.load.is_none_or(|only| only == what)
    }
}

/// Seed of the first of the runs.
const SEED: u64 = 1;

/// Runs the experiment.
///
/// # Errors
/// A run that fails.
pub fn run(options: &Options) -> Result<Study, LabError> {
    let scale = options.scale;
    let mib = scale.blocks() / 256;
    let mut study = Study {
        title: "Segment cleaning journaling (paper 2)".to_string(),
        command: options.command.clone(),
        note: format!(
            "Virtual time on a modelled 970 PRO of {} MiB, of which the volume is {mib} MiB: 1/{} of the \
             paper's 16 GB. Everything that is counted in blocks is scaled: threshold {} KiB, journal area of \
             {} slots. Computing takes no time, threads are a closed loop in which the file system does one \
             thing at a time. Pure log mode: without it F2FS hardly cleans at all under these loads, \
             and journalled cleaning has nothing to gain. BL: a checkpoint after every cleaned segment, as the paper's \
             baseline; kernel 6.1: as that kernel does, the baseline that a user has today.",
            mib * cell::DRIVE,
            scale.factor(),
            scale.blocks() / 128 * 4,
            scale.slots(),
        ),
        seed: SEED,
        conditions: paper::conditions(scale),
        ..Study::default()
    };
    let bench = cell::Bench::new(options);
    phases::run(options, &bench, &mut study)?;
    if !options.claims && options.load.is_none() {
        calibrate::run(options, &mut study)?;
        area::run(options, &bench, &mut study)?;
        loads::run(options, &bench, &mut study)?;
        barriers::run(options, &bench, &mut study)?;
        scale::run(options, &bench, &mut study)?;
        // The sweeps are for the smaller volumes.
        if scale != Scale::Full {
            thresholds::run(options, &bench, &mut study)?;
            utilisation::run(options, &bench, &mut study)?;
            locality::run(options, &bench, &mut study)?;
        }
    }
    if !options.claims {
        goals::run(options, &bench, &mut study)?;
    }
    claims::run(options, &bench, &mut study)?;
    let rows = if options.load.is_some() { Rows::Fewer } else { Rows::All };
    study.answer(paper::STATEMENTS, rows)?;
    Ok(study)
}

/// A section with its table filled.
fn section(id: &str, title: impl Into<String>, note: impl Into<String>, table: Table) -> Section {
    Section::new(id, title, note, table)
}

/// Per cent with one decimal.
fn percent((n, d): (u64, u64)) -> Value {
    share(n, d.max(1))
}
