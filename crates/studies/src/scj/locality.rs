//! Fig 11: random writes with more and less locality.

use super::cell::{Bench, Cell, LARGE};
use super::{Options, Scale, System, percent, section};
use crate::text::{change, rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Study, Table};
use report::values;

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let scale = options.scale;
    let thetas: &[u32] = match scale {
        Scale::Quick => &[0, 120],
        _ => &[0, 40, 60, 80, 99, 120],
    };
    let systems = [System::Bl, System::Scj, System::Tuned(scale.blocks() / 128, LARGE)];
    let cells: Vec<Cell> = thetas
        .iter()
        .flat_map(|theta| {
            systems
                .map(|system| Cell { full: 75, ..Cell::new(scale, system, FileLoad::Fio(*theta)) })
        })
        .collect();
    let found = bench.all(&cells)?;
    let mut table = Table::new([
        ("law", "law"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("writes_against_bl", "writes against BL"),
        ("metadata", "metadata"),
        ("waf", "WAF"),
        ("cleanings", "cleanings"),
        ("cps", "CPs"),
    ]);
    let (mut gains, mut metadata) = (Vec::new(), Vec::new());
    for (theta, three) in thetas.iter().zip(found.chunks(3)) {
        for (system, one) in systems.iter().zip(three) {
            table.row(values![
                FileLoad::Fio(*theta).title(),
                system.name(),
                rate(one.rate() * 4096),
                ratio((one.rate(), three[0].rate())),
                change(one.written * three[0].user, three[0].written * one.user),
                percent((one.metadata, one.user)),
                ratio((one.written, one.user)),
                one.cleaned,
                one.cp_calls
            ]);
        }
        gains.push(three[2].rate() * 1000 / three[0].rate().max(1));
        metadata.push(three[0].metadata * 1000 / three[0].user.max(1));
    }
    study.sections.push(section(
        "fig11", "Fig 11: random writes of 32 KiB (fio)",
        "One file on three quarters of the space, written past the page cache, no fsync; one job.",
        table,
    ).plot(Plot::bars("MB/s", "law", ["mb_s"]).by("system"))?);
    study.checks.push(Check {
        what: "Fig 11a: SCJ gains more the less local writes are (an area that is never full)"
            .to_string(),
        found: format!("{gains:?} thousandths of BL, from uniform to most local"),
        holds: gains.first() > gains.last(),
    });
    study.checks.push(Check {
        what: "Fig 11b: BL's metadata falls with locality".to_string(),
        found: format!("{metadata:?} thousandths of user blocks"),
        holds: metadata.first() > metadata.last(),
    });
    Ok(())
}
