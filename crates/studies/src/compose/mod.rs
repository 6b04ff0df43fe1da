//! What no paper has: the four mechanisms in one stack. Tenants share a drive; pairs of mechanisms,
//! all sixteen combinations, and the counters that explain them.
//!
//! `crate::turnstile` keeps virtual time in order between clients that run in threads of their own,
//! `crate::port` is a client's part of the drive.

mod cell;
mod effects;
mod files;
mod lines;
mod measured;
mod pairs;
mod records;
mod sixteen;
mod store;
mod text;
mod why;

use crate::parallel::beside;

use crate::{Options, Scale};
use lab::LabError;
use report::round::quotient;
use report::study::{Study, Value};
use report::values;

use cell::{Cell, Inputs, Kind, Mechanisms, SEED, Size, Tenants};
use measured::{ENDURANCE, Measured};

impl Scale {
    /// Seeds of the sixteen combinations.
    fn combined_seeds(self) -> u64 {
        match self {
            Scale::Quick => 2,
            Scale::Default | Scale::Full => 3,
        }
    }
    /// The drives that they are run on.
    fn combined_drives(self) -> &'static [Kind] {
        match self {
            Scale::Quick => &[Kind::Volatile, Kind::Untold],
            Scale::Default | Scale::Full => &[Kind::Volatile, Kind::Protected, Kind::Untold],
        }
    }
    fn tenants(self) -> Size {
        match self {
            Scale::Quick => Size {
                records: 8000,
                operations: 10_000,
                files: 80 << 10,
                writes: 30_000,
                sample: 16,
                buffer: 4,
            },
            Scale::Default | Scale::Full => Size {
                records: 40_000,
                operations: 40_000,
                files: 320 << 10,
                writes: 120_000,
                sample: 4,
                buffer: 16,
            },
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// A trace that is not there; a tenant or the drive that fails.
pub fn run(options: &Options) -> Result<Study, LabError> {
    let size = options.scale.tenants();
    let inputs = Inputs::new(size, &options.data)?;
    let mut study = Study {
        title: "All four together".to_string(),
        command: options.command.clone(),
        note: note(size),
        seed: SEED,
        ..Study::default()
    };
    let run = Run { options, inputs };
    pairs::run(&run, &mut study)?;
    lines::run(&run, &mut study)?;
    sixteen::run(&run, &mut study)?;
    records::run(&run, &mut study)?;
    Ok(study)
}

/// Its section of commits as records, alone.
///
/// # Errors
/// As [`run`].
pub fn run_records(options: &Options) -> Result<Study, LabError> {
    let inputs = Inputs::new(options.scale.tenants(), &options.data)?;
    let mut study = Study { seed: SEED, ..Study::default() };
    records::run(&Run { options, inputs }, &mut study)?;
    Ok(study)
}

fn note(size: Size) -> String {
    format!(
        "Tenants share one modelled drive in virtual time, each with a part of its addresses. SQLite: YCSB A, \
         {} records, {} operations, FULL. Files: the log-structured file system on {} MiB with a file \
         server's load, {} blocks written. Store: RocksDB's requests as captured under YCSB A, one of {} pieces of \
         their address space, 8 in flight. nolog: transactions of the drive instead of a write-ahead log (paper 4). \
         isolation: the drive's buffer of {} MiB isolates append-only data, instead of LRU (paper 3). SCJ: the file \
         system journals its cleaning, instead of checkpoints where what was cleaned must be used, as the kernel's \
         does since 6.1 (paper 2). \
         remap: a host log below the file system (paper 1). The work is the same in all runs. The drive: 8 dies of \
         preset paper-nolog, blocks of 64 pages, 7 % spare, the map in DRAM, cleaned greedily with one head for the host \
         and one for copies unless said. Write amplification is total: flash pages \
         programmed for each page that programs wrote (SQLite: pages that its transactions change). DWPD: drive writes of \
         such pages a day that wear the drive out in five years, if a block endures {ENDURANCE} erases (assumed: no preset \
         has a figure; ratios do not depend on it).",
        size.records,
        size.operations,
        size.files / 256,
        size.writes,
        size.sample,
        size.buffer,
    )
}

/// What all sections need.
struct Run<'a> {
    options: &'a Options,
    inputs: Inputs,
}

impl Run<'_> {
    fn all(&self, cells: &[Cell]) -> Result<Vec<Measured>, LabError> {
        beside(self.options.threads, cells, |cell| cell.run(&self.inputs))
    }
}

/// Columns of a run.
const COLUMNS: [(&str, &str); 9] = [
    ("flash_pages", "flash pages"),
    ("waf", "WAF"),
    ("waf_of_none", "WAF / none"),
    ("erases", "erases"),
    ("dwpd", "DWPD"),
    ("sqlite_op_s", "SQLite op/s"),
    ("op_p99_ms", "op p99 ms"),
    ("file_p99_ms", "file p99 ms"),
    ("store_p99_ms", "store p99 ms"),
];

/// A kind of drive in an id.
fn slug(kind: &str) -> String {
    kind.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// What a run cost, beside the run of the same tenants without any mechanism.
fn columns(here: &Measured, none: &Measured) -> [Value; 9] {
    use text::{ms, ratio};
    let asked = here.asked(none.changed());
    let (programmed, written) = here.amplification(none.changed());
    let dwpd = here.dwpd(asked);
    let [operation, file, read] = here.p99().map(ms);
    let rate = here.sqlite.as_ref().map(|o| o.rate() / 1000);
    values![
        here.programs(),
        ratio(programmed, written),
        ratio(here.programs(), none.programs()),
        here.flash.erases,
        quotient(dwpd, 100, 2),
        rate,
        operation,
        file,
        read,
    ]
}

/// A run's name, and the run.
type Named<'a> = (String, &'a Measured);

/// The runs of some combinations, out of all sixteen.
fn named<'a>(found: &'a [Measured], of: &[usize]) -> Vec<Named<'a>> {
    of.iter().map(|bits| (Mechanisms::name(*bits), &found[*bits])).collect()
}

/// Everybody.
const ALL: Tenants = Tenants { sqlite: true, files: true, store: true };
