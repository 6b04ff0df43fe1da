//! Commits of several connections at the same time, which share a flush: under power cuts at every write and sync of the
//! image (a sample, `VARVE_CUTS=all` for all), with an error in the log, and beside connections that go on to read.

#[path = "../common/mod.rs"]
mod common;
mod cuts;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use block::Bytes;
use common::cut::Medium;
use common::image::{Image, Meanwhile};
use common::{api, ask, open, unique};
use rusqlite::Connection;
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

const WRITERS: usize = 4;

/// An image with a store, and the connections to it.
struct Rig {
    vfs: String,
    name: String,
    stores: Stores,
    medium: Image,
    store: Option<Store>,
}

impl Rig {
    fn new(log: Bytes) -> Rig {
        let (vfs, name, stores) = (unique("vfs"), unique("store"), Stores::new());
        stores.register(&api(), &vfs, false, None).unwrap();
        let mut medium = Image::sized(Bytes(10 << 20), log);
        let store = Store::format(medium.power_on(), StoreOptions::default()).unwrap();
        stores.add(&name, &store);
        Rig { vfs, name, stores, medium, store: Some(store) }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn open(&self, object: &str) -> Connection {
        connect(&format!("{}{object}", self.name), &self.vfs)
    }

    /// The power goes, and comes back.
    fn again(&mut self, bug: Option<Bug>) -> Result<(), String> {
        let _ = self.medium.image();
        self.stores.remove(&self.name);
        self.store = None;
        let options = StoreOptions::default();
        let store = Store::mount(self.medium.power_on(), options).map_err(|e| e.to_string())?;
        if let Some(bug) = bug {
            store.plant(bug.into());
        }
        self.stores.add(&self.name, &store);
        self.store = Some(store);
        Ok(())
    }
}

fn connect(path: &str, vfs: &str) -> Connection {
    let db = open(path, vfs).unwrap();
    db.busy_timeout(Duration::from_secs(20)).unwrap();
    db
}

/// Holds a write to the log back until so many commits are in the store's log, or a few seconds.
#[derive(Clone, Default)]
struct Gate {
    store: Arc<Mutex<Option<Store>>>,
    wanted: Arc<AtomicU64>,
}

impl Gate {
    fn meanwhile(&self) -> Meanwhile {
        let gate = self.clone();
        Meanwhile::new(move || {
            let store = gate.store.lock().unwrap().clone();
            let start = Instant::now();
            while let Some(store) = &store
                && store.stats().logged < gate.wanted.load(Ordering::SeqCst)
                && start.elapsed() < Duration::from_secs(20)
            {
                thread::yield_now();
            }
        })
    }
}

/// A rig whose writes to the log can be held back.
fn gated() -> (Rig, Gate) {
    let (mut rig, gate) = (Rig::new(Bytes(1 << 20)), Gate::default());
    rig.medium.meanwhile = gate.meanwhile();
    rig.again(None).unwrap();
    let db = rig.open("");
    db.execute_batch(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, v INT, pad BLOB); CREATE TABLE c(v INT); INSERT INTO c VALUES(0);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
         INSERT INTO t SELECT i, 0, zeroblob(2000) FROM n",
    )
    .unwrap();
    for writer in 0..WRITERS {
        let db = rig.open(&format!("/own{writer}"));
        db.execute_batch("CREATE TABLE c(v INT); INSERT INTO c VALUES(0)").unwrap();
    }
    *gate.store.lock().unwrap() = Some(rig.store().clone());
    (rig, gate)
}

/// While one flush is on its way all others commit: they share the next one.
#[test]
fn commits_of_a_moment_share_a_flush() {
    for apart in [false, true] {
        let (rig, gate) = gated();
        let dbs: Vec<Connection> = (0..WRITERS)
            .map(|who| rig.open(&if apart { format!("/own{who}") } else { String::new() }))
            .collect();
        // A session's first commits are pages.
        for db in &dbs {
            db.execute_batch("UPDATE c SET v = v + 1").unwrap();
        }
        let before = rig.store().stats();
        let rounds = 20;
        let mut dbs = dbs;
        for round in 1..=rounds {
            gate.wanted.store(before.logged + round * WRITERS as u64, Ordering::SeqCst);
            let commit = |db: &mut Connection| db.execute_batch("UPDATE c SET v = v + 1").unwrap();
            thread::scope(|scope| {
                for db in &mut dbs {
                    scope.spawn(move || commit(db));
                }
            });
        }
        let stats = rig.store().stats();
        assert_eq!(stats.logged - before.logged, rounds * WRITERS as u64);
        let writes = stats.log_writes - before.log_writes;
        assert!(writes <= 2 * rounds, "{writes} writes to the log for {rounds} rounds");
        let each = if apart { rounds + 1 } else { (rounds + 1) * WRITERS as u64 };
        for db in &dbs {
            assert_eq!(ask(db, "SELECT v FROM c"), each.to_string());
        }
        gate.store.lock().unwrap().take();
    }
}

/// The COMMIT whose append fails is the one that fails, though its lock was lowered before; then nothing that may
/// vanish is read, and the store says why.
#[test]
fn a_commit_fails_whose_append_fails() {
    for (settings, what) in [
        ("PRAGMA journal_mode=DELETE", "the lowering of the lock"),
        ("PRAGMA locking_mode=EXCLUSIVE", "the commit itself"),
        ("PRAGMA journal_mode=MEMORY", "the commit itself"),
    ] {
        let mut rig = Rig::new(Bytes(1 << 20));
        let db = rig.open("");
        db.execute_batch(settings).unwrap();
        db.execute_batch("CREATE TABLE c(v INT); INSERT INTO c VALUES(0)").unwrap();
        for _ in 0..3 {
            db.execute_batch("UPDATE c SET v = v + 1").unwrap();
        }
        {
            let power = rig.medium.power();
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at, power.once) = (0, 2, true);
        }
        let logged = rig.store().stats().logged;
        let failed = db.execute_batch("UPDATE c SET v = v + 1");
        assert!(failed.is_err(), "{settings}: expected an error of {what}");
        assert_eq!(rig.store().stats().logged, logged + 1, "{settings}: it was one of the log");
        assert!(
            ask(&db, "PRAGMA varve_error").contains("one error"),
            "{}",
            ask(&db, "PRAGMA varve_error")
        );
        assert!(ask(&db, "SELECT v FROM c").contains("error"), "{settings}");
        let other = open(&rig.name, &rig.vfs)
            .and_then(|db| db.query_row("SELECT v FROM c", [], |row| row.get::<_, i64>(0)));
        assert!(settings.contains("EXCLUSIVE") || other.is_err(), "{settings}: {other:?}");
        drop(db);
        rig.again(None).unwrap();
        let found = ask(&rig.open(""), "SELECT v FROM c");
        assert!(["3", "4"].contains(&found.as_str()), "{settings}: {found}");
    }
}

/// BEGIN IMMEDIATE makes a COMMIT of two databases of what changes one: the last steps of such a one cannot fail.
#[test]
fn a_commit_beside_a_database_that_did_not_change_is_durable_or_an_error() {
    let mut failed = 0;
    for cut_at in 1..8 {
        let mut rig = Rig::new(Bytes(1 << 20));
        let db = rig.open("");
        db.execute_batch("CREATE TABLE c(v INT); INSERT INTO c VALUES(0)").unwrap();
        let two = format!("ATTACH 'file:{}/two' AS q; CREATE TABLE q.t(v INT)", rig.name);
        db.execute_batch(&two).unwrap();
        {
            let power = rig.medium.power();
            let mut power = power.lock().unwrap();
            (power.operations, power.cut_at, power.once) = (0, cut_at, true);
        }
        let done = db.execute_batch("BEGIN IMMEDIATE; UPDATE c SET v = 1; COMMIT");
        failed += i32::from(done.is_err());
        drop(db);
        rig.again(None).unwrap();
        let found = ask(&rig.open(""), "SELECT v FROM c");
        assert!(done.is_err() || found == "1", "{cut_at}: {done:?}, and then {found}");
    }
    assert!(failed > 0, "no error met a commit");
}

/// A connection with a SELECT under way commits; while it waits for its flush another one changes all of what the
/// SELECT reads. What the SELECT sees, and what a write on top of it is told.
fn rows_beside_commits(bug: Option<Bug>) -> (Vec<String>, Option<i32>) {
    let (rig, gate) = gated();
    let db = rig.open("");
    db.execute_batch("PRAGMA cache_size=4; UPDATE c SET v = 1; UPDATE c SET v = 2").unwrap();
    if let Some(bug) = bug {
        rig.store().plant(bug.into());
    }
    let mut select = db.prepare("SELECT v || ' ' || length(pad) FROM t ORDER BY k").unwrap();
    let mut rows = select.query([]).unwrap();
    let mut seen: Vec<String> = vec![rows.next().unwrap().unwrap().get(0).unwrap()];
    let logged = rig.store().stats().logged;
    // The flush of its commit lets the other one commit first.
    gate.wanted.store(logged + 2, Ordering::SeqCst);
    let (other, store) = (rig.open(""), rig.store().clone());
    thread::scope(|scope| {
        scope.spawn(move || {
            while store.stats().logged < logged + 1 {
                thread::yield_now();
            }
            other
                .execute_batch(
                    "BEGIN IMMEDIATE; UPDATE t SET v = 7; DELETE FROM t WHERE k > 40; COMMIT",
                )
                .unwrap();
        });
        db.execute_batch("UPDATE c SET v = 3").unwrap();
    });
    let refused = db.execute_batch("UPDATE c SET v = 9").err();
    let refused = refused.and_then(|error| error.sqlite_error().map(|e| e.extended_code));
    while let Ok(Some(row)) = rows.next() {
        seen.push(row.get(0).unwrap());
    }
    drop(rows);
    drop(select);
    // The SELECT is over: it sees what all see, and may write again.
    assert!(bug.is_some() || ask(&db, "SELECT count(*) FROM t WHERE v = 7") == "40");
    db.execute_batch("UPDATE c SET v = v + 1").unwrap();
    assert_eq!(ask(&db, "SELECT v FROM c"), "4");
    gate.store.lock().unwrap().take();
    (seen, refused)
}

#[test]
fn a_select_beside_a_commit_that_waits_reads_what_it_saw() {
    let (seen, refused) = rows_beside_commits(None);
    assert_eq!(seen, vec!["0 2000"; 60]);
    assert_eq!(refused, Some(517), "SQLITE_BUSY_SNAPSHOT");
    let (seen, _) = rows_beside_commits(Some(Bug::PastForgotten));
    assert_ne!(seen, vec!["0 2000"; 60]);
}

/// Many writers of one database; how often one of them was told that its lock is free.
fn crowd(bug: Option<Bug>) -> u64 {
    let rig = Rig::new(Bytes(1 << 20));
    let db = rig.open("");
    db.execute_batch("CREATE TABLE c(v INT); INSERT INTO c VALUES(0)").unwrap();
    if let Some(bug) = bug {
        rig.store().plant(bug.into());
    }
    let (writers, commits) = (8, 60);
    let begun = AtomicU64::new(0);
    let all: Vec<_> = (0..writers).map(|_| rig.open("")).collect();
    // Alone they may hardly meet: one more has the lock before all of them, until one has stood in line.
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        for db in all {
            scope.spawn(|| {
                let db = db;
                begun.fetch_add(1, Ordering::SeqCst);
                for _ in 0..commits {
                    db.execute_batch("BEGIN IMMEDIATE; UPDATE c SET v = v + 1; COMMIT").unwrap();
                }
            });
        }
        while begun.load(Ordering::SeqCst) < writers {
            thread::yield_now();
        }
        // Not so long that their own time (20 s) is over.
        let rounds = if bug.is_some() { 5 } else { 1000 };
        for _ in (0..rounds).take_while(|_| rig.store().stats().woken == 0) {
            thread::sleep(Duration::from_millis(10));
            db.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
        }
        db.execute_batch("COMMIT").unwrap();
    });
    assert_eq!(ask(&db, "SELECT v FROM c"), (writers * commits).to_string());
    rig.store().stats().woken
}

/// They never hear that it is busy, and are let in when it is not: not only when their time is over.
#[test]
fn writers_stand_in_line() {
    let woken = crowd(None);
    assert!(woken > 0, "nobody was woken");
    assert_eq!(crowd(Some(Bug::NobodyWoken)), 0);
}
