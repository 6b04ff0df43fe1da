//! Commits as records instead of pages, in the composition: sets of mechanisms with nolog, either way.

use lab::LabError;
use report::study::{Check, Section, Study, Table};
use report::values;

use super::cell::{Cell, Kind, Mechanisms, SEED};
use super::text::{ms, ratio};
use super::{ALL, Named, Run, why};

/// nolog alone, with SCJ, with isolation and SCJ, all four.
const SETS: [usize; 4] = [1, 5, 7, 15];

/// Thousandths of the base's flash pages that the best set is to reach.
const PAGES: u64 = 800;

/// The sections.
pub(super) fn run(run: &Run<'_>, study: &mut Study) -> Result<(), LabError> {
    let cell = |bits, records| Cell {
        records,
        ..Cell::new(Mechanisms::of(bits), ALL, Kind::Volatile, SEED)
    };
    let mut cells = vec![cell(0, false)];
    cells.extend(SETS.iter().flat_map(|bits| [cell(*bits, false), cell(*bits, true)]));
    let found = run.all(&cells)?;
    let name = |here: &Cell| match (here.on.nolog, here.records) {
        (true, true) => here.on.names().replacen("nolog", "records", 1),
        _ => here.on.names(),
    };
    let mut table = Table::new([
        ("mechanisms", "mechanisms"),
        ("flash_pages", "flash pages"),
        ("of_none", "/ none"),
        ("sent", "SQLite sends"),
        ("sent_log", "of it to the log"),
        ("op_s", "SQLite op/s / none"),
        ("op_p99", "op p99 ms"),
        ("file_p99", "file p99 ms"),
        ("store_p99", "store p99 ms"),
    ]);
    let none = &found[0];
    let rate = |at: usize| found[at].sqlite.as_ref().map_or(0, |outcome| outcome.rate());
    for (at, (cell, here)) in cells.iter().zip(&found).enumerate() {
        let [operation, file, read] = here.p99().map(ms);
        let log = here.sqlite.as_ref().map_or(0, |outcome| outcome.tally.log);
        table.row(values![
            name(cell),
            here.programs(),
            ratio(here.programs(), none.programs()),
            here.sqlite_sent(),
            log,
            ratio(rate(at), rate(0)),
            operation,
            file,
            read,
        ]);
    }
    let best = (0..cells.len()).min_by_key(|at| found[*at].programs()).unwrap_or(0);
    let share = 1000 * found[best].programs() / none.programs().max(1);
    study.checks.push(Check {
        what: "volatile buffer: the best set takes at most 0.800 of the flash pages of none".into(),
        found: format!(
            "{}: {}",
            name(&cells[best]),
            ratio(found[best].programs(), none.programs())
        ),
        holds: share <= PAGES,
    });
    study.sections.push(Section::new(
        "records",
        "Commits as records of what they change",
        "Everybody, volatile buffer, first seed. With nolog each commit is a transaction of the drive with its pages; with \
         records SQLite is on the real store, each commit is a record in a log of 4096 pages, and up to 7,500 pages follow \
         in one transaction. The store reads what a page held before from the drive; the other systems' host keeps its files \
         in memory.",
        table,
    ));
    let title = "records, volatile buffer";
    let named: Vec<Named<'_>> = cells.iter().map(name).zip(&found).collect();
    study.sections.push(why::pages("records", title, &named));
    Ok(())
}
