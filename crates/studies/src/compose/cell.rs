//! One run: which mechanisms are on, and who uses the drive.

use std::path::Path;
use std::sync::Arc;

use crate::nolog::records::Logged;
use crate::nolog::{CPU, FULL, Loaded, Outcome, Variant, load};
use crate::port::Port;
use crate::turnstile::Turnstile;
use block::{AppId, BlockDevice, Lba, Request, Sectors, Time};
use lab::LabError;
use lfs::fs::Cleaning;
use sqlite::workload::ycsb::{self, Ycsb};
use ssd::Drive;

use super::files::Files;
use super::measured::{Flash, Measured};
use super::store::Store;

/// Seed of the first runs.
pub(crate) const SEED: u64 = 5;

/// Pages that wait in memory for their transaction, where commits are records.
const OVERLAY: u32 = 7500;

/// Pages of what is collected as a whole: a block of 64 pages of each of 8 dies.
const LINE: u32 = 512;

/// The mechanisms of the four papers, on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mechanisms {
    /// Paper 4: transactions of the drive instead of a write-ahead log.
    pub(crate) nolog: bool,
    /// Paper 3: append-only data isolated in the drive's buffer, instead of LRU.
    pub(crate) isolation: bool,
    /// Paper 2: journalled cleaning of the file system, instead of checkpoints that let go what was cleaned.
    pub(crate) scj: bool,
    /// Paper 1: a host log below the file system.
    pub(crate) remap: bool,
}

impl Mechanisms {
    /// Names, in the order of the bits.
    pub(crate) const NAMES: [&'static str; 4] = ["nolog", "isolation", "SCJ", "remap"];

    /// Number `bits` of the sixteen.
    pub(crate) fn of(bits: usize) -> Mechanisms {
        let on = |bit: usize| bits >> bit & 1 == 1;
        Mechanisms { nolog: on(0), isolation: on(1), scj: on(2), remap: on(3) }
    }

    /// The names of those that are on.
    pub(crate) fn names(self) -> String {
        let on = [self.nolog, self.isolation, self.scj, self.remap];
        Mechanisms::name((0..4).map(|bit| usize::from(on[bit]) << bit).sum())
    }

    /// The names of those that are on in number `bits`.
    pub(crate) fn name(bits: usize) -> String {
        let names = (0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| Mechanisms::NAMES[bit]);
        match bits {
            0 => "none".to_string(),
            _ => names.collect::<Vec<_>>().join(" + "),
        }
    }
}

/// Who uses the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tenants {
    pub(crate) sqlite: bool,
    pub(crate) files: bool,
    pub(crate) store: bool,
}

/// What kind of drive they share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Its buffer is lost with the power, so that a flush writes it out.
    Volatile,
    /// Its buffer survives a power cut: a flush costs nothing.
    Protected,
    /// As `Volatile`, and nobody discards: what is no longer needed is copied until it is written
    /// over.
    Untold,
}

impl Kind {
    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Volatile => "volatile buffer",
            Kind::Protected => "protected buffer",
            Kind::Untold => "no discards",
        }
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Records of the database, and operations on it.
    pub(crate) records: u64,
    pub(crate) operations: u64,
    /// Pages of the drive for the file system, and blocks that files write.
    pub(crate) files: u32,
    pub(crate) writes: u64,
    /// One of so many pieces of the captured trace.
    pub(crate) sample: u64,
    /// MiB of the drive's buffer.
    pub(crate) buffer: u32,
}

/// The database and the trace, made once for all runs.
pub(crate) struct Inputs {
    size: Size,
    database: Loaded,
    ycsb: Ycsb,
    store: Store,
}

fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Failed(error.to_string())
}

impl Inputs {
    /// Loads the database and reads the traces in folder `data`.
    ///
    /// # Errors
    /// A trace that is not there; SQLite.
    pub(crate) fn new(size: Size, data: &Path) -> Result<Inputs, LabError> {
        let store = Store::new(data, size.sample)?;
        let mut ycsb = Ycsb::new(size.records, SEED);
        let database = load(|db| ycsb.load(db))?;
        Ok(Inputs { size, database, ycsb, store })
    }
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) on: Mechanisms,
    pub(crate) tenants: Tenants,
    pub(crate) drive: Kind,
    pub(crate) seed: u64,
    /// How the file system cleans without SCJ.
    pub(crate) base: Cleaning,
    /// What shares a line of the drive, and which line is collected.
    pub(crate) lines: Lines,
    /// SQLite's commits are records in a log, and pages follow as transactions.
    pub(crate) records: bool,
}

/// How the drive cleans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lines {
    /// Greedy, one head for the host and one for copies: what drives are taken for.
    Greedy,
    /// The same heads, cost-benefit: the default of a drive with transactions.
    CostBenefit,
    /// Heads by the age of what is replaced and copied.
    Lifetime,
    /// Heads by what the layers above hint, kept apart when copied.
    Hinted,
}

impl Lines {
    pub(crate) const ALL: [Lines; 4] =
        [Lines::Greedy, Lines::CostBenefit, Lines::Lifetime, Lines::Hinted];

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lines::Greedy => "greedy, two heads",
            Lines::CostBenefit => "cost-benefit, two heads",
            Lines::Lifetime => "cost-benefit, by lifetime",
            Lines::Hinted => "cost-benefit, hints",
        }
    }

    fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Lines::Greedy => &[("gc.victim", "greedy")],
            Lines::CostBenefit => &[("gc.victim", "cost-benefit")],
            Lines::Lifetime => &[("gc.victim", "cost-benefit"), ("streams.policy", "lifetime")],
            Lines::Hinted => &[
                ("gc.victim", "cost-benefit"),
                ("streams.policy", "hint"),
                ("streams.count", "4"),
                ("gc.per_stream", "on"),
            ],
        }
    }
}

impl Cell {
    /// On a drive and a file system as they are today.
    pub(crate) fn new(on: Mechanisms, tenants: Tenants, drive: Kind, seed: u64) -> Cell {
        Cell { on, tenants, drive, seed, base: Cleaning::Bl6, lines: Lines::Greedy, records: false }
    }

    fn make(&self, size: Size, pages: u32) -> Result<Drive, LabError> {
        let policy = if self.on.isolation { "aoi" } else { "lru" };
        let plp = if self.drive == Kind::Protected { "full" } else { "none" };
        let mut keys: Vec<(String, String)> = [
            ("tx.mode", "nolog".to_string()),
            ("capacity", format!("{} KiB", 4 * pages)),
            ("geometry.channels", "4".to_string()),
            ("geometry.dies", "2".to_string()),
            ("geometry.pages", "64".to_string()),
            // As small as the quick study's drive is, its lines may be those of a die.
            ("line", "auto".to_string()),
            ("buffer.size", format!("{} MiB", size.buffer)),
            ("buffer.policy", policy.to_string()),
            ("plp.mode", plp.to_string()),
        ]
        .map(|(key, value)| (key.to_string(), value))
        .into();
        let lines = self.lines.keys().iter();
        keys.extend(lines.map(|(key, value)| (key.to_string(), value.to_string())));
        let mut params = stack::drive_params("paper-nolog", &keys).map_err(failed)?;
        params.seed = self.seed;
        Drive::new(&params).map_err(failed)
    }

    /// Runs it. The database's pages are written, the volume is filled and written over, the store
    /// is loaded; then all begin at once.
    ///
    /// # Errors
    /// A tenant or the drive that fails.
    pub(crate) fn run(&self, inputs: &Inputs) -> Result<Measured, LabError> {
        let Tenants { sqlite, files, store } = self.tenants;
        let size = inputs.size;
        let part = |there: bool, pages: u32| if there { pages } else { 0 };
        let database = part(sqlite, inputs.database.pages());
        let volume = part(files, size.files);
        let trace = part(store, inputs.store.pages());
        let pages = (database + volume + trace).next_multiple_of(LINE);
        let mut drive = self.make(size, pages)?;
        drive.set_timing(false);
        let shared = Arc::new(Turnstile::new(drive));
        let port = |there: bool, first, pages, app| {
            there.then(|| {
                let port = Port::new(&shared, first, pages).for_app(AppId(app));
                if self.drive == Kind::Untold { port.without_discards() } else { port }
            })
        };
        let base = port(sqlite, 0, database, 0);
        let base = base.map(|port| self.database(inputs, port, database)).transpose()?;
        let files = port(files, database, volume, 1)
            .map(|port| Files::new(port, self.on, self.base, self.seed))
            .transpose()?;
        let mut store = port(store, database + volume, trace, 2);
        if let Some(port) = &mut store {
            inputs.store.prepare(port)?;
        }
        let start = shared.start(begin)?;
        let died = |_| failed("a tenant panicked");
        let (sqlite, files, store) = std::thread::scope(|scope| {
            let sqlite = base.map(|base| scope.spawn(move || self.sqlite(inputs, base, start)));
            let files = files.map(|files| scope.spawn(move || files.run(start, size.writes)));
            let store = store.map(|port| scope.spawn(move || inputs.store.run(port, start)));
            (
                sqlite.map(|t| t.join().map_err(died)),
                files.map(|t| t.join().map_err(died)),
                store.map(|t| t.join().map_err(died)),
            )
        });
        Ok(Measured {
            sqlite: sqlite.transpose()?.transpose()?,
            files: files.transpose()?.transpose()?,
            store: store.transpose()?.transpose()?,
            flash: shared.look(end)?,
        })
    }

    /// The database where it begins; each page of its part is written once.
    fn database(
        &self,
        inputs: &Inputs,
        mut port: Port<Drive>,
        pages: u32,
    ) -> Result<Database, LabError> {
        if self.records {
            let mut work = Ycsb::new(inputs.size.records, SEED);
            let logged = Logged::new(Box::new(port), pages, OVERLAY, |db| work.load(db))?;
            return Ok(Database::Logged(logged));
        }
        fill(&mut port, pages)?;
        Ok(Database::Files(port))
    }

    fn sqlite(&self, inputs: &Inputs, base: Database, start: Time) -> Result<Outcome, LabError> {
        let count = inputs.size.operations;
        let mut work = inputs.ycsb.clone();
        let port = match base {
            Database::Files(port) => port,
            Database::Logged(logged) => {
                logged.advance(start);
                let ran = logged.run(|db, each| {
                    work.run(db, ycsb::Workload::A, count, self.seed, each).map(|_| ())
                })?;
                return Ok(Outcome {
                    operations: ran.operations,
                    tally: ran.tally,
                    flash: Default::default(),
                    counted: Default::default(),
                    windows: Vec::new(),
                });
            }
        };
        // Rows of the list: write-ahead log, and counted commits of the drive's transactions.
        let variant: &Variant = if self.on.nolog { &FULL[2] } else { &FULL[0] };
        inputs.database.run(variant, Box::new(port), (start, CPU), &mut |db, each| {
            work.run(db, ycsb::Workload::A, count, self.seed, each).map(|_| ())
        })
    }
}

/// SQLite's part of the drive: as files, or as a store with a log, which is loaded.
enum Database {
    Files(Port<Drive>),
    Logged(Logged),
}

/// Writes each page once.
fn fill(port: &mut Port<Drive>, pages: u32) -> Result<(), LabError> {
    let mut at = Time::ZERO;
    for page in 0..u64::from(pages) {
        at = port.submit(at, Request::write(Lba(8 * page), Sectors(8))).map_err(failed)?;
    }
    Ok(())
}

/// From here on everything takes time and is counted.
fn begin(drive: &mut Drive) -> Result<Time, LabError> {
    drive.shutdown(drive.now()).map_err(failed)?;
    drive.set_timing(true);
    drive.reset_stats();
    Ok(drive.now())
}

/// What the drive has done, when everything is on flash and its books agree.
fn end(drive: &mut Drive) -> Result<Flash, LabError> {
    drive.shutdown(drive.now()).map_err(failed)?;
    drive
        .check()
        .map_err(|v| LabError::Check { contract: v.contract.to_string(), what: v.what })?;
    let stats = drive.stats();
    let hits = |app: usize| {
        let a = stats.apps.get(app).copied().unwrap_or_default();
        [(a.read_hits, a.read_units), (a.write_hits, a.write_units)]
    };
    let params = drive.params();
    let geometry = &params.geometry;
    // A mapping unit may be larger than a page.
    let pages = stats.slot_bytes / block::UNIT_BYTES;
    Ok(Flash {
        programs: stats.nand.programs.map(|slots| slots * pages),
        programmed: stats.programmed_bytes(),
        erases: stats.nand.erases,
        hits: [0, 1, 2].map(hits),
        flushed: stats.buffer.flushed,
        evicted: stats.buffer.dirty_evictions,
        block: u64::from(geometry.slots_per_block()),
        physical: u64::from(geometry.slots()),
        logical: u64::from(params.logical_pages),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Inputs {
        let size = Size {
            records: 300,
            operations: 200,
            files: 24 << 10,
            writes: 1500,
            sample: 256,
            buffer: 2,
        };
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");
        Inputs::new(size, Path::new(data)).unwrap()
    }

    fn cell(bits: usize) -> Cell {
        let tenants = Tenants { sqlite: true, files: true, store: true };
        Cell::new(Mechanisms::of(bits), tenants, Kind::Volatile, SEED)
    }

    fn run(inputs: &Inputs, bits: usize) -> Measured {
        cell(bits).run(inputs).unwrap()
    }

    /// The quick study has one of them alone.
    #[test]
    fn every_way_to_clean_is_one_that_the_drive_has() {
        let inputs = small();
        for lines in Lines::ALL {
            let made = Cell { lines, ..cell(0) }.make(inputs.size, 64 << 10);
            assert!(made.is_ok(), "{}: {:?}", lines.name(), made.err());
        }
    }

    #[test]
    fn however_threads_are_scheduled_a_run_gives_the_same() {
        let inputs = small();
        for bits in [0, 15] {
            let seen = [(); 3].map(|()| {
                let m = run(&inputs, bits);
                (m.flash.programs, m.flash.erases, m.p99(), m.elapsed(), m.flash.hits)
            });
            assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
        }
    }

    #[test]
    fn a_mechanism_does_what_it_is_about() {
        let inputs = small();
        let none = run(&inputs, 0);
        let all = run(&inputs, 15);
        // Write amplification: what flash took by what programs wrote, each layer in it once.
        for here in [&none, &all] {
            let client = block::UNIT_BYTES
                * (none.changed()
                    + here.files.as_ref().unwrap().user
                    + here.store.as_ref().unwrap().user);
            assert_eq!(here.programs() * block::UNIT_BYTES, here.flash.programmed);
            assert_eq!(here.amplification(none.changed()), (here.flash.programmed, client));
        }
        let of = |m: &Measured| m.files.as_ref().unwrap().layers;
        assert!(all.sqlite_sent() < none.sqlite_sent(), "nolog writes a page once");
        assert_eq!((all.changed(), of(&none).log_records), (0, 0));
        assert!(of(&all).log_records > 0, "the host log has headers");
        assert!(of(&none).cleanings > 0);
        let paper = Cell { base: Cleaning::Bl415, ..cell(0) }.run(&inputs).unwrap();
        assert!(of(&paper).checkpoints >= of(&paper).cleanings);
        assert!(of(&none).checkpoints < of(&paper).checkpoints);
        assert_eq!((of(&none).journal, of(&all).journal > 0), (0, true));
        assert_eq!(none.store.unwrap().user, all.store.unwrap().user);
    }
}
