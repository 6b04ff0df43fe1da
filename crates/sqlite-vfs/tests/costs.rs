//! What fixed loads cost a store: what is asked of its image, in order, and where. When a group ends, whether a record
//! or pages are written, when the device grows: none of that changes what a database holds, so no comparison of
//! contents notices when it becomes worse. Whoever changes a cost on purpose changes `costs.txt` with it; a failing test
//! prints the lines as they are now.

mod common;

use std::io;
use std::sync::{Arc, Mutex};

use block::{Bytes, Medium, Rng};
use common::cut::{Medium as _, Ram};
use common::{api, ask, open, unique};
use live::ImageDrive;
use rusqlite::{Connection, ErrorCode, params};
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores, Way};

const WANTED: &str = include_str!("costs.txt");

/// What a file was asked: how often, and all of it in order, without the contents.
#[derive(Clone, Copy, Default, Debug)]
struct Asked {
    reads: u64,
    writes: u64,
    bytes: u64,
    syncs: u64,
    all: u64,
}

impl Asked {
    /// One more of a row of numbers.
    fn fold(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.all = (self.all ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
    }
}

/// A file in memory.
#[derive(Default, Debug)]
struct Memory {
    bytes: Mutex<Vec<u8>>,
    told: Mutex<Asked>,
}

impl Medium for Memory {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let mut told = self.told.lock().unwrap();
        told.reads += 1;
        told.fold(&[1, at, out.len() as u64]);
        let bytes = self.bytes.lock().unwrap();
        let there = bytes.get(at as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut told = self.told.lock().unwrap();
        told.writes += 1;
        told.bytes += data.len() as u64;
        told.fold(&[2, at, data.len() as u64]);
        let (mut bytes, at) = (self.bytes.lock().unwrap(), at as usize);
        if bytes.len() < at + data.len() {
            bytes.resize(at + data.len(), 0);
        }
        bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        let mut told = self.told.lock().unwrap();
        told.syncs += 1;
        told.fold(&[3]);
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
}

/// What a store stands on.
#[derive(Clone, Copy)]
enum On {
    /// An image for so many KiB of data, with a log of so many, which may grow to so many of data.
    Image(u64, u64, u64),
    /// A device of pages, which holds so many of transactions.
    Pages(u32),
}

type Load = (On, &'static str, fn(&mut StoreOptions));

const SMALL: On = On::Image(4_096, 256, 4_096);
const PLAIN: On = On::Image(4_096, 0, 4_096);

const LOADS: &[Load] = &[
    (SMALL, "", |_| {}),
    (SMALL, "PRAGMA journal_mode=TRUNCATE; PRAGMA cache_size=8", |_| {}),
    (SMALL, "PRAGMA journal_mode=PERSIST; PRAGMA locking_mode=EXCLUSIVE", |_| {}),
    (SMALL, "PRAGMA journal_mode=MEMORY", |options| options.log_grain = 512),
    (SMALL, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=20", |_| {}),
    (SMALL, "PRAGMA synchronous=NORMAL; PRAGMA journal_mode=WAL", |_| {}),
    (SMALL, "PRAGMA synchronous=OFF", |_| {}),
    (SMALL, "PRAGMA cache_size=4", |options| options.overlay = 40),
    (SMALL, "PRAGMA locking_mode=EXCLUSIVE", |options| options.group = 50),
    (SMALL, "PRAGMA cache_size=8", |options| options.way = Way::JournalLife),
    (On::Image(4_096, 32, 4_096), "PRAGMA auto_vacuum=FULL", |options| options.log_grain = 512),
    (On::Image(1_280, 64, 8_192), "", |_| {}),
    (On::Image(1_536, 0, 8_192), "PRAGMA cache_size=8", |options| options.delta = false),
    // A database that does not fit.
    (On::Image(1_280, 64, 1_280), "", |_| {}),
    (On::Image(1_280, 64, 1_536), "PRAGMA journal_mode=WAL", |_| {}),
    (PLAIN, "PRAGMA journal_mode=PERSIST; PRAGMA cache_size=8", |options| options.delta = false),
    (PLAIN, "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=20", |options| {
        (options.checkpoint, options.delta) = (Checkpoint::Remap, false);
    }),
    (PLAIN, "PRAGMA journal_mode=WAL; PRAGMA cache_size=8", |options| {
        (options.way, options.group) = (Way::JournalLife, 40);
    }),
    (On::Pages(10_000), "", |options| options.log_pages = Some(24)),
    (On::Pages(28), "PRAGMA cache_size=8", |options| options.log_pages = Some(8)),
    (On::Pages(28), "PRAGMA cache_size=8; PRAGMA journal_mode=WAL", |_| {}),
    (On::Pages(28), "PRAGMA cache_size=8; PRAGMA journal_mode=PERSIST", |options| {
        options.way = Way::JournalLife;
    }),
];

/// A store of a load, its connection, and a second one.
struct Rig {
    stores: Stores,
    vfs: String,
    file: Arc<Memory>,
    pages: Option<Ram>,
    options: StoreOptions,
    pragmas: &'static str,
    rng: Rng,
}

const STORE: &str = "of-a-load";
const TABLE: &str = "CREATE TABLE IF NOT EXISTS t(k INTEGER PRIMARY KEY, n INT, pad); \
                     CREATE INDEX IF NOT EXISTS i ON t(n)";

impl Rig {
    fn new(seed: u64, (on, pragmas, change): Load) -> (Rig, Store) {
        let mut options = StoreOptions::default();
        change(&mut options);
        let (stores, vfs) = (Stores::new(), unique("costs"));
        stores.register(&api(), &vfs, false, None).unwrap();
        let mut rig = Rig {
            stores,
            vfs,
            file: Arc::default(),
            pages: None,
            options,
            pragmas,
            rng: Rng::stream(seed, "costs"),
        };
        let store = match on {
            On::Image(data, log, limit) => {
                let [data, log, limit] = [data, log, limit].map(|kib| Bytes(kib << 10));
                let file = Arc::clone(&rig.file) as _;
                let drive = ImageDrive::create_on_to_grow(file, data, log, limit).unwrap();
                Store::format_image(drive, options).unwrap()
            }
            On::Pages(held) => {
                let mut medium = Ram::blank();
                medium.hold(held);
                let blank = medium.image();
                medium.restore(&blank);
                let store = Store::format(medium.power_on(), options).unwrap();
                rig.pages = Some(medium);
                store
            }
        };
        rig.stores.add(STORE, &store);
        (rig, store)
    }

    fn connect(&self) -> Connection {
        let db = open(STORE, &self.vfs).unwrap();
        db.execute_batch(self.pragmas).unwrap();
        db
    }

    /// The process ends now: what another finds in the image.
    fn killed(&mut self, store: Store, db: Connection) -> Store {
        let left = match &mut self.pages {
            None => Ok(self.file.bytes.lock().unwrap().clone()),
            Some(medium) => Err(medium.image()),
        };
        drop(db);
        self.stores.remove(STORE);
        drop(store);
        let store = match left {
            Ok(bytes) => {
                let told = Mutex::new(*self.file.told.lock().unwrap());
                self.file = Arc::new(Memory { bytes: Mutex::new(bytes), told });
                let drive = ImageDrive::open_on(Arc::clone(&self.file) as _).unwrap();
                Store::mount_image(drive, self.options).unwrap()
            }
            Err(pages) => {
                let medium = self.pages.as_mut().expect("a device of pages");
                medium.restore(&pages);
                Store::mount(medium.power_on(), self.options).unwrap()
            }
        };
        self.stores.add(STORE, &store);
        store
    }

    /// What the store says of itself, but for what never happened, and what was asked of its image.
    fn costs(&self, store: &Store) -> String {
        let said = format!("{:?}", store.stats());
        let said = said.trim_matches(|c: char| !"{}".contains(c)).trim_matches(['{', '}', ' ']);
        let said: Vec<&str> = said.split(", ").filter(|part| !part.ends_with(": 0")).collect();
        let asked = match &self.pages {
            None => {
                let Asked { reads, writes, bytes, syncs, all } = *self.file.told.lock().unwrap();
                format!(
                    "{reads} reads, {writes} writes of {bytes} bytes, {syncs} syncs, {all:016x}"
                )
            }
            Some(medium) => format!("{} operations", medium.power().lock().unwrap().operations),
        };
        format!("{}; {asked}", said.join(", "))
    }

    /// Rows that take some hundred KiB, in one transaction; `false` where the store is full.
    fn fill(&mut self, db: &Connection) -> bool {
        let all = |rig: &mut Rig| -> rusqlite::Result<()> {
            db.execute_batch("BEGIN")?;
            for _ in 0..120 {
                let (key, blob) = (rig.rng.below(600) as i64, rig.blob(5_000));
                db.execute("REPLACE INTO t VALUES(?, 0, ?)", params![key, blob])?;
            }
            db.execute_batch("COMMIT")
        };
        done(db, all(self))
    }

    fn blob(&mut self, most: u64) -> Vec<u8> {
        let length = self.rng.between(1, most) as usize;
        let words = (0..length.div_ceil(8)).flat_map(|_| self.rng.next_u64().to_le_bytes());
        words.take(length).collect()
    }

    /// One statement; `false` where the store is full.
    fn step(&mut self, db: &Connection, other: &Connection) -> bool {
        let [key, other_key] = [0; 2].map(|_| self.rng.below(600) as i64);
        let answer = match self.rng.below(24) {
            0..10 => {
                let blob = self.blob(200);
                db.execute("UPDATE t SET n = n + 1, pad = ? WHERE k = ?", params![blob, key])
                    .map(drop)
            }
            10..14 => {
                let blob = self.blob(5_000);
                db.execute("REPLACE INTO t VALUES(?, ?, ?)", params![key, other_key, blob])
                    .map(drop)
            }
            14 => {
                db.execute("DELETE FROM t WHERE k BETWEEN ? AND ? + 9", params![key, key]).map(drop)
            }
            15 => {
                let sql = "BEGIN; UPDATE t SET n = n + 7 WHERE k % 3 = 0; SAVEPOINT s; \
                           DELETE FROM t WHERE k % 2 = 1; ROLLBACK TO s; COMMIT";
                db.execute_batch(sql)
            }
            16 => db.execute_batch("BEGIN; DELETE FROM t; INSERT INTO t VALUES(1, 2, 3); ROLLBACK"),
            17 => {
                db.execute("UPDATE t SET pad = pad || x'00' WHERE n % 5 = ?", [key % 5]).map(drop)
            }
            18 => {
                db.execute_batch("CREATE TABLE IF NOT EXISTS u(a, b); INSERT INTO u VALUES(1, 2)")
            }
            19 => db.execute_batch("DROP TABLE IF EXISTS u"),
            20 => db.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())),
            21 if !self.pragmas.contains("EXCLUSIVE") => {
                other.query_row("SELECT sum(n) FROM t", [], |_| Ok(()))
            }
            22 if self.rng.ratio(1, 6) => db.execute_batch("VACUUM"),
            _ => db
                .execute("INSERT INTO t SELECT max(k) + 1, 0, ? FROM t", params![vec![7u8; 900]])
                .map(drop),
        };
        done(db, answer)
    }
}

/// Whether a statement went well, where it may find no room.
fn done(db: &Connection, answer: rusqlite::Result<()>) -> bool {
    if let Err(error) = &answer {
        let _ = db.execute_batch("ROLLBACK");
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
    }
    answer.is_ok()
}

/// A load, the end of the process in the middle of it, and a clean stop.
fn run(seed: u64, load: Load) -> Vec<String> {
    let (mut rig, mut store) = Rig::new(seed, load);
    let (mut db, mut other) = (rig.connect(), open(STORE, &rig.vfs).unwrap());
    db.execute_batch(TABLE).unwrap();
    let (mut found, mut full) = (Vec::new(), 0);
    for step in 0..400 {
        if step % 130 == 20 {
            full += u64::from(!rig.fill(&db));
        }
        full += u64::from(!rig.step(&db, &other));
        if step == 250 {
            found.push(format!("{seed} {}: {}", load.1, rig.costs(&store)));
            drop(other);
            store = rig.killed(store, db);
            (db, other) = (rig.connect(), open(STORE, &rig.vfs).unwrap());
            found.push(format!("{seed}, mounted: {}", rig.costs(&store)));
            // Where nothing is durable, nothing may be left.
            db.execute_batch(TABLE).unwrap();
        }
    }
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok", "{seed}");
    let sum = ask(&db, "SELECT sum(k * (n + length(pad))) FROM t");
    drop((db, other));
    store.flush().unwrap();
    found.push(format!("{seed}, at the end: {}, {full} full, sum {sum}", rig.costs(&store)));
    rig.stores.remove(STORE);
    found
}

#[test]
fn a_fixed_load_costs_what_it_did() {
    let found: Vec<String> = (0..).zip(LOADS).flat_map(|(seed, load)| run(seed, *load)).collect();
    println!("{}", found.join("\n"));
    for (found, wanted) in found.iter().zip(WANTED.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), WANTED.lines().count());
}
