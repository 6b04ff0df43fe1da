//! Fig 1: where the time of a cleaning goes in the paper's baseline, and what a checkpoint writes.

use block::Span;

use super::cell::{Bench, Cell};
use super::outcome::Outcome;
use super::{Options, Scale, System, percent, section};
use crate::text::micros;
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Study, Table, Value};
use report::values;

/// Loads, and the checkpoint's part of the time of a cleaning that the paper measured, in per cent.
const LOADS: [(FileLoad, u64); 4] = [
    (FileLoad::Fileserver, 52),
    (FileLoad::Varmail, 44),
    (FileLoad::Tpcc, 57),
    (FileLoad::Ycsb, 56),
];

fn mean(sum: Span, count: u64) -> Value {
    micros(Span::from_ps(sum.as_ps() / count.max(1)))
}

/// The runs on a volume, `mail` as the mail server, and their table.
pub(super) fn table(
    options: &Options,
    scale: Scale,
    bench: &Bench,
    mail: FileLoad,
) -> Result<(Vec<Outcome>, Table), LabError> {
    let load = |what| if what == FileLoad::Varmail { mail } else { what };
    let shown = || LOADS.iter().filter(|(what, _)| options.shows(*what));
    let cells: Vec<Cell> = shown()
        .map(|(what, _)| Cell { drain: true, ..Cell::new(scale, System::Bl, load(*what)) })
        .collect();
    let found = bench.all(&cells)?;
    let mut table = Table::new([
        ("load", "load"),
        ("cleanings", "cleanings"),
        ("init_us", "init us"),
        ("copy_us", "copy us"),
        ("checkpoint_us", "checkpoint us"),
        ("checkpoint_part", "checkpoint's part"),
        ("paper", "paper"),
        ("metadata_dirty_before", "metadata dirty before"),
        ("dirtied_by_cleaning", "dirtied by cleaning"),
    ]);
    for ((what, stated), one) in shown().zip(&found) {
        let (time, count) = (one.cleaning(), one.cleaned);
        let all = one.dirty_before + one.dirtied;
        table.row(values![
            what.title(),
            count,
            mean(time.init, count),
            mean(time.copy, count),
            mean(time.checkpoint, count),
            percent((time.checkpoint.as_ps(), time.total().as_ps())),
            format!("{stated} %"),
            percent((one.dirty_before, all)),
            percent((one.dirtied, all))
        ]);
    }
    Ok((found, table))
}

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let (found, table) = table(options, options.scale, bench, FileLoad::Varmail)?;
    study.sections.push(section(
        "fig1a", "Fig 1a: where the time of a cleaning goes (BL)",
        "Copies are waited for before the checkpoint begins (this figure only, as in the paper). The last \
         columns: of the metadata blocks that the checkpoint then finds dirty, those that cleaning made dirty.",
        table,
    ).plot(Plot::bars("time of a cleaning, us", "load", ["init_us", "copy_us", "checkpoint_us"]))?);
    let parts: Vec<u64> = found
        .iter()
        .map(|one| {
            let time = one.cleaning();
            time.checkpoint.as_ps() * 100 / time.total().as_ps().max(1)
        })
        .collect();
    study.checks.push(Check {
        what: "Fig 1a: the checkpoint is a significant part of the time of a cleaning (paper: 44 to 57 %; \
               here: at least 30 % in all loads)"
            .to_string(),
        found: format!("{parts:?} % in fileserver, varmail, tpcc and YCSB"),
        holds: parts.iter().all(|part| *part >= 30),
    });
    let one = &found[0];
    let before: u64 = one.dirty_before;
    study.checks.push(Check {
        what: "Fig 1b: cleaning causes less than 1 % of the dirty metadata (fileserver)"
            .to_string(),
        found: percent((one.dirtied, before + one.dirtied)).to_string(),
        holds: one.dirtied * 100 < before + one.dirtied,
    });
    by_dirt(one, study);
    Ok(())
}

/// Fig 1b: the more is dirty, the longer the checkpoint.
fn by_dirt(one: &Outcome, study: &mut Study) {
    let mut table = Table::new([
        ("cleanings", "a fourth of the cleanings"),
        ("dirty_metadata_blocks", "dirty metadata blocks"),
        ("checkpoint_us", "checkpoint us"),
    ]);
    let mut means = Vec::new();
    for (i, [dirty, took, count]) in one.fourths.into_iter().enumerate() {
        if count == 0 {
            continue;
        }
        means.push(took / count);
        table.row(values![i + 1, dirty / count, micros(Span::from_ps(took / count))]);
    }
    study.sections.push(section(
        "fig1b", "Fig 1b: dirty metadata before a cleaning, and its checkpoint (BL, fileserver)",
        "Cleanings sorted by how much metadata was dirty when they began. After each of them none is.",
        table,
    ));
    study.checks.push(Check {
        what: "Fig 1b: a checkpoint takes longer when more is dirty".to_string(),
        found: format!(
            "{} us with least, {} us with most dirty",
            Value::from(means.first().map(|ps| micros(Span::from_ps(*ps)))),
            Value::from(means.last().map(|ps| micros(Span::from_ps(*ps))))
        ),
        holds: means.first() < means.last(),
    });
}
