//! A full store: a DELETE that outgrows the drive, with its journal behind the drive, and power cuts at
//! the operations of the file; and a device that has nothing behind it.

mod common;

use common::cut::{Medium, Ram};
use common::image::Image;
use common::{api, ask, open, unique};
use rusqlite::{Connection, ErrorCode};
use varve_sqlite_vfs::store::Bug;
use varve_sqlite_vfs::{Options, Store, Stores};

const DELETE: &str = "DELETE FROM t WHERE k % 10 = 0";

struct Rig {
    vfs: String,
    stores: Stores,
    name: String,
}

impl Rig {
    fn new() -> Rig {
        let (vfs, stores) = (unique("full"), Stores::new());
        stores.register(&api(), &vfs, false, None).unwrap();
        Rig { vfs, stores, name: unique("full-store") }
    }

    fn open(&self, store: &Store) -> Connection {
        self.stores.add(&self.name, store);
        let db = open(&self.name, &self.vfs).unwrap();
        db.execute_batch("PRAGMA cache_size=20").unwrap();
        db
    }

    /// Rows until the store takes no more; how many.
    fn fill(&self, store: &Store) -> i64 {
        let db = self.open(store);
        db.execute_batch("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)").unwrap();
        let step = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 20)
            INSERT INTO t(v) SELECT randomblob(900) FROM x";
        let error = std::iter::repeat_with(|| db.execute_batch(step)).find_map(Result::err);
        assert_eq!(error.unwrap().sqlite_error_code(), Some(ErrorCode::DiskFull));
        let said = ask(&db, "PRAGMA varve_error");
        assert!(said.contains("kept for statements that free some"), "{said}");
        ask(&db, "SELECT count(*) FROM t").parse().unwrap()
    }

    /// Cuts the power at every `stride`-th operation of the DELETE; how many cuts, and what was wrong.
    fn cuts(&self, start: &Vec<u8>, rows: i64, stride: u64) -> (u64, Vec<String>) {
        let mut medium = Image::blank();
        let (mut cut, mut cuts, mut operations, mut bad) = (0, 0, 0, Vec::new());
        loop {
            medium.restore(start);
            let store = Store::mount_image(medium.drive(), Options::default()).unwrap();
            let db = self.open(&store);
            {
                let power = medium.power();
                let mut power = power.lock().unwrap();
                (power.operations, power.cut_at) = (0, cut);
            }
            let done = db.execute_batch(DELETE).is_ok();
            if cut == 0 {
                operations = medium.power().lock().unwrap().operations;
                assert!(done && store.stats().fallbacks > 0, "{:?}", store.stats());
                assert!(medium.image().len() > start.len(), "its journal lay behind the drive");
            }
            // The power is off before the connection is closed.
            let _ = medium.image();
            drop(db);
            self.stores.remove(&self.name);
            drop(store);
            let store = Store::mount_image(medium.drive(), Options::default()).unwrap();
            let db = self.open(&store);
            let found: i64 = ask(&db, "SELECT count(*) FROM t").parse().unwrap_or(-1);
            let sound = ask(&db, "PRAGMA integrity_check") == "ok";
            if !sound || !(found == rows - rows / 10 || found == rows && !done) {
                bad.push(format!("cut {cut}, done {done}: {found} of {rows} rows, sound {sound}"));
            }
            drop(db);
            self.stores.remove(&self.name);
            cuts += 1;
            cut += stride;
            if cut > operations {
                return (cuts, bad);
            }
        }
    }
}

fn everything() -> bool {
    std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all")
}

#[test]
fn a_delete_that_outgrows_a_full_image_is_whole_after_any_cut() {
    let (rig, mut medium) = (Rig::new(), Image::blank());
    let store = Store::format_image(medium.drive(), Options::default()).unwrap();
    let rows = rig.fill(&store);
    rig.stores.remove(&rig.name);
    drop(store);
    let start = medium.image();
    let (cuts, bad) = rig.cuts(&start, rows, if everything() { 1 } else { 23 });
    println!("{cuts} cuts, {} bad", bad.len());
    assert!(bad.is_empty(), "{} of {cuts}: {:?}", bad.len(), bad.first());
    assert!(cuts > 20, "{cuts}");
}

#[test]
fn where_nothing_is_behind_a_delete_that_fails_leaves_everything_as_it_was() {
    let after = |bug: Option<Bug>| {
        let (rig, mut medium) = (Rig::new(), Ram::blank());
        medium.hold(100);
        let store = Store::format(medium.power_on(), Options::default()).unwrap();
        let rows = rig.fill(&store);
        if let Some(bug) = bug {
            store.plant(bug);
        }
        let (db, other) = (rig.open(&store), rig.open(&store));
        let error = db.execute_batch(DELETE).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
        let said = ask(&db, "PRAGMA varve_error");
        assert!(said.contains("too full to hold its journal"), "{said}");
        [db, other].iter().all(|db| {
            let count = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
            count == Ok(rows)
                && ask(db, "PRAGMA integrity_check") == "ok"
                && db
                    .execute_batch("DELETE FROM t WHERE k = (SELECT max(k) FROM t); ROLLBACK")
                    .is_err()
                && db.execute_batch("BEGIN; DELETE FROM t WHERE k < 40; ROLLBACK").is_ok()
                && count == db.query_row("SELECT count(*) + 1 FROM t", [], |row| row.get(0))
                && db.execute_batch("INSERT INTO t(v) VALUES(randomblob(900))").is_ok()
        })
    };
    assert!(after(None));
    assert!(!after(Some(Bug::JournalLeft)), "a journal that is played back into a full store");
}
