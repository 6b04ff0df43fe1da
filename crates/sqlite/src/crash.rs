//! Power cuts below a store in an image file, with SQL above: what was acknowledged is there.
//!
//! Invariants:
//! * the image is read and never written: what a run writes lies in memory above it;
//! * what must be there after a cut is said by stock SQLite, which has run the same statements over
//!   files of its own, not by the store;
//! * a cut is one number: the write to the image, or sync of it, that never happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use block::Rng;
use block::{Medium, Plant};
use lab::LabError;
use live::{CutMedium, FileMedium, ImageDrive, LiveError, Planted};
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection};
use varve_sqlite_vfs::{Counter, Store, StoreOptions};

use crate::files::{Memory, Settings, Stage, Synchronous};
use crate::image::{Served, check_drive, check_store, unusable};
use crate::transfer;

const SECTOR: u64 = 512;
const NAME: &str = "crash";

/// SQL for whoever brings none: rows come, change and go, and each transaction leaves its number.
pub fn workload() -> String {
    let mut sql = "CREATE TABLE varve_check (id INTEGER PRIMARY KEY, round INT, pad BLOB);
CREATE INDEX varve_check_round ON varve_check (round);\n"
        .to_string();
    for round in 1..=24u32 {
        sql += &format!(
            "BEGIN; INSERT INTO varve_check (round, pad) VALUES ({round}, zeroblob({})); \
             UPDATE varve_check SET round = {round} WHERE id % 3 = {}; \
             DELETE FROM varve_check WHERE id = {}; COMMIT;\n",
            400 * (round % 7) + 90,
            round % 3,
            round / 2,
        );
    }
    sql
}

/// What is written above a medium that stays as it is.
#[derive(Debug)]
struct Overlay {
    base: Arc<FileMedium>,
    /// Bytes of the base; what is behind them is zero.
    end: u64,
    written: Mutex<BTreeMap<u64, [u8; SECTOR as usize]>>,
}

impl Overlay {
    fn new(base: &Arc<FileMedium>) -> io::Result<Arc<Overlay>> {
        let end = base.size()?;
        Ok(Arc::new(Overlay { base: Arc::clone(base), end, written: Mutex::default() }))
    }
}

impl Medium for Overlay {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.end.saturating_sub(at).min(out.len() as u64) as usize;
        self.base.read(at, &mut out[..there])?;
        out[there..].fill(0);
        let end = at + out.len() as u64;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, bytes) in written.range(at / SECTOR..end.div_ceil(SECTOR)) {
            let start = number * SECTOR;
            let (from, to) = (start.max(at), (start + SECTOR).min(end));
            out[(from - at) as usize..(to - at) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        for number in at / SECTOR..end.div_ceil(SECTOR) {
            let start = number * SECTOR;
            let (from, to) = (start.max(at), (start + SECTOR).min(end));
            let mut sector = [0; SECTOR as usize];
            if to - from < SECTOR {
                self.read(start, &mut sector)?;
            }
            sector[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.insert(number, sector);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts writes and syncs on their way.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Medium>,
    calls: Mutex<u64>,
}

impl Counting {
    fn step(&self) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

impl Medium for Counting {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.step();
        self.inner.write(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.step();
        self.inner.sync()
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cuts to make; all there are if fewer.
    pub cuts: u64,
    /// Draws which cuts, and what each leaves of what was not synced.
    pub seed: u64,
    /// Only this cut.
    pub only: Option<u64>,
    /// The SQL. It must do the same each time.
    pub workload: String,
    /// The command that repeats one cut, up to its number.
    pub again: String,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Cuts made.
    pub cuts: u64,
    /// Writes and syncs of the whole run: as many cuts are possible.
    pub calls: u64,
    /// Points between transactions.
    pub commits: u64,
    /// Cuts after which a transaction was there whose commit had not returned.
    pub beyond: u64,
    /// Whether the SQL gave up durability: then acknowledged commits may be missing at the end.
    pub relaxed: bool,
}

/// Runs statement by statement; `each` is told after every one that leaves no transaction open.
fn run(
    db: &Connection,
    sql: &str,
    each: &mut dyn FnMut(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut batch = Batch::new(db, sql);
    while let Some(mut statement) = batch.next()? {
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
        drop(rows);
        drop(statement);
        if db.is_autocommit() {
            each(db)?;
        }
    }
    Ok(())
}

/// A digest of what a database says: its schema, and the rows of its tables in their order.
fn digest(db: &Connection) -> rusqlite::Result<u64> {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0xFF]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    };
    let mut select = db.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name")?;
    let schema: Vec<(String, String, Option<String>)> = select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    for (kind, name, sql) in schema {
        let sql = sql.unwrap_or_default();
        feed(name.as_bytes());
        feed(sql.as_bytes());
        let made = sql.get(..14).is_some_and(|start| start.eq_ignore_ascii_case("CREATE VIRTUAL"));
        if kind != "table" || made {
            continue;
        }
        let quoted = name.replace('"', "\"\"");
        let mut rows = db.prepare(&format!("SELECT * FROM \"{quoted}\""))?;
        let columns = rows.column_count();
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                use rusqlite::types::ValueRef::{Blob, Integer, Null, Real, Text};
                match row.get_ref(column)? {
                    Null => feed(b"n"),
                    Integer(n) => feed(&n.to_le_bytes()),
                    Real(x) => feed(&x.to_bits().to_be_bytes()),
                    Text(bytes) | Blob(bytes) => feed(bytes),
                }
            }
        }
    }
    Ok(hash)
}

/// Stock SQLite over a copy of the database: what it says at first and after each commit.
fn expected(start: &Memory, sql: &str) -> Result<Vec<u64>, LabError> {
    let wrong = |error: rusqlite::Error| LabError::Input(format!("the workload: {error}"));
    let (_stage, db) = stock(&start.fork())?;
    let mut states = vec![digest(&db).map_err(wrong)?];
    run(&db, sql, &mut |db| {
        states.push(digest(db)?);
        Ok(())
    })
    .map_err(wrong)?;
    if !db.is_autocommit() {
        return Err(LabError::Input("the workload ends inside a transaction".to_string()));
    }
    Ok(states)
}

/// Stock SQLite over files in memory.
fn stock(files: &Memory) -> Result<(Stage, Connection), LabError> {
    let failed = |error: crate::files::StageError| LabError::Failed(error.to_string());
    let stage = Stage::new(files, Arc::new(Counter::default())).map_err(failed)?;
    let settings = Settings::new("delete", Synchronous::Full);
    let db = stage.open("main", &settings).map_err(failed)?;
    Ok((stage, db))
}

/// What the database of a store holds before anything is done to it, in files for stock SQLite.
fn start(db: &Connection) -> Result<Memory, LabError> {
    let files = Memory::new(1);
    let pages: u64 = db
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .map_err(|error| LabError::Input(format!("the store: {error}")))?;
    if pages > 0 {
        let (_stage, mut copy) = stock(&files)?;
        transfer::copy((db, "the store"), (&mut copy, "a copy in memory"))?;
    }
    Ok(files)
}

fn mount(medium: Arc<dyn Medium>, planted: Plant<Planted>) -> Result<Served, LabError> {
    let drive = ImageDrive::open_with(medium, planted).map_err(unusable)?;
    serve(drive)
}

fn serve(drive: ImageDrive) -> Result<Served, LabError> {
    let store = Store::mount_image(drive, StoreOptions::default())
        .map_err(|error| LabError::Input(error.to_string()))?;
    Served::new(&format!("{NAME}-{:?}", std::thread::current().id()), store)
}

/// Cuts the power below the store of an image.
///
/// # Errors
/// An image or SQL that cannot be used; [`LabError::Check`] for a promise that does not hold, with
/// the command that repeats it.
pub fn check(image: &Path, plan: &Plan) -> Result<Report, LabError> {
    check_with(image, plan, Plant::default())
}

/// The same with a planted bug, to know that the alarm works.
#[doc(hidden)]
pub fn check_with(image: &Path, plan: &Plan, planted: Plant<Planted>) -> Result<Report, LabError> {
    let file = File::open(image).map_err(|e| LabError::io(image, e))?;
    // Whoever has the image open holds its lock alone.
    if file.try_lock_shared().is_err() {
        return Err(unusable(LiveError::in_use(image, &file)));
    }
    let base = Arc::new(FileMedium(file));
    let wrong = |error: rusqlite::Error| LabError::Input(format!("the workload: {error}"));

    let overlay = || Overlay::new(&base).map_err(|e| LabError::io(image, e));

    // The whole run without a cut: how many there can be, and whether all goes as with SQLite.
    let counting = Arc::new(Counting { inner: overlay()?, calls: Mutex::default() });
    let served = mount(Arc::clone(&counting) as _, planted)?;
    let db = served.open("main")?;
    let start = start(&db)?;
    let states = expected(&start, &plan.workload)?;
    let mut found = vec![digest(&db).map_err(wrong)?];
    run(&db, &plan.workload, &mut |db| {
        found.push(digest(db)?);
        Ok(())
    })
    .map_err(wrong)?;
    if found != states {
        let again = expected(&start, &plan.workload)?;
        return Err(match again == states {
            true => broken("the store gives other rows than SQLite without it", plan, None),
            false => LabError::Input(
                "the workload gives other rows each time: expected the same".to_string(),
            ),
        });
    }
    let level: u64 = db.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(wrong)?;
    let group: String = db.query_row("PRAGMA varve_group", [], |row| row.get(0)).map_err(wrong)?;
    let relaxed = level == 0 || group != "0";
    drop(db);
    drop(served);
    let calls = *counting.calls.lock().unwrap_or_else(PoisonError::into_inner);
    if states.windows(2).all(|two| two[0] == two[1]) {
        let what = "the workload changes nothing: expected one that commits something";
        return Err(LabError::Input(what.to_string()));
    }

    if let Some(at) = plan.only.filter(|at| *at > calls) {
        let what = format!("no cut {at}: the workload has {calls} writes and syncs of the image");
        return Err(LabError::Input(what));
    }

    let mut report =
        Report { cuts: 0, calls, commits: states.len() as u64 - 1, beyond: 0, relaxed };
    for at in cuts(plan, calls) {
        let left = overlay()?;
        let cut = Arc::new(CutMedium::new(Arc::clone(&left) as _, plan.seed ^ at << 16));
        cut.cut_after(at);
        let mut acknowledged = 0;
        if let Ok(served) = mount(cut, planted)
            && let Ok(db) = served.open("main")
        {
            // Where the power goes, the statement fails: how is not looked at.
            let _ = run(&db, &plan.workload, &mut |_| {
                acknowledged += 1;
                Ok(())
            });
        }
        report.cuts += 1;
        report.beyond +=
            u64::from(judge(left, planted, &states, acknowledged, relaxed).map_err(|error| {
                let what = match error {
                    LabError::Check { what, .. } => what,
                    other => other.to_string(),
                };
                broken(&what, plan, Some(at))
            })?);
    }
    Ok(report)
}

fn broken(what: &str, plan: &Plan, at: Option<u64>) -> LabError {
    let again = at.map_or(String::new(), |at| {
        format!("; cut at write or sync {at}; again: {} --seed {} --at {at}", plan.again, plan.seed)
    });
    LabError::Check { contract: "C4".to_string(), what: format!("{what}{again}") }
}

/// Which cuts.
fn cuts(plan: &Plan, calls: u64) -> Vec<u64> {
    if let Some(at) = plan.only {
        return vec![at];
    }
    if calls <= plan.cuts {
        return (1..=calls).collect();
    }
    let mut rng = Rng::stream(plan.seed, "sqlite/crash");
    let mut drawn = std::collections::BTreeSet::new();
    while (drawn.len() as u64) < plan.cuts {
        drawn.insert(rng.between(1, calls));
    }
    drawn.into_iter().collect()
}

/// What the next power-on finds; whether a transaction is there that was not acknowledged.
fn judge(
    left: Arc<Overlay>,
    planted: Plant<Planted>,
    states: &[u64],
    acknowledged: usize,
    relaxed: bool,
) -> Result<bool, LabError> {
    let mut drive = ImageDrive::open_with(left, planted).map_err(unusable)?;
    check_drive(&mut drive)?;
    let served = serve(drive)?;
    check_store(&served)?;
    let db = served.open("main")?;
    let found = digest(&db).map_err(|error| LabError::Failed(error.to_string()))?;
    if states[acknowledged] == found {
        return Ok(false);
    }
    if states.get(acknowledged + 1) == Some(&found) {
        return Ok(true);
    }
    match states.iter().position(|state| *state == found) {
        Some(at) if relaxed && at < acknowledged => Ok(false),
        Some(at) => Err(broken_state(&format!(
            "{acknowledged} commits were acknowledged, found the state after {at}"
        ))),
        None => Err(broken_state(&format!(
            "{acknowledged} commits were acknowledged, found rows that were never committed so"
        ))),
    }
}

fn broken_state(what: &str) -> LabError {
    LabError::Check { contract: "C4".to_string(), what: what.to_string() }
}
