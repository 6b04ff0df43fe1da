//! Fig 10: how full the volume is.

use super::cell::{Bench, Cell, LARGE};
use super::{Options, Scale, System, percent, section};
use crate::text::{rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Study, Table};
use report::values;

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let scale = options.scale;
    let fulls: &[u64] = match scale {
        Scale::Quick => &[60, 80],
        _ => &[50, 60, 70, 75, 80, 85],
    };
    let systems = [System::Bl, System::Scj, System::Tuned(scale.blocks() / 128, LARGE)];
    let cells: Vec<Cell> = fulls
        .iter()
        .flat_map(|full| {
            systems.map(|system| Cell {
                full: *full,
                ..Cell::new(scale, system, FileLoad::Fileserver)
            })
        })
        .collect();
    let found = bench.all(&cells)?;
    let mut table = Table::new([
        ("filled", "filled"),
        ("at_the_end", "at the end"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("waf", "WAF"),
        ("cleanings", "cleanings"),
        ("cps", "CPs"),
        ("metadata", "metadata"),
    ]);
    let (mut wafs, mut gains) = (Vec::new(), Vec::new());
    for (full, three) in fulls.iter().zip(found.chunks(3)) {
        for (system, one) in systems.iter().zip(three) {
            table.row(values![
                format!("{full} %"),
                percent(one.usage[1]),
                system.name(),
                rate(one.rate() * 4096),
                ratio((one.rate(), three[0].rate())),
                ratio((one.written, one.user)),
                one.cleaned,
                one.cp_calls,
                percent((one.metadata, one.user))
            ]);
        }
        wafs.push(three[1].written * 1000 / three[1].user.max(1));
        gains.push(three[2].rate() * 1000 / three[0].rate().max(1));
    }
    study.sections.push(section(
        "fig10", "Fig 10: how full the volume is (fileserver)",
        "Blocks in use of those that users may have, after the fill and at the end: files grow by appends.",
        table,
    ).plot(Plot::lines("MB/s", "filled", ["mb_s"]).by("system"))?
        .plot(Plot::lines("write amplification", "filled", ["waf"]).by("system"))?);
    study.checks.push(Check {
        what: "Fig 10: write amplification rises with utilisation".to_string(),
        found: format!("{wafs:?} thousandths"),
        holds: wafs.is_sorted(),
    });
    study.checks.push(Check {
        what: "Fig 10: SCJ gains less on a fuller volume (an area that is never full)".to_string(),
        found: format!("{gains:?} thousandths of BL"),
        holds: gains.last() < gains.first(),
    });
    Ok(())
}
