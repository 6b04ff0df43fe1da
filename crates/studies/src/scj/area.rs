//! Fig 6: the size of the journal area, and why the paper's 256 KB are not enough.

use super::cell::{Bench, Cell};
use super::outcome::Outcome;
use super::{Options, Scale, System, section};
use crate::text::{rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Study, Table, Value};
use report::values;

/// Slots of the area at a scale, with the size that they stand for in the paper.
fn areas(scale: Scale) -> Vec<(u32, u64)> {
    let all = match scale {
        Scale::Quick => vec![1, 2, 4, 16],
        Scale::Default => vec![1, 2, 4, 8, 16, 32, 64],
        Scale::Full => vec![4, 16, 64, 128, 224],
    };
    all.into_iter().map(|slots: u32| (slots, u64::from(slots) * scale.factor() * 4)).collect()
}

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let scale = options.scale;
    let areas = areas(scale);
    let mut table = Table::new([
        ("full", "full"),
        ("area_kb", "area (paper's KB)"),
        ("slots", "slots"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("cps", "CPs"),
        ("asked_for_by", "asked for by"),
        ("cleanings_per_cp", "cleanings/CP"),
        ("gained_per_cleaning", "gained/cleaning"),
        ("user_blocks_per_cleaning", "user blocks/cleaning"),
        ("pre_invalid_at_most", "pre-invalid at most"),
    ]);
    let fulls: &[u64] = if scale == Scale::Default { &[80, 60] } else { &[80] };
    for full in fulls {
        let system = |slots| System::Tuned(scale.blocks() / 128, slots);
        let cells: Vec<Cell> = std::iter::once(System::Bl)
            .chain(areas.iter().map(|(slots, _)| system(*slots)))
            .map(|system| Cell { full: *full, ..Cell::new(scale, system, FileLoad::Fileserver) })
            .collect();
        let found = bench.all(&cells)?;
        let (bl, sweep) = (&found[0], &found[1..]);
        let at = format!("{full} %");
        table.row(row(values![&at, "BL", Value::Absent], bl, bl));
        for ((slots, kb), one) in areas.iter().zip(sweep) {
            table.row(row(values![&at, *kb, *slots], one, bl));
        }
        study.checks.extend(checks(*full, &areas, sweep, scale));
    }
    study.sections.push(section(
        "fig6", "Fig 6: the journal area (fileserver)",
        format!(
            "A slot is a record of one cleaning. One slot stands for {} KB of the paper's at this scale, so its \
             smallest areas cannot be run. The paper counts one journal block for 2 MB written, and so 64 of \
             them for 128 MB of pre-invalid blocks: true only of victims that are nearly empty. A \
             cleaning frees but part of a segment, and as much is written until the next; so a threshold \
             takes as many cleanings more, and each of them a record.",
            scale.factor() * 4
        ),
        table,
    ).plot(Plot::lines("MB/s, 80 % full", "area_kb", ["mb_s"]).only("full", "80 %"))?);
    Ok(())
}

fn row(names: [Value; 3], one: &Outcome, bl: &Outcome) -> Vec<Value> {
    let cleaned = one.cleaned.max(1);
    let gained = (cleaned * 512).saturating_sub(one.moved[0]) / cleaned;
    names
        .into_iter()
        .chain(values![
            rate(one.rate() * 4096),
            ratio((one.rate(), bl.rate())),
            one.cp_calls,
            one.triggers.as_str(),
            ratio((cleaned, one.cp_calls.max(1))),
            gained,
            one.user / cleaned,
            one.pre_invalid_peak
        ])
        .collect()
}

fn checks(full: u64, areas: &[(u32, u64)], sweep: &[Outcome], scale: Scale) -> Vec<Check> {
    let best = sweep.iter().map(Outcome::rate).max().unwrap_or(0);
    let knee = areas.iter().zip(sweep).find(|(_, one)| one.rate() * 100 >= best * 99);
    let knee = knee.map_or(0, |((_, kb), _)| *kb);
    let paper = areas.iter().zip(sweep).find(|((slots, _), _)| *slots == scale.slots());
    let Some((_, paper)) = paper else { return Vec::new() };
    vec![
        Check {
            what: format!("Fig 6a, {full} % full: nothing is gained beyond 256 KB"),
            found: format!("within 1 % of the best from {knee} KB on"),
            holds: knee <= 256,
        },
        Check {
            what: format!(
                "Fig 6b, {full} % full: with 256 KB only the threshold asks for checkpoints"
            ),
            found: format!(
                "{} of {} because the journal was full",
                paper.journal_full, paper.cp_calls
            ),
            holds: paper.journal_full == 0,
        },
    ]
}
