//! Fig 16: a drive that was written before is overwritten, with cleaning under way.

use block::Op;

use super::cell::{Cell, Measured, run_all};
use super::matrix::{blocks, stacked};
use super::{Options, Size, section};
use crate::text::{change, micros, rate, ratio};
use lab::LabError;
use report::study::{Check, Condition, Plot, Study, Table, Value};
use report::values;

/// (row, stack, victim policy)
const ROWS: [(&str, &str, Option<&str>); 7] = [
    ("pass-through", "off", None),
    ("paper", "paper-log", None),
    ("varve, greedy", "log", Some("greedy")),
    ("varve, cost-benefit", "log", Some("cost-benefit")),
    ("varve, age-threshold", "log", Some("age-threshold")),
    ("varve, fifo", "log", Some("fifo")),
    ("varve, random", "log", Some("random")),
];

/// With `cleaning` a file as large as the size says, overwritten twice before; else half as large and
/// freshly written: half the drive is free, and nothing is cleaned before that is full.
fn cell(size: Size, stack: &str, policy: Option<&str>, cleaning: bool, clock: &str) -> Cell {
    let Size { mib, fill, drives, .. } = size;
    let blocks = blocks(mib, if cleaning { fill } else { fill / 2 });
    let size = blocks * 4;
    let mut cell = stacked(&drives[0], mib, stack, fill);
    if let Some(policy) = policy {
        cell = cell.with("remap.gc.victim", policy);
    }
    let random = format!("rw=randwrite,norandommap=on,bs=4KiB,size={size}KiB");
    let cell = cell.after(&format!("rw=write,bs=1MiB,size={size}KiB,count={}", blocks / 256));
    match cleaning {
        true => cell
            .after(&format!("{random},count={}", 2 * blocks))
            .load(&format!("{random}{clock},count={blocks}")),
        false => cell.load(&format!("{random}{clock},count={}", blocks / 2)),
    }
}

/// Under a condition that cleans nothing the policies are one.
pub(super) fn run(
    options: &Options,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let size = Size::of(condition, options);
    let own = size.mib == options.scale.mib();
    let rows = if own { &ROWS[..] } else { &ROWS[..3] };
    let mut cells = Vec::new();
    for (_, stack, policy) in rows {
        cells.push(cell(size, stack, *policy, false, ""));
        cells.push(cell(size, stack, *policy, true, ""));
    }
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("stack", "stack"),
        ("mb_s_not_cleaning", "MB/s, not cleaning"),
        ("mb_s_cleaning", "MB/s, cleaning"),
        ("change", "change"),
        ("p99_us_not_cleaning", "p99 us, not cleaning"),
        ("p99_us_cleaning", "p99 us, cleaning"),
        ("wa_host", "WA host"),
        ("wa_both", "WA both"),
    ]);
    for ((name, ..), pair) in rows.iter().zip(found.chunks(2)) {
        let (idle, busy) = (&pair[0], &pair[1]);
        table.row(values![
            *name,
            rate(idle.rate()),
            rate(busy.rate()),
            change(busy.rate(), idle.rate()),
            micros(idle.percentile(Op::Write, 9900)),
            micros(busy.percentile(Op::Write, 9900)),
            ratio(busy.amplification().above()),
            ratio(busy.amplification().whole())
        ]);
    }
    study.sections.push(section(
        "fig16", "Fig 16: overwriting a drive that was written before",
        "Random 4 KiB overwrites, full map. Not cleaning: a file of 40 % of the drive, freshly written. \
         Cleaning: a file of 80 %, overwritten twice before. Under other conditions as much of the drive \
         as they say, or half of that: nothing is cleaned there. The paper: cleaning costs up to 22.1 %, and \
         stays above the existing scheme.",
        table,
    )
    .plot(Plot::bars("MB/s", "stack", ["mb_s_not_cleaning", "mb_s_cleaning"]))?
    .under(condition));
    if !own {
        return Ok(());
    }
    let clock = 2 * 4096 * 1_000_000 / found[5].rate().max(1);
    at_a_pace(options, study, clock)
}

/// The same loads with a write each `us` microseconds: latency below saturation.
fn at_a_pace(options: &Options, study: &mut Study, us: u64) -> Result<(), LabError> {
    let (size, clock) = (Size::own(options), format!(",iat={us}us,arrival=exp"));
    let mut cells = Vec::new();
    for (_, stack, policy) in ROWS {
        cells.push(cell(size, stack, policy, false, &clock).paced());
        cells.push(cell(size, stack, policy, true, &clock).paced());
    }
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("stack", "stack"),
        ("mean_us_not_cleaning", "mean us, not cleaning"),
        ("mean_us_cleaning", "mean us, cleaning"),
        ("p99_us_not_cleaning", "p99 us, not cleaning"),
        ("p99_us_cleaning", "p99 us, cleaning"),
        ("p999_us_not_cleaning", "p99.9 us, not cleaning"),
        ("p999_us_cleaning", "p99.9 us, cleaning"),
    ]);
    for ((name, ..), pair) in ROWS.iter().zip(found.chunks(2)) {
        let mut row = vec![Value::from(*name)];
        row.extend(pair.iter().map(|m| micros(m.mean(Op::Write))));
        row.extend(pair.iter().map(|m| micros(m.percentile(Op::Write, 9900))));
        row.extend(pair.iter().map(|m| micros(m.percentile(Op::Write, 9990))));
        table.row(row);
    }
    study.sections.push(section(
        "paced", "Latency of writes while cleaning, below saturation (not in the paper)",
        format!(
            "The loads of the last table with a write each {us} us in the mean (exponential): half of \
             what the host log sustains while it cleans."
        ),
        table,
    ));
    study.checks.push(tail(&found[4], &found[5]));
    Ok(())
}

/// The goal of the host log's pacing.
fn tail(idle: &Measured, busy: &Measured) -> Check {
    let (without, with) = (idle.percentile(Op::Write, 9900), busy.percentile(Op::Write, 9900));
    Check {
        what: "p99 of a write with cleaning at most 3 times that without".to_string(),
        found: format!("{} against {} us", micros(with), micros(without)),
        holds: with.as_ps() <= 3 * without.as_ps(),
    }
}
