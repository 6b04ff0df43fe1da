//! Figs 4 and 5: the threshold of the adaptive checkpoint.

use block::Span;

use super::cell::{Bench, Cell, LARGE};
use super::outcome::Outcome;
use super::{Options, Scale, System, percent, section};
use crate::text::{change, micros, rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Study, Table, Value};
use report::values;

fn per_block(span: Span, one: &Outcome) -> Value {
    micros(Span::from_ps(span.as_ps() / one.user.max(1)))
}

/// Time of checkpoints, those of cleanings too.
fn checkpoints(one: &Outcome) -> Span {
    one.checkpoint()
}

fn copying(one: &Outcome) -> Span {
    let time = one.cleaning();
    time.copy + time.flush + time.journal
}

fn row([name, area]: [Value; 2], one: &Outcome, bl: &Outcome) -> [Value; 12] {
    values![
        name,
        area,
        rate(one.rate() * 4096),
        ratio((one.rate(), bl.rate())),
        per_block(one.cleaning().init, one),
        per_block(copying(one), one),
        per_block(checkpoints(one), one),
        one.cp_calls,
        one.triggers.as_str(),
        percent((one.moved[1], one.user)),
        percent((one.metadata, one.user)),
        ratio((one.written, one.user)),
    ]
}

/// Runs the experiment.
/// The column of what is swept.
const THRESHOLD: &str = "threshold_mb";

pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let scale = options.scale;
    let mib: &[u64] = match scale {
        Scale::Quick => &[32, 128, 512, 8192],
        _ => &[32, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    };
    let mut cells = vec![
        Cell::new(scale, System::Bl, FileLoad::Fileserver),
        Cell::new(scale, System::Kernel, FileLoad::Fileserver),
    ];
    for slots in [scale.slots(), LARGE] {
        for mib in mib {
            let system = System::Tuned(mib * 256 / scale.factor(), slots);
            cells.push(Cell::new(scale, system, FileLoad::Fileserver));
        }
    }
    let found = bench.all(&cells)?;
    let (bl, sweeps) = (&found[0], found[2..].chunks(mib.len()));
    let mut table = Table::new([
        (THRESHOLD, "threshold (paper's MB)"),
        ("slots", "journal slots"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("init_us", "init us/block"),
        ("copy_us", "copy us/block"),
        ("checkpoint_us", "checkpoint us/block"),
        ("cps", "CPs"),
        ("asked_for_by", "asked for by"),
        ("pre_invalid_copied", "pre-invalid copied"),
        ("metadata", "metadata"),
        ("waf", "WAF"),
    ]);
    table.row(row(values!["BL", Value::Absent], bl, bl));
    table.row(row(values!["kernel 6.1", Value::Absent], &found[1], bl));
    for (slots, sweep) in [scale.slots(), LARGE].iter().zip(sweeps.clone()) {
        for (mib, one) in mib.iter().zip(sweep) {
            table.row(row(values![*mib, *slots], one, bl));
        }
    }
    study.sections.push(section(
        "fig4", "Figs 4 and 5: the threshold of pre-invalid blocks (fileserver)",
        format!(
            "Times divided by the blocks that programs wrote. Metadata: nodes, directory blocks, tables, packs \
             and journal, of user blocks. {} slots are the paper's area at this scale: it is full before the \
             larger thresholds are reached, so a second sweep has {LARGE}.",
            scale.slots()
        ),
        table,
    ).plot(Plot::lines("time for each block, us; an area that is never full", THRESHOLD, ["init_us", "copy_us", "checkpoint_us"]).only("slots", LARGE.to_string()))?
        .plot(Plot::lines("MB/s; an area that is never full", THRESHOLD, ["mb_s"]).only("slots", LARGE.to_string()))?);
    for (area, sweep) in ["the paper's area", "an area that is never full"].iter().zip(sweeps) {
        study.checks.extend(checks(area, mib, sweep, bl));
    }
    Ok(())
}

fn checks(area: &str, mib: &[u64], sweep: &[Outcome], bl: &Outcome) -> Vec<Check> {
    let best = mib.iter().zip(sweep).max_by_key(|(_, one)| one.rate()).map_or(0, |(mib, _)| *mib);
    let worse: Vec<u64> = mib
        .iter()
        .zip(sweep)
        .filter(|(_, one)| one.rate() < bl.rate())
        .map(|(mib, _)| *mib)
        .collect();
    let (Some(first), Some(last)) = (sweep.first(), sweep.last()) else { return Vec::new() };
    let each = |one: &Outcome, span: Span| span.as_ps() / one.user.max(1);
    let pair = |f: fn(&Outcome) -> Span| (each(first, f(first)), each(last, f(last)));
    let (copies, points) = (pair(copying), pair(checkpoints));
    let us = |ps: u64| micros(Span::from_ps(ps));
    vec![
        Check {
            what: format!("Fig 4a, {area}: the best threshold is 128 MB"),
            found: format!("{best} MB"),
            holds: best == 128,
        },
        Check {
            what: format!("Fig 4a, {area}: only 8192 MB is worse than BL"),
            found: if worse.is_empty() { "none is".to_string() } else { format!("{worse:?} MB") },
            holds: worse == [8192],
        },
        Check {
            what: format!("Fig 4b, {area}: copying takes longer with a larger threshold"),
            found: format!(
                "{} to {} us/block; BL {}",
                us(copies.0),
                us(copies.1),
                us(each(bl, copying(bl)))
            ),
            holds: copies.0 < copies.1,
        },
        Check {
            what: format!("Fig 4c, {area}: checkpoints take less with a larger threshold"),
            found: format!("{} to {} us/block", us(points.0), us(points.1)),
            holds: points.0 > points.1,
        },
        Check {
            what: format!(
                "Figs 4c and 5, {area}: at 32 MB checkpoints take far less (paper: -78 %), \
                           metadata little less (-13 %)"
            ),
            found: format!(
                "{} and {}",
                change(each(first, checkpoints(first)), each(bl, checkpoints(bl))),
                change(first.metadata * bl.user, bl.metadata * first.user)
            ),
            holds: each(first, checkpoints(first)) * 2 < each(bl, checkpoints(bl))
                && first.metadata * bl.user < bl.metadata * first.user,
        },
    ]
}
