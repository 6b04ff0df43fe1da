//! The paper's numbers under each condition that its text leaves open: the same sections, with the rows that
//! statements name.

use super::cell::{Bench, Cell};
use super::loads::{LOADS, Runs, median, nine};
use super::outcome::Outcome;
use super::paper::{self, Set};
use super::{Options, SEED, System, percent, phases, section};
use crate::text::{rate, ratio};
use lab::LabError;
use lab::fileload::FileLoad;
use report::study::{Condition, Study, Table};
use report::values;

/// Runs the experiment. What the study's own sections answer is not told again.
pub(super) fn run(options: &Options, bench: &Bench, study: &mut Study) -> Result<(), LabError> {
    for condition in paper::conditions(options.scale) {
        let set = paper::set(&condition);
        let own = set == paper::OWN;
        if !own || options.claims || options.load.is_some() {
            under(options, bench, &condition, set, study)?;
        }
        // Nothing but the size of the volume, and who waits for whom, makes a difference to BL.
        if !own && (set.together || set.scale.is_some()) {
            let scale = set.scale.unwrap_or(options.scale);
            let (_, table) = phases::table(options, scale, bench, mail(set))?;
            let title = "Fig 1a: where the time of a cleaning goes (BL)";
            study.sections.push(section("fig1a", title, "As above.", table).under(&condition));
        }
    }
    Ok(())
}

fn mail(set: Set) -> FileLoad {
    if set.together { FileLoad::VarmailTogether } else { FileLoad::Varmail }
}

fn under(
    options: &Options,
    bench: &Bench,
    condition: &Condition,
    set: Set,
    study: &mut Study,
) -> Result<(), LabError> {
    let (scale, seeds) = (set.scale.unwrap_or(options.scale), options.seeds());
    let load = |what| if what == FileLoad::Varmail { mail(set) } else { what };
    let systems = [System::Bl, set.system];
    let shown: Vec<FileLoad> = LOADS.into_iter().filter(|what| options.shows(*what)).collect();
    let mut cells = Vec::new();
    for what in shown.iter().copied() {
        for system in systems {
            let cell = Cell::new(scale, system, load(what));
            cells.extend((0..seeds).map(|i| Cell { seed: SEED + i, ..cell }));
        }
    }
    let found = bench.all(&cells)?;
    let loads: Vec<Runs<'_>> = shown
        .into_iter()
        .zip(found.chunks(seeds as usize * systems.len()))
        .map(|(what, runs)| {
            let of = systems.into_iter().zip(runs.chunks(seeds as usize)).collect();
            Runs { what, of }
        })
        .collect();
    let none = Runs { what: FileLoad::Ycsb, of: Vec::new() };
    let ycsb = loads.iter().find(|load| load.what == FileLoad::Ycsb).unwrap_or(&none);
    let name = |system| if system == System::Bl { "BL" } else { "SCJ" };
    let title = format!("Fig 8: the four loads, on {} MiB", scale.blocks() / 256);
    let note = format!("Medians of {seeds} seeds. {}.", condition.what);
    let eight = section("fig8", title, note, eight(&loads, name));
    study.sections.push(eight.under(condition));
    study.sections.push(nine(ycsb, name)?.under(condition));
    Ok(())
}

fn eight(loads: &[Runs<'_>], name: impl Fn(System) -> &'static str) -> Table {
    let mut table = Table::new([
        ("load", "load"),
        ("system", "system"),
        ("mb_s", "MB/s"),
        ("against_bl", "against BL"),
        ("cps", "CPs"),
        ("of_bl", "of BL's"),
        ("asked_for_by", "asked for by"),
        ("metadata", "metadata"),
        ("waf", "WAF"),
    ]);
    for load in loads {
        for (i, (system, runs)) in load.of.iter().enumerate() {
            let user = median(runs, |one| one.user);
            table.row(values![
                load.what.title(),
                name(*system),
                rate(median(runs, Outcome::rate) * 4096),
                ratio(load.ratio(i, Outcome::rate)),
                median(runs, |one| one.cp_calls),
                percent(load.ratio(i, |one| one.cp_calls)),
                runs[0].triggers.as_str(),
                percent((median(runs, |one| one.metadata), user)),
                ratio((median(runs, |one| one.written), user))
            ]);
        }
    }
    table
}
