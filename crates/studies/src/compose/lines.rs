//! The file system alone: today's cleaning beside the paper's baseline, and how the drive cleans, with
//! and without hints from above.

use lab::LabError;
use lfs::fs::Cleaning;
use report::study::{Section, Study, Table};
use report::values;

use super::cell::{Cell, Kind, Lines, Mechanisms, SEED, Tenants};
use super::text::ratio;
use super::{Named, Run, why};
use crate::Scale;

const FILES: Tenants = Tenants { sqlite: false, files: true, store: false };
/// None, SCJ, remap, both.
const SETS: [usize; 4] = [0, 4, 8, 12];

/// The sections.
pub(super) fn run(run: &Run<'_>, study: &mut Study) -> Result<(), LabError> {
    bases(run, study)?;
    match run.options.scale {
        // Eight heads need a drive of more lines.
        Scale::Quick => Ok(()),
        Scale::Default | Scale::Full => hints(run, study),
    }
}

fn files(bits: usize) -> Cell {
    Cell::new(Mechanisms::of(bits), FILES, Kind::Volatile, SEED)
}

/// What the base makes of the comparison.
fn bases(run: &Run<'_>, study: &mut Study) -> Result<(), LabError> {
    let cells = [Cell { base: Cleaning::Bl415, ..files(0) }, files(0), files(4)];
    let names = ["the paper's baseline", "kernel 6.1", "SCJ"];
    let found = run.all(&cells)?;
    let mut table = Table::new([
        ("file_system", "file system"),
        ("flash_pages", "flash pages"),
        ("of_paper", "/ the paper's baseline"),
        ("of_kernel", "/ kernel 6.1"),
    ]);
    for (name, here) in names.iter().zip(&found) {
        table.row(values![
            *name,
            here.programs(),
            ratio(here.programs(), found[0].programs()),
            ratio(here.programs(), found[1].programs()),
        ]);
    }
    study.sections.push(Section::new(
        "bases",
        "Whom SCJ is compared with",
        "The file system alone on the drive, volatile buffer. The paper's baseline makes a checkpoint after each \
         cleaned segment, as no kernel does since 6.1: the base of all other tables makes one when what was \
         cleaned must be used.",
        table,
    ));
    let title = "whom SCJ is compared with";
    let named: Vec<Named<'_>> = names.iter().map(ToString::to_string).zip(&found).collect();
    study.sections.push(why::pages("bases", title, &named));
    Ok(())
}

/// What hints from above are worth to the drive.
fn hints(run: &Run<'_>, study: &mut Study) -> Result<(), LabError> {
    let mut cells = Vec::new();
    for bits in SETS {
        cells.extend(Lines::ALL.map(|lines| Cell { lines, ..files(bits) }));
    }
    let found = run.all(&cells)?;
    let mut table = Table::new([
        ("mechanisms", "mechanisms"),
        ("drive", "the drive cleans"),
        ("flash_pages", "flash pages"),
        ("of_two_heads", "/ cost-benefit, two heads"),
        ("copies", "drive: copies"),
    ]);
    let groups = SETS.iter().zip(found.chunks(Lines::ALL.len()));
    for (bits, found) in groups {
        for (lines, here) in Lines::ALL.iter().zip(found) {
            table.row(values![
                Mechanisms::name(*bits),
                lines.name(),
                here.programs(),
                ratio(here.programs(), found[1].programs()),
                here.flash.programs[nand::Cause::Gc as usize],
            ]);
        }
    }
    study.sections.push(Section::new(
        "hints",
        "Hints from above",
        "The file system alone on the drive, volatile buffer. Its writes are hinted to be tables and journal, nodes, \
         data, or what its cleaning moved; those of a host log map pages, the client's, or copies. The drive has a \
         head for each of four hints, and keeps them apart when it copies; by lifetime it guesses.",
        table,
    ));
    Ok(())
}
