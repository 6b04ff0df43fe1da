//! Not in the paper: what cleaning ahead of need is to reach here, and whether it does. On 1/16 of the paper's
//! volume, or at its own size.

use block::Span;

use super::cell::{Bench, Cell};
use super::loads::median;
use super::outcome::Outcome;
use super::{Options, SEED, Scale, System, section};
use crate::text::{micros, rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Study, Table, Value};
use report::values;

/// A number of a load, and what it is to be at least, or at most.
#[derive(Clone, Copy)]
enum Goal {
    /// MB/s.
    Rate(u64),
    /// Hundredths of another system's throughput.
    Of(System, u64),
    /// Milliseconds of the p99 of an update.
    P99(u64),
    /// Hundredths of another system's throughput, from and to.
    Between(System, u64, u64),
    /// Per cent of another system's checkpoints.
    Checkpoints(System, u64),
}

type Row = (FileLoad, System, Goal);

const SMALL: [Row; 16] = [
    (FileLoad::Fileserver, System::Ahead, Goal::Rate(560)),
    (FileLoad::Fileserver, System::KernelAhead, Goal::Rate(660)),
    (FileLoad::Fileserver, System::Ahead, Goal::Of(System::Kernel, 155)),
    (FileLoad::Tpcc, System::Ahead, Goal::Rate(176)),
    (FileLoad::Tpcc, System::KernelAhead, Goal::Rate(180)),
    (FileLoad::Ycsb, System::Ahead, Goal::Rate(140)),
    (FileLoad::Ycsb, System::KernelAhead, Goal::Rate(145)),
    (FileLoad::VarmailTogether, System::Ahead, Goal::Rate(122)),
    (FileLoad::VarmailTogether, System::KernelAhead, Goal::Rate(148)),
    (FileLoad::Fileserver, System::Ahead, Goal::Of(System::Unflushed, 99)),
    (FileLoad::Tpcc, System::Ahead, Goal::Of(System::Unflushed, 99)),
    (FileLoad::Ycsb, System::Ahead, Goal::Of(System::Unflushed, 99)),
    (FileLoad::Varmail, System::Ahead, Goal::Of(System::Unflushed, 99)),
    (FileLoad::VarmailTogether, System::Ahead, Goal::Of(System::Unflushed, 99)),
    (FileLoad::Fileserver, System::KernelAhead, Goal::P99(12)),
    (FileLoad::Fileserver, System::Ahead, Goal::P99(19)),
];

const LARGE: [Row; 4] = [
    (FileLoad::Fileserver, System::Ahead, Goal::Rate(550)),
    (FileLoad::Fileserver, System::KernelAhead, Goal::Rate(580)),
    (FileLoad::Fileserver, System::Unflushed, Goal::Between(System::Bl, 150, 170)),
    (FileLoad::Fileserver, System::Unflushed, Goal::Checkpoints(System::Bl, 6)),
];

impl Goal {
    /// The system that it is measured by.
    fn other(self) -> Option<System> {
        match self {
            Goal::Rate(_) | Goal::P99(_) => None,
            Goal::Of(system, _) | Goal::Between(system, ..) | Goal::Checkpoints(system, _) => {
                Some(system)
            }
        }
    }

    /// What it is to be, what it is (in the place of its kind in [`KINDS`]), and whether that is enough.
    fn judge(self, runs: &[Outcome], other: &[Outcome]) -> (String, usize, Value, bool) {
        let now = median(runs, Outcome::rate);
        let against = (now, median(other, Outcome::rate).max(1));
        let hundredths = |n: u64| ratio((n, 100));
        match self {
            Goal::Rate(least) => {
                let met = now * 4096 >= least * 1_000_000;
                (format!("at least {least} MB/s"), 0, rate(now * 4096), met)
            }
            Goal::Of(_, least) => {
                let met = against.0 * 100 >= against.1 * least;
                (format!("at least {}", hundredths(least)), 1, ratio(against), met)
            }
            Goal::Between(_, least, most) => {
                let met = (least..=most).contains(&(against.0 * 100 / against.1));
                let must = format!("{} to {}", hundredths(least), hundredths(most));
                (must, 1, ratio(against), met)
            }
            Goal::P99(most) => {
                let p99 = Span::from_ps(median(runs, |one| one.latency(1, 2).as_ps()));
                let met = p99 <= Span::from_us(most * 1_000);
                (format!("at most {} us", most * 1_000), 2, micros(p99), met)
            }
            Goal::Checkpoints(_, most) => {
                let points = [runs, other].map(|runs| median(runs, |one| one.cp_calls));
                let met = points[0] * 100 <= points[1] * most;
                (format!("at most {most} %"), 3, super::percent((points[0], points[1])), met)
            }
        }
    }
}

/// The columns of what is measured: a number stands in that of its kind.
const KINDS: [(&str, &str); 4] = [
    ("mb_s", "MB/s"),
    ("against", "throughput against it"),
    ("update_p99_us", "update p99 us"),
    ("checkpoints", "checkpoints, of its"),
];

/// A row, the runs of its system, and those of the system that it is measured by.
type Judged = (Row, Vec<Outcome>, Vec<Outcome>);

fn table(rows: Vec<Judged>) -> Table {
    let heads =
        [("load", "load"), ("system", "system"), ("other", "measured by"), ("goal", "goal")];
    let mut table = Table::new(heads.into_iter().chain(KINDS).chain([("met", "met")]));
    for ((what, system, goal), runs, other) in rows {
        let (must, place, value, met) = goal.judge(&runs, &other);
        let mut here = [const { Value::Absent }; KINDS.len()];
        here[place] = value;
        let by = goal.other().map(System::name);
        let names = values![what.title(), system.name(), by, must];
        let met = values![if met { "yes" } else { "no" }];
        table.row(names.into_iter().chain(here).chain(met));
    }
    table
}

/// Runs the experiment.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    let (scale, rows): (_, &[Row]) = match options.scale {
        Scale::Full => (Scale::Full, &LARGE),
        _ => (Scale::Quick, &SMALL),
    };
    let cells = |what, system| {
        let cell = move |i| Cell { seed: SEED + i, ..Cell::new(scale, system, what) };
        (0..options.seeds()).map(cell).collect::<Vec<Cell>>()
    };
    // The mail server whose threads share flushes is one of the mail server's.
    let mail = |what: FileLoad| match what {
        FileLoad::VarmailTogether => FileLoad::Varmail,
        other => other,
    };
    let rows = || rows.iter().filter(|(what, ..)| options.shows(mail(*what)));
    let all: Vec<Cell> = rows()
        .flat_map(|(what, system, goal)| {
            let systems = [Some(*system), goal.other()].into_iter().flatten();
            systems.flat_map(|system| cells(*what, system)).collect::<Vec<Cell>>()
        })
        .collect();
    bench.all(&all)?;
    let judged = rows().map(|(what, system, goal)| {
        let runs = bench.all(&cells(*what, *system))?;
        let other = goal.other().map_or(Ok(Vec::new()), |other| bench.all(&cells(*what, other)))?;
        Ok(((*what, *system, *goal), runs, other))
    });
    let table = table(judged.collect::<Result<_, LabError>>()?);
    let note = format!("Medians of {} seeds, on {} MiB.", options.seeds(), scale.blocks() / 256);
    let title = "What cleaning ahead of need is to reach (not in the paper)";
    study.sections.push(section("goals", title, note, table));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_of_every_kind_stand_in_one_table() {
        let runs = || vec![Outcome::default()];
        table(SMALL.into_iter().chain(LARGE).map(|row| (row, runs(), runs())).collect());
    }
}
