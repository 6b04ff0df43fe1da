//! Paper 1: address remapping in the host, beside the drive alone and the paper's own rules.
//!
//! Every number is virtual time on a modelled drive: device time for equal work. Real programs on
//! the served device are another matter (`docs/remap.md`).

mod cell;
mod cleaning;
mod coarse;
mod drives;
mod durable;
mod fill;
mod host;
mod matrix;
mod opening;
mod paper;
mod placement;
mod reads;
mod segments;

use crate::{Options, Scale};
use drives::{COARSE, COMPARED, Mapping};
use lab::LabError;
use report::study::{Condition, Rows, Section, Study, Table};

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

/// What the name of a condition ends in whose drives have 16 KiB units.
const UNIT16: &str = "-unit16";

/// How large the drives are, how much of them the paper's files take, and which they are.
#[derive(Clone, Copy)]
struct Size {
    /// MiB of the drive.
    mib: u64,
    /// Per cent that is used in Figs 2, 8, 9 and 16, and in Figs 10 to 12.
    fill: u64,
    read_fill: u64,
    /// What the paper's numbers are compared with.
    drives: &'static [Mapping],
}

impl Size {
    /// The study's own.
    fn own(options: &Options) -> Size {
        Size { mib: options.scale.mib(), fill: 80, read_fill: 70, drives: &COMPARED }
    }

    /// That of a condition, `fillN` or `fillN-unit16`: files about as large as a quarter of the study's own, on
    /// a drive that they fill so far. A power of two of MiB, as lines and segments are a part of it.
    fn of(condition: &Condition, options: &Options) -> Size {
        let own = Size::own(options);
        let id = condition.id.strip_prefix("fill").unwrap_or_default();
        let (fill, drives) = match id.strip_suffix(UNIT16) {
            Some(fill) => (fill, &COARSE[..]),
            None => (id, own.drives),
        };
        match fill.parse::<u64>() {
            Ok(fill) if fill != own.fill => {
                let mib = (own.mib / 4 * own.fill / fill).next_power_of_two();
                Size { mib, fill, read_fill: fill, drives }
            }
            _ => Size { drives, ..own },
        }
    }
}

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
        conditions: paper::CONDITIONS.to_vec(),
        ..Study::default()
    };
    for condition in paper::CONDITIONS {
        matrix::gap(options, condition, &mut study)?;
        matrix::generated(options, condition, &mut study)?;
        reads::run(options, condition, &mut study)?;
        cleaning::run(options, condition, &mut study)?;
        matrix::captured(options, condition, &mut study)?;
        if condition.id.ends_with(UNIT16) {
            coarse::run(options, condition, &mut study)?;
        }
    }
    matrix::fills(options, &mut study)?;
    matrix::spares(options, &mut study)?;
    matrix::flushed(options, &mut study)?;
    placement::run_all(options, &mut study)?;
    segments::run(options, &mut study)?;
    durable::run(options, &mut study)?;
    opening::run(options, &mut study)?;
    fill::run(options, &mut study)?;
    let rows = if options.scale == Scale::Quick { Rows::Fewer } else { Rows::All };
    study.answer(paper::STATEMENTS, rows)?;
    Ok(study)
}

/// A section with its table filled.
fn section(id: &str, title: impl Into<String>, note: impl Into<String>, table: Table) -> Section {
    Section::new(id, title, note, table)
}
