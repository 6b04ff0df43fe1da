//! All sixteen combinations on one mixed workload, on drives of several kinds.

use lab::LabError;
use report::study::{Check, Plot, Section, Study, Table, Value};

use super::cell::{Cell, Mechanisms, SEED};
use super::effects::{FIGURES, Found, interactions, worth};
use super::measured::Measured;
use super::text::{change, ms, ratio};
use super::{ALL, COLUMNS, Run, columns, named, slug, why};

/// The sections, and the result in sentences.
pub(super) fn run(run: &Run<'_>, study: &mut Study) -> Result<(), LabError> {
    let scale = run.options.scale;
    for drive in scale.combined_drives() {
        let kind = drive.name();
        let mut seeds = Vec::new();
        for seed in SEED..SEED + scale.combined_seeds() {
            let cell = |bits| Cell::new(Mechanisms::of(bits), ALL, *drive, seed);
            let cells: Vec<Cell> = (0..16).map(cell).collect();
            let found = run.all(&cells)?;
            if seed == SEED {
                study.sections.push(combinations(&found, kind)?);
                let id = format!("all_{}", slug(kind));
                let title = format!("everybody, {kind}");
                let some = named(&found, &[0, 1, 2, 4, 8, 15]);
                study.sections.push(why::pages(&id, &title, &some));
                study.sections.push(why::delays(&id, &title, &some));
            }
            seeds.push(found);
        }
        let found = Found::new(&seeds);
        study.sections.push(worth(&found, kind));
        study.sections.push(interactions(&found, kind));
        sentences(&found, kind, study);
    }
    Ok(())
}

/// What each combination costs.
fn combinations(found: &[Measured], kind: &str) -> Result<Section, LabError> {
    let mut table = Table::new([("mechanisms", "mechanisms")].into_iter().chain(COLUMNS));
    for (bits, here) in found.iter().enumerate() {
        let row = std::iter::once(Value::from(Mechanisms::name(bits)));
        table.row(row.chain(columns(here, &found[0])));
    }
    let took = found[0].elapsed().map(ms);
    let note = format!(
        "SQLite, files and store at once. Without any mechanism they take {} ms, {} ms and {} ms: \
         who is left has the drive alone.",
        took[0], took[1], took[2]
    );
    Ok(Section::new(
        format!("sixteen_{}", slug(kind)),
        format!("Sixteen combinations, {kind}"),
        note,
        table,
    )
    .plot(Plot::bars("WAF / none", "mechanisms", ["waf_of_none"]))?
    .plot(Plot::bars(
        "99th percentile of SQLite's operations, ms",
        "mechanisms",
        ["op_p99_ms"],
    ))?)
}

/// The result in sentences.
fn sentences(found: &Found, kind: &str, study: &mut Study) {
    let pages = FIGURES[0].1;
    let mut each: Vec<(u64, usize)> =
        (0..4).map(|bit| (found.effect(bit, |_| true, pages), bit)).collect();
    each.sort_unstable();
    let one =
        |(factor, bit): &(u64, usize)| format!("{} {}", Mechanisms::NAMES[*bit], change(*factor));
    study.checks.push(Check {
        what: format!("{kind}: each mechanism saves flash pages, in the mean over the others"),
        found: each.iter().map(one).collect::<Vec<_>>().join(", "),
        holds: each.iter().all(|(factor, _)| *factor < 1000),
    });
    let strongest = (0..4)
        .flat_map(|one| (one + 1..4).map(move |two| (one, two)))
        .map(|(one, two)| (found.interaction(one, two, pages), one, two))
        .max_by_key(|(factor, ..)| factor.abs_diff(1000))
        .unwrap_or((1000, 0, 1));
    let (factor, one, two) = strongest;
    study.checks.push(Check {
        what: format!(
            "{kind}: no two mechanisms together differ in flash pages by more than 2 % from what \
             each alone promises"
        ),
        found: format!("most: {} {}", Mechanisms::name(1 << one | 1 << two), change(factor)),
        holds: factor.abs_diff(1000) <= 20,
    });
    let programs = |bits: usize| found.sum(bits, pages);
    let best = (0..16).min_by_key(|bits| programs(*bits)).unwrap_or(0);
    study.checks.push(Check {
        what: format!("{kind}: all four together program the fewest pages"),
        found: format!(
            "best: {}, {} of none; all four: {}",
            Mechanisms::name(best),
            ratio(programs(best), programs(0)),
            ratio(programs(15), programs(0))
        ),
        holds: best == 15,
    });
}
