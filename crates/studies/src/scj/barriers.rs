//! Not in the paper: what a flush costs decides whether journalled cleaning gains anything.

use super::cell::{Bench, Cell, LARGE, TOGETHER};
use super::outcome::Outcome;
use super::{Options, System, section};
use crate::text::{micros, rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Study, Table};
use report::values;

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let scale = options.scale;
    let large = System::Tuned(scale.blocks() / 128, LARGE);
    let systems = [System::Bl, System::Kernel, System::Scj, large, System::Unflushed, TOGETHER];
    let cells: Vec<Cell> = [false, true]
        .into_iter()
        .flat_map(|protected| {
            systems
                .map(|system| Cell { protected, ..Cell::new(scale, system, FileLoad::Fileserver) })
        })
        .collect();
    let found = bench.all(&cells)?;
    let mut table = Table::new([
        ("drive", "drive"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("cleaning_mean_us", "cleaning mean us"),
        ("copy_us", "copy us"),
        ("flush_us", "flush us"),
        ("record_us", "record us"),
        ("checkpoint_us", "checkpoint us"),
        ("mean_checkpoint_us", "mean checkpoint us"),
    ]);
    for (cell, (i, one)) in cells.iter().zip(found.iter().enumerate()) {
        let bl = &found[i / systems.len() * systems.len()];
        let time = one.cleaning();
        let each =
            |span: block::Span| micros(block::Span::from_ps(span.as_ps() / one.cleaned.max(1)));
        let points = one.checkpoint().as_ps() / one.cp_calls.max(1);
        let drive = if cell.protected { "protected buffer" } else { "970 PRO" };
        table.row(values![
            drive,
            cell.system.name(),
            rate(one.rate() * 4096),
            ratio((one.rate(), bl.rate())),
            micros(one.cleaning_mean()),
            each(time.copy),
            each(time.flush),
            each(time.journal),
            each(time.checkpoint),
            micros(block::Span::from_ps(points))
        ]);
    }
    study.sections.push(section(
        "barriers", "What a flush costs (fileserver; not in the paper)",
        "A cleaning with a journal waits twice for the drive, as a checkpoint does: copies must be durable \
         before the record, the record before the victim is used again. The paper mentions no flush; without it \
         records name copies that a power cut loses (`crates/lfs/tests/scj_rules.rs`, rule `flush`). On a drive \
         whose buffer survives a power cut both waits cost next to nothing. In batches eight victims share \
         them.",
        table,
    ).plot(Plot::bars("MB/s", "drive", ["mb_s"]).by("system"))?);
    let n = systems.len();
    let gain = |i: usize, bl: usize| (Outcome::rate(&found[i]), Outcome::rate(&found[bl]));
    study.checks.push(Check {
        what:
            "SCJ (an area that is never full) is faster than BL on a drive with a protected buffer"
                .to_string(),
        found: ratio(gain(n + 3, n)).to_string(),
        holds: gain(n + 3, n).0 > gain(n + 3, n).1,
    });
    study.checks.push(Check {
        what: "SCJ that cleans eight victims at a time is safe, and faster than BL".to_string(),
        found: ratio(gain(5, 0)).to_string(),
        holds: gain(5, 0).0 > gain(5, 0).1,
    });
    study.checks.push(Check {
        what: "without the flush that safety needs SCJ is 1.13 to 1.63 times as fast as BL"
            .to_string(),
        found: ratio(gain(4, 0)).to_string(),
        holds: (113..=163).contains(&(gain(4, 0).0 * 100 / gain(4, 0).1.max(1))),
    });
    Ok(())
}
