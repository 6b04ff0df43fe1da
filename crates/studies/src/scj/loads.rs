//! Figs 7, 8 and 9: the four loads.

use block::Span;

use super::cell::{Bench, Cell, LARGE, TOGETHER};
use super::outcome::{Outcome, PARTS};
use super::{Options, SEED, Scale, System, ahead, percent, section};
use crate::text::{change, micros, rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Check, Plot, Section, Study, Table, Value};
use report::values;

pub(super) const LOADS: [FileLoad; 4] =
    [FileLoad::Fileserver, FileLoad::Varmail, FileLoad::Tpcc, FileLoad::Ycsb];

fn systems(scale: Scale) -> Vec<System> {
    let large = System::Tuned(scale.blocks() / 128, LARGE);
    let mut all = vec![System::Bl, System::Kernel, System::Scj, large, System::Unflushed, TOGETHER];
    all.extend([System::KernelLate, System::KernelAhead, System::Ahead]);
    if scale == Scale::Default {
        all.push(System::ByValid);
    }
    all
}

/// The middle one.
pub(super) fn median(runs: &[Outcome], of: impl Fn(&Outcome) -> u64) -> u64 {
    let mut all: Vec<u64> = runs.iter().map(of).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// Runs of one load: for each system its seeds.
pub(super) struct Runs<'a> {
    pub(super) what: FileLoad,
    pub(super) of: Vec<(System, &'a [Outcome])>,
}

impl Runs<'_> {
    pub(super) fn ratio(&self, i: usize, of: impl Fn(&Outcome) -> u64 + Copy) -> (u64, u64) {
        (median(self.of[i].1, of), median(self.of[0].1, of))
    }
}

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let scale = options.scale;
    let (systems, seeds) = (systems(scale), options.seeds() as usize);
    let mut cells = Vec::new();
    for what in LOADS {
        for system in &systems {
            let cell = Cell::new(scale, *system, what);
            cells.extend((0..seeds as u64).map(|i| Cell { seed: SEED + i, ..cell }));
        }
    }
    let found = bench.all(&cells)?;
    let together = together(options, bench)?;
    let loads: Vec<Runs<'_>> = LOADS
        .into_iter()
        .zip(found.chunks(seeds * systems.len()))
        .map(|(what, runs)| Runs {
            what,
            of: systems.iter().copied().zip(runs.chunks(seeds)).collect(),
        })
        .collect();
    study.sections.push(section(
        "fig8", "Fig 8: the four loads",
        format!(
            "Medians of {seeds} seeds, range of MB/s. tpcc and YCSB: pages of a generator shaped like MySQL's, not \
             MySQL. Checkpoints: in per cent of BL's. Metadata: of user blocks. `SCJ` has the paper's journal area at \
             this scale, the larger one {LARGE} slots. Times of a cleaning are what callers wait for: ahead of need nothing."
        ),
        eight(&loads),
    ).plot(Plot::bars("throughput against BL", "load", ["against_bl"]).by("system"))?
        .plot(Plot::bars("checkpoints, % of BL's", "load", ["of_bl"]).by("system"))?);
    study.sections.push(section(
        "fig8_triggers",
        "Fig 8: what asked for checkpoints",
        "Of the first seed.",
        triggers(&loads),
    ));
    let mail = Runs {
        what: FileLoad::VarmailTogether,
        of: ahead::SHOWN.into_iter().zip(together.chunks(seeds)).collect(),
    };
    study.sections.push(ahead::table(loads.iter().chain([&mail])));
    study.sections.push(seven(&loads[0])?);
    study.sections.push(nine(&loads[3], System::name)?);
    study.checks.extend(loads.iter().flat_map(|load| checks(load)));
    study.checks.extend(loads.iter().chain([&mail]).flat_map(ahead::checks));
    study.checks.push(least(&loads));
    study.checks.extend(latencies(&loads[3]));
    Ok(())
}

/// The mail server whose threads share flushes (not in the paper).
fn together(options: &Options, bench: &Bench) -> Result<Vec<Outcome>, LabError> {
    let (scale, what) = (options.scale, FileLoad::VarmailTogether);
    let seeds = 0..options.seeds();
    let of = |system| {
        seeds.clone().map(move |i| Cell { seed: SEED + i, ..Cell::new(scale, system, what) })
    };
    let cells: Vec<Cell> = ahead::SHOWN.into_iter().flat_map(of).collect();
    bench.all(&cells)
}

fn eight(loads: &[Runs<'_>]) -> Table {
    let mut table = Table::new([
        ("load", "load"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("range", "range"),
        ("against_bl", "against BL"),
        ("against_kernel_6_1", "against kernel 6.1"),
        ("cleaning_mean_us", "cleaning mean us"),
        ("p99_us", "p99 us"),
        ("cps", "CPs"),
        ("of_bl", "of BL's"),
        ("metadata", "metadata"),
        ("waf", "WAF"),
        ("waf_drive", "WAF drive"),
        ("filled", "filled"),
        ("at_the_end", "at the end"),
    ]);
    for load in loads {
        for (i, (system, runs)) in load.of.iter().enumerate() {
            let rates = runs.iter().map(|one| one.rate() * 4096);
            let (least, most) = (rates.clone().min().unwrap_or(0), rates.max().unwrap_or(0));
            let kernel = (median(runs, Outcome::rate), median(load.of[1].1, Outcome::rate));
            let one = &runs[0];
            table.row(values![
                load.what.title(),
                system.name(),
                rate(median(runs, Outcome::rate) * 4096),
                format!("{} to {}", rate(least), rate(most)),
                ratio(load.ratio(i, Outcome::rate)),
                ratio(kernel),
                micros(Span::from_ps(median(runs, |one| one.cleaning_mean().as_ps()))),
                one.cleaning_p99().map(micros),
                median(runs, |one| one.cp_calls),
                percent(load.ratio(i, |one| one.cp_calls)),
                percent((median(runs, |one| one.metadata), median(runs, |one| one.user))),
                ratio((median(runs, |one| one.written), median(runs, |one| one.user))),
                ratio(one.drive),
                percent(one.usage[0]),
                percent(one.usage[1])
            ]);
        }
    }
    table
}

fn triggers(loads: &[Runs<'_>]) -> Table {
    let mut table = Table::new([
        ("load", "load"),
        ("system", "system"),
        ("cleanings", "cleanings"),
        ("pre_invalid_copied", "pre-invalid copied"),
        ("records", "records"),
        ("flushes", "flushes"),
        ("checkpoints", "checkpoints"),
    ]);
    for load in loads {
        for (system, runs) in &load.of {
            let one = &runs[0];
            table.row(values![
                load.what.title(),
                system.name(),
                one.cleaned,
                one.moved[1],
                one.records,
                one.flushes,
                one.triggers.as_str()
            ]);
        }
    }
    table
}

/// Time of cleanings over the run, in tenths of it.
fn seven(load: &Runs<'_>) -> Result<Section, LabError> {
    const TENTH: &str = "tenth";
    let ids = load.of.iter().map(|(system, _)| system.name().to_string());
    let heads = ids.clone().map(|name| (name.clone(), format!("{name}, us")));
    let tenth = (TENTH.to_string(), "tenth of the run".to_string());
    let mut table = Table::new(std::iter::once(tenth).chain(heads));
    for tenth in 0..10 {
        let mean = |one: &Outcome| Value::from(one.tenth(tenth).map(micros));
        table.row(
            std::iter::once(Value::from(tenth + 1))
                .chain(load.of.iter().map(|(_, runs)| mean(&runs[0]))),
        );
    }
    Ok(section(
        "fig7", "Fig 7: mean time of a cleaning over the run (fileserver)",
        "BL with its checkpoint; SCJ with flush and record. Kernel 6.1's checkpoints are not in it.",
        table,
    )
    .plot(Plot::lines("mean time of a cleaning, us", TENTH, ids))?)
}

/// Fig 9 of a load's runs; `name` is what each system is called.
pub(super) fn nine(
    load: &Runs<'_>,
    name: impl Fn(System) -> &'static str,
) -> Result<Section, LabError> {
    let parts = ["read", "update"].into_iter().flat_map(|kind| {
        PARTS.iter().flat_map(move |(part, _)| {
            [
                (format!("{kind}_{part}_us"), format!("{kind} {part} us")),
                (format!("{kind}_{part}_against_bl"), format!("{kind} {part} against BL")),
            ]
        })
    });
    let names = [("system", "system"), ("operations_s", "operations/s")];
    let names = names.map(|(id, heading)| (id.to_string(), heading.to_string()));
    let mut table = Table::new(names.into_iter().chain(parts));
    let bl = load.of.first().map(|(_, runs)| &runs[0]);
    for ((system, runs), bl) in load.of.iter().zip(bl.into_iter().cycle()) {
        let one = &runs[0];
        let mut row = values![name(*system), one.operations_a_second()].to_vec();
        for kind in 0..2 {
            for part in 0..PARTS.len() {
                let (now, before) = (one.latency(kind, part), bl.latency(kind, part));
                row.extend(values![micros(now), change(now.as_ps(), before.as_ps())]);
            }
        }
        table.row(row);
    }
    Ok(section(
        "fig9", "Fig 9: latency of YCSB-A-shaped operations",
        "Of the first seed; 32 connections. The paper: read mean -11 %, p99 -10 %; update mean -20 %, p99 -19 %; \
         p95 not stated.",
        table,
    )
    .plot(Plot::bars("reads, us", "system", ["read_mean_us", "read_p99_us"]))?
    .plot(Plot::bars("updates, us", "system", ["update_mean_us", "update_p99_us"]))?)
}

fn checks(load: &Runs<'_>) -> Vec<Check> {
    let name = load.what.title();
    let gain = |i: usize| load.ratio(i, Outcome::rate);
    let points = |i: usize| load.ratio(i, |one| one.cp_calls);
    let cleaning = load.ratio(2, |one| one.cleaning_mean().as_ps());
    let share = |i: usize| {
        let runs = load.of[i].1;
        (median(runs, |one| one.metadata), median(runs, |one| one.user))
    };
    let less = |a: (u64, u64), b: (u64, u64)| {
        u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
    };
    let (scj, large, bl) = (share(2), share(3), share(0));
    vec![
        Check {
            what: format!("Fig 8a, {name}: SCJ is 1.13 to 1.63 times as fast as BL"),
            found: format!("{}; with a larger area {}", ratio(gain(2)), ratio(gain(3))),
            holds: (113..=163).contains(&(gain(2).0 * 100 / gain(2).1.max(1))),
        },
        Check {
            what: format!("{name}: SCJ is never slower than BL"),
            found: ratio(gain(2)).to_string(),
            holds: gain(2).0 >= gain(2).1,
        },
        Check {
            what: format!("{name}: SCJ is faster than kernel 6.1's way (not in the paper)"),
            found: ratio((
                median(load.of[2].1, Outcome::rate),
                median(load.of[1].1, Outcome::rate),
            ))
            .to_string(),
            holds: median(load.of[2].1, Outcome::rate) > median(load.of[1].1, Outcome::rate),
        },
        Check {
            what: format!("Fig 8b, {name}: a cleaning takes less with SCJ"),
            found: change(cleaning.0, cleaning.1).to_string(),
            holds: cleaning.0 < cleaning.1,
        },
        Check {
            what: format!(
                "Fig 8c, {name}: SCJ makes at most 10 % of BL's checkpoints (paper: below 6 %)"
            ),
            found: format!("{}; with a larger area {}", percent(points(2)), percent(points(3))),
            holds: points(2).0 * 10 <= points(2).1,
        },
        Check {
            what: format!("Fig 8d, {name}: SCJ writes less metadata than BL"),
            found: format!(
                "{} against {}; with a larger area {}",
                percent(scj),
                percent(bl),
                percent(large)
            ),
            holds: less(scj, bl),
        },
    ]
}

fn least(loads: &[Runs<'_>]) -> Check {
    let gains: Vec<u64> = loads
        .iter()
        .map(|load| {
            let (now, before) = load.ratio(2, Outcome::rate);
            now * 100 / before.max(1)
        })
        .collect();
    Check {
        what: "Fig 8a: varmail gains least".to_string(),
        found: format!("{gains:?} hundredths in fileserver, varmail, tpcc, YCSB"),
        holds: gains.iter().min() == gains.get(1),
    }
}

fn latencies(load: &Runs<'_>) -> Vec<Check> {
    let (bl, scj) = (&load.of[0].1[0], &load.of[2].1[0]);
    ["read", "update"]
        .into_iter()
        .enumerate()
        .map(|(kind, name)| {
            let pair = |part| (scj.latency(kind, part).as_ps(), bl.latency(kind, part).as_ps());
            let (mean, p99) = (pair(0), pair(2));
            Check {
                what: format!("Fig 9: mean and p99 of a {name} are lower with SCJ"),
                found: format!("{} and {}", change(mean.0, mean.1), change(p99.0, p99.1)),
                holds: mean.0 < mean.1 && p99.0 <= p99.1,
            }
        })
        .collect()
}
