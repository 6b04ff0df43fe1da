//! The crash harness: a workload of transfers, a spilling transaction, ROLLBACK, ROLLBACK TO and
//! DELETE; the power is cut at one operation after the other; then reopen, and check integrity, the
//! sum, every acknowledged commit, at most one more, and that two databases agree.

use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::Connection;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Checkpoint, Device, Stats, Store, StoreOptions, Stores, Way};

use super::cut::Medium;
use super::{api, ask, open, unique};

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub journal: &'static str,
    pub locking: &'static str,
    pub sync: &'static str,
    pub way: Way,
    pub batch: bool,
    pub two: bool,
    pub group: u64,
    pub checkpoint: Checkpoint,
    /// One I/O error instead of a power cut.
    pub once: bool,
    /// Pages the device keeps for open transactions.
    pub pages: u32,
    pub bug: Option<Bug>,
    pub cache: u32,
    /// Instead of the device, a journal fails, at every write to one.
    pub journal_faults: bool,
    /// The file grows with every step.
    pub grows: bool,
    /// The file shrinks with its contents.
    pub vacuum: bool,
    /// Commits are records in a log, of so many pages where the device has none; 0: no records.
    pub log: u32,
    pub grain: u32,
    /// Many small steps, none of which is too large for a small log.
    pub small: bool,
}

pub const PLAIN: Case = Case {
    journal: "DELETE",
    locking: "NORMAL",
    sync: "FULL",
    way: Way::Controls,
    batch: false,
    two: false,
    group: 0,
    checkpoint: Checkpoint::Copy,
    once: false,
    pages: 10_000,
    bug: None,
    cache: 8,
    journal_faults: false,
    grows: false,
    vacuum: false,
    log: 0,
    grain: 4096,
    small: false,
};

impl Case {
    /// Steps of the workload.
    pub fn steps(&self) -> i64 {
        if self.small { 4 * STEPS } else { STEPS }
    }

    /// What is done before step `k`, and more that the step does.
    fn parts(&self, k: i64) -> (&'static str, String) {
        let aside = match k {
            _ if self.small && k % 5 == 3 => {
                "BEGIN; UPDATE a SET b = b + 1000, pad = randomblob(900) WHERE id < 4; ROLLBACK;"
            }
            _ if self.small => "",
            3 => "BEGIN; UPDATE a SET b = b + 1000, pad = randomblob(900); ROLLBACK;",
            5 => {
                "BEGIN; SAVEPOINT s; UPDATE a SET b = b - 5, pad = randomblob(900); \
                 ROLLBACK TO s; UPDATE a SET pad = randomblob(901) WHERE id % 7 = 0; COMMIT;"
            }
            _ => "",
        };
        let more = match k {
            _ if self.grows => "INSERT INTO a SELECT NULL, 0, randomblob(900) FROM a LIMIT 12;",
            _ if self.small && k % 3 == 0 => {
                "UPDATE a SET pad = randomblob(900) WHERE id BETWEEN 3 AND 5;"
            }
            _ if self.small => "",
            2 => "DELETE FROM a WHERE id > 90;",
            4 => "UPDATE a SET pad = randomblob(950);",
            6 => "INSERT INTO a SELECT id + 1000, 0, randomblob(900) FROM a WHERE id <= 40;",
            _ => "",
        };
        (aside, more.to_string())
    }

    /// Acknowledged commits may be missing at the end, as was asked for.
    pub fn lazy(&self) -> bool {
        self.group > 0 || self.sync == "OFF" || (self.sync == "NORMAL" && self.journal == "WAL")
    }
}

#[derive(Default, Debug)]
pub struct Outcome {
    pub operations: u64,
    pub cuts: u64,
    pub bad: Vec<String>,
    pub stats: Stats,
}

const CREATE: &str = "CREATE TABLE a(id INTEGER PRIMARY KEY, b INT, pad BLOB);
    CREATE TABLE c(v INT); INSERT INTO c VALUES(0);
    WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 100)
    INSERT INTO a SELECT i, CASE WHEN i > 90 THEN 0 ELSE 100 END, randomblob(900) FROM x;";
pub const STEPS: i64 = 6;
const SUM: &str = "9000";

/// Runs cases against one VFS.
pub struct Harness {
    vfs: String,
    pub stores: Stores,
}

impl Harness {
    pub fn new() -> Harness {
        let (vfs, stores) = (unique("crash"), Stores::new());
        stores.register(&api(), &vfs, false, None).unwrap();
        Harness { vfs, stores }
    }

    pub fn mount(&self, device: Box<dyn Device>, name: &str, case: &Case) -> Result<Store, String> {
        let options = StoreOptions {
            way: case.way,
            group: case.group,
            checkpoint: case.checkpoint,
            delta: case.log > 0,
            log_grain: case.grain,
            bug: case.bug.filter(|bug| bug.is_of_power_on()).into(),
            ..StoreOptions::default()
        };
        let store = Store::mount(device, options).map_err(|e| e.to_string())?;
        self.stores.add(name, &store);
        Ok(store)
    }

    pub fn open(&self, name: &str, case: &Case) -> rusqlite::Result<Connection> {
        let batch = u8::from(case.batch);
        let db = open(&format!("file:{name}?batch={batch}"), &self.vfs)?;
        let set = |schema: &str| {
            format!(
                "PRAGMA {schema}locking_mode={}; PRAGMA {schema}journal_mode={}; \
                 PRAGMA {schema}synchronous={}; PRAGMA {schema}cache_size={}; \
                 PRAGMA {schema}wal_autocheckpoint=20;",
                case.locking, case.journal, case.sync, case.cache
            )
        };
        db.execute_batch(&set(""))?;
        if case.two {
            db.execute_batch(&format!("ATTACH 'file:{name}/two.db?batch={batch}' AS q;"))?;
            db.execute_batch(&set("q."))?;
        }
        Ok(db)
    }

    /// One run to the cut or to its end; the last acknowledged step.
    /// `said` is told of each as it happens.
    pub fn work(db: &Connection, case: &Case, said: &AtomicI64) -> i64 {
        let mut acknowledged = 0;
        for k in 1..=case.steps() {
            let (aside, more) = case.parts(k);
            if db.execute_batch(aside).is_err() {
                let _ = db.execute_batch("ROLLBACK");
                if !case.once && !case.journal_faults {
                    return acknowledged;
                }
            }
            let other = if case.two { format!("UPDATE q.c SET v = {k};") } else { String::new() };
            let step = format!(
                "BEGIN; UPDATE a SET b = b - 10 WHERE id = {}; UPDATE a SET b = b + 10 WHERE id = {};
                 UPDATE c SET v = {k}; {more} {other} COMMIT;",
                k * 7 % 40 + 1,
                k * 11 % 40 + 41
            );
            match db.execute_batch(&step) {
                Ok(()) => {
                    acknowledged = k;
                    said.store(k, Ordering::SeqCst);
                }
                Err(_) => {
                    let _ = db.execute_batch("ROLLBACK");
                    // What is acknowledged after an error that passes must be there as well.
                    if !case.once {
                        return acknowledged;
                    }
                }
            }
        }
        acknowledged
    }

    /// Makes the databases of a case on a new store.
    pub fn prepare(&self, device: Box<dyn Device>, name: &str, case: &Case) -> Store {
        let options = StoreOptions { log_pages: Some(case.log), ..StoreOptions::default() };
        let store = Store::format(device, options).unwrap();
        self.stores.add(name, &store);
        let plain = Case { batch: false, bug: None, pages: 10_000, ..*case };
        let db = self.open(name, &plain).unwrap();
        if case.vacuum {
            db.execute_batch("PRAGMA auto_vacuum=FULL; VACUUM").unwrap();
        }
        db.execute_batch(CREATE).unwrap();
        if case.two {
            db.execute_batch("CREATE TABLE q.c(v INT); INSERT INTO q.c VALUES(0)").unwrap();
        }
        drop(db);
        store.flush().unwrap();
        self.stores.remove(name);
        store
    }

    /// Cuts at every `stride`-th operation, or reports what went wrong.
    pub fn run<M: Medium>(&self, case: Case, stride: u64) -> Outcome {
        let mut medium = M::blank();
        medium.hold(10_000);
        let name = unique("store");
        drop(self.prepare(medium.power_on(), &name, &case));
        let start = medium.image();
        medium.hold(case.pages);
        let mut outcome = Outcome::default();
        let mut cut = 0;
        loop {
            medium.restore(&start);
            let acknowledged = {
                let store = self.mount(medium.power_on(), &name, &case).unwrap();
                let db = self.open(&name, &case).unwrap();
                assert_eq!(ask(&db, "SELECT count(*) FROM a"), "100");
                if let Some(bug) = case.bug {
                    store.plant(bug.into());
                }
                {
                    let power = medium.power();
                    let mut power = power.lock().unwrap();
                    let device = if case.journal_faults { 0 } else { cut };
                    (power.operations, power.cut_at, power.once) = (0, device, case.once);
                }
                let before = store.stats().journal_writes;
                if case.journal_faults && cut > 0 {
                    store.fail_journal_write(cut);
                }
                let acknowledged = Harness::work(&db, &case, &AtomicI64::new(0));
                if cut == 0 {
                    outcome.operations = medium.power().lock().unwrap().operations;
                    outcome.stats = store.stats();
                    if case.journal_faults {
                        outcome.operations = outcome.stats.journal_writes - before;
                    }
                    assert!(case.bug.is_some() || acknowledged == case.steps(), "{case:?}");
                }
                if !case.once && !case.journal_faults {
                    // The power is off before the connection is closed, or closing would commit.
                    let _ = medium.image();
                }
                drop(db);
                self.stores.remove(&name);
                acknowledged
            };
            outcome.cuts += 1;
            if let Err(why) = self.check(&mut medium, &name, &case, acknowledged) {
                outcome.bad.push(format!("cut {cut} acknowledged {acknowledged}: {why}"));
            }
            self.stores.remove(&name);
            cut += if cut == 0 { 1 } else { stride };
            if cut > outcome.operations {
                return outcome;
            }
        }
    }

    fn check(
        &self,
        medium: &mut impl Medium,
        name: &str,
        case: &Case,
        acknowledged: i64,
    ) -> Result<(), String> {
        let bug = case.bug.filter(|bug| bug.is_of_power_on());
        let case = &Case { pages: 10_000, bug, ..*case };
        let _store = self.mount(medium.power_on(), name, case)?;
        let db = self.open(name, case).map_err(|e| e.to_string())?;
        let floor = if case.lazy() { 0 } else { acknowledged };
        Harness::look(&db, case, floor, acknowledged + 1).map(|_| ())
    }

    /// Integrity, the sum, and as many steps as were acknowledged, or one more; how many.
    pub fn look(db: &Connection, case: &Case, floor: i64, ceiling: i64) -> Result<i64, String> {
        let schemas: &[&str] = if case.two { &["main", "q"] } else { &["main"] };
        for schema in schemas {
            let found = ask(db, &format!("PRAGMA {schema}.integrity_check"));
            if found != "ok" {
                return Err(format!("{schema}: {}", found.lines().next().unwrap_or("")));
            }
        }
        let sum = ask(db, "SELECT sum(b) FROM a");
        if sum != SUM {
            return Err(format!("sum {sum}"));
        }
        let there: i64 = ask(db, "SELECT v FROM c").parse().map_err(|_| "no counter")?;
        if there < floor {
            return Err(format!("the acknowledged commit {floor} is lost: {there}"));
        }
        if there > ceiling {
            return Err(format!("{there} is ahead of {ceiling}"));
        }
        if case.two {
            let other = ask(db, "SELECT v FROM q.c");
            if other != there.to_string() {
                return Err(format!("split: {there} and {other}"));
            }
        }
        Ok(there)
    }
}
