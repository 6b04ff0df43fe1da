//! What SQLite asks of its files, exactly, through the counting VFS over the default one. A change
//! here is a change of SQLite, and every figure that rests on these counts has to be looked at.

mod common;

use common::{Folder, api, ask, batches, open, unique};
use rusqlite::Connection;
use varve_sqlite_vfs::vfs::Kind;
use varve_sqlite_vfs::{Counter, Counts};

struct Rig {
    folder: Folder,
    vfs: String,
    counter: Counter,
}

impl Rig {
    fn new(batch: bool) -> Rig {
        let vfs = unique("count");
        let counter = Counter::register(&api(), &vfs, false, batch).unwrap();
        Rig { folder: Folder::new(), vfs, counter }
    }

    fn open(&self, name: &str, settings: &str) -> Connection {
        let db = open(&self.folder.file(name), &self.vfs).unwrap();
        db.execute_batch(&format!("PRAGMA wal_autocheckpoint=0; {settings}")).unwrap();
        db
    }

    /// Counts of `sql`, warm.
    fn count(&self, db: &Connection, sql: &str) -> Counts {
        db.query_row("SELECT count(*), sum(length(v)) FROM t", [], |_| Ok(())).unwrap();
        self.counter.reset();
        db.execute_batch(sql).unwrap();
        self.counter.counts()
    }
}

const FILL: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INT, v BLOB); CREATE INDEX i ON t(k);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO t SELECT i, i * 7 % 1000, randomblob(1000) FROM n;";
const UPDATE: &str = "UPDATE t SET v = randomblob(1000) WHERE id = 500";

/// Writes, bytes, syncs, deletes, truncations.
type Row = (u64, u64, u64, u64, u64);

fn row(counts: &Counts) -> Row {
    let all = counts.total();
    (all.writes, all.bytes, all.syncs, all.deletes, all.truncates)
}

fn one_update(settings: &str) -> (Row, Counts) {
    let rig = Rig::new(false);
    rig.open("a.db", "").execute_batch(FILL).unwrap();
    let db = rig.open("a.db", settings);
    db.execute_batch("UPDATE t SET v = randomblob(1000) WHERE id = 3").unwrap();
    let counts = rig.count(&db, UPDATE);
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    (row(&counts), counts)
}

fn mode(journal: &str, sync: &str, locking: &str) -> String {
    format!(
        "PRAGMA locking_mode={locking}; PRAGMA journal_mode={journal}; PRAGMA synchronous={sync}"
    )
}

#[test]
fn one_update_in_every_rollback_mode() {
    let normal = |journal, sync| one_update(&mode(journal, sync, "NORMAL")).0;
    assert_eq!(normal("DELETE", "FULL"), (10, 16_924, 3, 1, 0));
    assert_eq!(normal("DELETE", "NORMAL"), (10, 16_924, 2, 1, 0));
    assert_eq!(normal("TRUNCATE", "FULL"), (10, 16_924, 4, 0, 1));
    assert_eq!(normal("TRUNCATE", "NORMAL"), (10, 16_924, 2, 0, 1));
    assert_eq!(normal("PERSIST", "FULL"), (11, 16_952, 4, 0, 0));
    assert_eq!(normal("PERSIST", "NORMAL"), (11, 16_952, 3, 0, 0));
    assert_eq!(normal("MEMORY", "FULL"), (2, 8_192, 1, 0, 0));
    assert_eq!(normal("OFF", "FULL"), (2, 8_192, 1, 0, 0));
    let exclusive = |journal, sync| one_update(&mode(journal, sync, "EXCLUSIVE")).0;
    assert_eq!(exclusive("DELETE", "FULL"), (7, 8_752, 4, 0, 0));
    assert_eq!(exclusive("PERSIST", "FULL"), (7, 8_752, 4, 0, 0));
    assert_eq!(exclusive("MEMORY", "FULL"), (1, 4_096, 1, 0, 0));
    assert_eq!(exclusive("OFF", "FULL"), (1, 4_096, 1, 0, 0));
}

#[test]
fn one_update_with_a_log_and_its_checkpoint() {
    for locking in ["NORMAL", "EXCLUSIVE"] {
        let full = one_update(&mode("WAL", "FULL", locking));
        assert_eq!(full.0, (2, 4_120, 1, 0, 0));
        assert_eq!((full.1.transactions, full.1.floor_pages), (1, 1));
        assert_eq!(one_update(&mode("WAL", "NORMAL", locking)).0, (2, 4_120, 0, 0, 0));
    }
    let rig = Rig::new(false);
    rig.open("a.db", &mode("WAL", "FULL", "NORMAL")).execute_batch(FILL).unwrap();
    let db = rig.open("a.db", &mode("WAL", "FULL", "NORMAL"));
    rig.count(&db, UPDATE);
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    rig.count(&db, UPDATE);
    rig.counter.reset();
    db.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
    let counts = rig.counter.counts();
    assert_eq!((counts.of(Kind::Wal).reads, counts.of(Kind::Database).writes), (1, 1));
    assert_eq!((counts.total().syncs, counts.checkpoints), (2, 1));
    assert_eq!(counts.transactions, 0, "a checkpoint is no transaction");
}

#[test]
fn the_floor_is_the_distinct_pages_of_each_transaction() {
    let (_, counts) = one_update(&mode("DELETE", "FULL", "NORMAL"));
    assert_eq!((counts.transactions, counts.floor_pages, counts.floor_bytes), (1, 2, 8_192));
    assert_eq!(counts.of(Kind::Journal).bytes, 8_732);
    // A transaction that is rolled back after a spill wrote pages, but no floor.
    let rig = Rig::new(false);
    let db = rig.open("a.db", "PRAGMA cache_size=20");
    db.execute_batch(FILL).unwrap();
    let counts = rig.count(&db, "BEGIN; UPDATE t SET v = randomblob(1000); ROLLBACK");
    assert!(counts.of(Kind::Database).writes > 250, "{counts:?}");
    assert_eq!((counts.transactions, counts.floor_pages), (0, 0));
}

#[test]
fn a_batch_writes_no_journal_where_sqlite_can_batch() {
    let rig = Rig::new(true);
    rig.open("a.db", "").execute_batch(FILL).unwrap();
    let db = rig.open("a.db", &mode("DELETE", "FULL", "NORMAL"));
    let counts = rig.count(&db, UPDATE);
    if !batches() {
        assert_eq!(row(&counts), (10, 16_924, 3, 1, 0));
        assert_eq!(counts.batch_begins, 0);
        return;
    }
    assert_eq!(row(&counts), (2, 8_192, 1, 0, 0));
    assert_eq!((counts.batch_begins, counts.batch_commits), (1, 1));
    drop(db);
    let db = rig.open("a.db", &mode("DELETE", "OFF", "NORMAL"));
    assert_eq!(row(&rig.count(&db, UPDATE)), (2, 8_192, 0, 0, 0));
    drop(db);
    let db = rig.open("a.db", &mode("DELETE", "FULL", "EXCLUSIVE"));
    rig.count(&db, UPDATE);
    assert_eq!(row(&rig.count(&db, UPDATE)), (1, 4_096, 1, 0, 0));
    // Created in this connection: a real journal was opened, and batches are over.
    let db = rig.open("b.db", &mode("DELETE", "FULL", "EXCLUSIVE"));
    db.execute_batch(FILL).unwrap();
    rig.count(&db, UPDATE);
    assert_eq!(row(&rig.count(&db, UPDATE)), (7, 8_752, 4, 0, 0));
}

/// An update of one row in each of two databases, in one transaction.
fn two_databases(journal: &str, batch: bool) -> Counts {
    let rig = Rig::new(batch);
    for name in ["a.db", "b.db"] {
        rig.open(name, "").execute_batch(FILL).unwrap();
    }
    let db = rig.open("a.db", &mode(journal, "FULL", "NORMAL"));
    db.execute("ATTACH ? AS q", [rig.folder.file("b.db")]).unwrap();
    db.execute_batch(&format!("PRAGMA q.journal_mode={journal}; PRAGMA q.synchronous=FULL"))
        .unwrap();
    // Two rows far apart in the first, one in the second: five pages with the two first ones.
    let rows = UPDATE.replace("id = 500", "id IN (400, 500)");
    let both = format!("BEGIN; {rows}; {}; COMMIT", UPDATE.replace("t SET", "q.t SET"));
    db.execute_batch(&both).unwrap();
    rig.count(&db, &both)
}

#[test]
fn two_databases_commit_through_a_super_journal() {
    let counts = two_databases("DELETE", false);
    // A journal that was kept in memory first is copied out in more pieces.
    let batched = two_databases("DELETE", true);
    assert_eq!(batched.total().writes, if batches() { 39 } else { 36 }, "{batched:?}");
    assert_eq!(batched.total().bytes, counts.total().bytes);
    assert_eq!(counts.total().writes, 36, "{counts:?}");
    assert_eq!((counts.total().syncs, counts.total().deletes), (7, 3));
    assert_eq!(counts.of(Kind::Super).deletes, 1);
    // Two journal names, and in each journal a record of 20 bytes around the super-journal's.
    let names = counts.of(Kind::Super).bytes;
    let rest = counts.of(Kind::Journal).bytes - 2 * (512 + 12) - 5 * 4_104 - 2 * 20;
    assert_eq!(rest % 2, 0);
    assert_eq!(rest / 2, names / 2 - 1 - "-journal".len() as u64 + "-mj012345678".len() as u64);
    assert_eq!(counts.of(Kind::Database).bytes, 20_480);
    let memory = two_databases("MEMORY", false);
    assert_eq!(row(&memory), (5, 20_480, 2, 0, 0), "{memory:?}");
}

#[test]
fn a_whole_table_spills() {
    let spill = |journal: &str, batch: bool| {
        let rig = Rig::new(batch);
        rig.open("a.db", "").execute_batch(FILL).unwrap();
        let settings = format!("{}; PRAGMA cache_size=20", mode(journal, "FULL", "NORMAL"));
        let db = rig.open("a.db", &settings);
        db.execute_batch(UPDATE).unwrap();
        let counts = rig.count(&db, "UPDATE t SET v = randomblob(1000)");
        (counts.total().writes, counts.total().syncs, counts.floor_pages)
    };
    assert_eq!(spill("MEMORY", false), (251, 1, 251));
    assert_eq!(spill("WAL", false), (500, 1, 250));
    assert_eq!(spill("DELETE", false), (1_036, 33, 251));
    let batched = if batches() { (1_053, 33, 251) } else { (1_036, 33, 251) };
    assert_eq!(spill("DELETE", true), batched);
}
