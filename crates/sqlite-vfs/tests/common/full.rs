//! A store that is filled until it takes no more.

use rusqlite::{Connection, ErrorCode};
use varve_sqlite_vfs::{Store, Stores};

use super::{api, ask, open, unique};

/// A VFS, and the name its store has there.
pub struct Rig {
    vfs: String,
    pub stores: Stores,
    pub name: String,
}

impl Rig {
    pub fn new() -> Rig {
        let (vfs, stores) = (unique("full"), Stores::new());
        stores.register(&api(), &vfs, false, None).unwrap();
        Rig { vfs, stores, name: unique("full-store") }
    }

    pub fn vfs(&self) -> &str {
        &self.vfs
    }

    pub fn open(&self, store: &Store) -> Connection {
        self.stores.add(&self.name, store);
        let db = open(&self.name, &self.vfs).unwrap();
        db.execute_batch("PRAGMA cache_size=20").unwrap();
        db
    }

    /// Rows until the store takes no more; how many.
    pub fn fill(&self, store: &Store) -> i64 {
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
}
