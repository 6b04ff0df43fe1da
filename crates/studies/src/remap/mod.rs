//! Paper 1: address remapping in the host, beside the drive alone and the paper's own rules.
//!
//! Every number is virtual time on a modelled drive: device time for equal work. Real programs on
//! the served device are another matter (`docs/remap.md`).

mod cell;
mod cleaning;
mod drives;
mod durable;
mod fill;
mod matrix;
mod opening;
mod paper;
mod reads;
mod segments;

use crate::{Options, Scale};
use lab::LabError;
use report::study::{Rows, Section, Study, Table};

impl Scale {
    /// Size of the drive in MiB; the smaller one runs a part of the matrix.
    fn mib(self) -> u64 {
        match self {
            Scale::Quick => 256,
            Scale::Default | Scale::Full => 1024,
        }
    }
}

/// Seed of every run.
const SEED: u64 = 1;

/// Runs the experiment.
///
/// # Errors
/// Traces that are not there or cannot be read; a run that fails.
pub fn run(options: &Options) -> Result<Study, LabError> {
    let mut study = Study {
        title: "Address remapping in the host (paper 1)".to_string(),
        command: options.command.clone(),
        note: format!(
            "Virtual time on a modelled drive of {} MiB: an eighth of the paper's in width, the same \
             pages and times, blocks so small that a line of all planes is a 320th of the flash (and erased in proportionally less time), \
             segments of half a line. \
             Three stacks: the drive alone (pass-through), the \
             paper's rules, varve's host log. The host uses the same part of the drive's address \
             space in all of them: what the log keeps as spare space, pass-through has as space never \
             written. 32 requests in flight.",
            options.scale.mib()
        ),
        seed: SEED,
        ..Study::default()
    };
    matrix::gap(options, &mut study)?;
    matrix::generated(options, &mut study)?;
    matrix::captured(options, &mut study)?;
    segments::run(options, &mut study)?;
    reads::run(options, &mut study)?;
    durable::run(options, &mut study)?;
    opening::run(options, &mut study)?;
    cleaning::run(options, &mut study)?;
    fill::run(options, &mut study)?;
    let rows = if options.scale == Scale::Quick { Rows::Fewer } else { Rows::All };
    study.answer(paper::STATEMENTS, rows)?;
    Ok(study)
}

/// A section with its table filled.
fn section(id: &str, title: impl Into<String>, note: impl Into<String>, table: Table) -> Section {
    Section::new(id, title, note, table)
}
