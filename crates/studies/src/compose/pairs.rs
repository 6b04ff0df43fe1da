//! Two mechanisms at a time, each pair with the tenants that it is about.

use lab::LabError;
use report::study::{Plot, Section, Study, Table};
use report::values;

use super::cell::{Cell, Kind, Mechanisms, SEED, Tenants};
use super::{COLUMNS, Named, Run, columns, why};

/// The pairs: title, what it shows, tenants, bits.
const PAIRS: [(&str, &str, &str, Tenants, [usize; 2]); 2] = [
    (
        "store",
        "SQLite and RocksDB's trace on one drive",
        "nolog and isolation. SQLite flushes at every commit, and a flush writes out whatever is dirty, the store's \
         data too. Protected: the buffer survives a power cut, so that a flush costs nothing and a page may be \
         written again before it goes to flash.",
        Tenants { sqlite: true, files: false, store: true },
        [0, 1],
    ),
    (
        "files",
        "The file system over the host log",
        "SCJ and remap, the file system alone on the drive.",
        Tenants { sqlite: false, files: true, store: false },
        [2, 3],
    ),
];

/// The drives.
const KINDS: [Kind; 2] = [Kind::Volatile, Kind::Protected];

/// The sections.
pub(super) fn run(run: &Run<'_>, study: &mut Study) -> Result<(), LabError> {
    for (id, title, note, tenants, [one, two]) in PAIRS {
        let combinations = [0, 1 << one, 1 << two, 1 << one | 1 << two];
        let mut cells = Vec::new();
        for drive in KINDS {
            cells.extend(
                combinations.map(|bits| Cell::new(Mechanisms::of(bits), tenants, drive, SEED)),
            );
        }
        let found = run.all(&cells)?;
        let mut table = Table::new(
            [("mechanisms", "mechanisms"), ("drive", "drive")].into_iter().chain(COLUMNS),
        );
        let mut names = Vec::new();
        for (number, (cell, here)) in cells.iter().zip(&found).enumerate() {
            let (group, at) = (number / 4, number % 4);
            let (name, kind) = (Mechanisms::name(combinations[at]), cell.drive.name());
            names.push((format!("{name}, {kind}"), here));
            table.row(values![name, kind].into_iter().chain(columns(here, &found[4 * group])));
        }
        let mut section = Section::new(format!("pair_{id}"), title, note, table);
        for kind in KINDS.map(Kind::name) {
            let title = format!("flash pages / none, {kind}");
            let plot = Plot::bars(&title, "mechanisms", ["waf_of_none"]).only("drive", kind);
            section = section.plot(plot)?;
        }
        study.sections.push(section);
        let all: Vec<Named<'_>> = names;
        study.sections.push(why::pages(id, title, &all));
        study.sections.push(why::delays(id, title, &all));
    }
    Ok(())
}
