//! SQLite in a namespace of a controller, its load, and what must be there after whatever has happened.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use block::Rng;
use rusqlite::{Connection, OpenFlags, ffi};
use varve_sqlite_vfs::{Api, Stores};

/// The name of a VFS of stores: a set of its own, as another process would have it.
pub fn another_vfs() -> String {
    vfs_of(&Stores::new())
}

/// The same of stores that are there.
pub fn vfs_of(stores: &Stores) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("wired-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let api = Api::new(
        ffi::sqlite3_vfs_find,
        ffi::sqlite3_vfs_register,
        ffi::sqlite3_uri_parameter,
        ffi::sqlite3_malloc,
        ffi::sqlite3_log,
    );
    stores.register(&api, &name, false, None).expect("registered");
    name
}

/// The database `name` in the namespace at an address.
pub fn uri(vfs: &str, at: SocketAddr, name: &str, more: &str) -> String {
    format!("file:/{name}?vfs={vfs}&device=nvme-tcp://{at}{more}")
}

pub fn open(uri: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags)
}

/// The first column of the first row as a text, or the error.
pub fn ask(db: &Connection, sql: &str) -> String {
    let row = db.query_row(sql, [], |row| {
        let value: rusqlite::types::Value = row.get(0)?;
        Ok(match value {
            rusqlite::types::Value::Integer(n) => n.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        })
    });
    row.unwrap_or_else(|error| format!("error: {error}"))
}

/// How the databases are used for a while.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub journal: &'static str,
    /// Commits are records in the log.
    pub log: bool,
    /// A second database, whose counter is changed by the same transactions.
    pub two: bool,
    /// Every transaction changes all rows.
    pub large: bool,
}

impl Mode {
    pub fn drawn(rng: &mut Rng) -> Mode {
        const JOURNALS: [&str; 5] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL"];
        let journal = JOURNALS[rng.below(5) as usize];
        // What binds two write-ahead logs to one commit is nothing that SQLite has.
        Mode {
            journal,
            log: rng.below(3) > 0,
            two: journal != "WAL" && rng.below(3) == 0,
            large: false,
        }
    }

    /// Large transactions over both databases.
    pub fn large(rng: &mut Rng) -> Mode {
        const JOURNALS: [&str; 3] = ["DELETE", "TRUNCATE", "PERSIST"];
        let journal = JOURNALS[rng.below(3) as usize];
        Mode { journal, log: rng.below(2) > 0, two: true, large: true }
    }
}

/// Why a load ended that was not ended.
pub const NOTHING_FAILED: &str = "nothing failed";
const ROWS: u64 = 60;
const EACH: u64 = 100;

/// Makes both databases.
pub fn prepare(vfs: &str, at: SocketAddr) {
    let db = open(&uri(vfs, at, "one.db", "&log=256KiB")).expect("made");
    let create = format!(
        "CREATE TABLE a(id INTEGER PRIMARY KEY, b INT, pad BLOB);
         CREATE TABLE c(v INT); INSERT INTO c VALUES(0);
         WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < {ROWS})
         INSERT INTO a SELECT i, {EACH}, randomblob(700) FROM x;
         ATTACH '{}' AS q; CREATE TABLE q.c(v INT); INSERT INTO q.c VALUES(0);",
        uri(vfs, at, "two.db", "")
    );
    db.execute_batch(&create).expect("made");
}

/// Opens them for a load.
pub fn start(vfs: &str, at: SocketAddr, mode: Mode) -> rusqlite::Result<Connection> {
    let more = if mode.log { "" } else { "&delta=off" };
    let db = open(&uri(vfs, at, "one.db", more))?;
    db.busy_timeout(std::time::Duration::from_secs(60))?;
    let set = |schema: &str| {
        format!(
            "PRAGMA {schema}journal_mode={}; PRAGMA {schema}synchronous=FULL; \
             PRAGMA {schema}cache_size=8; PRAGMA {schema}wal_autocheckpoint=20;",
            mode.journal
        )
    };
    db.execute_batch(&set("main."))?;
    if mode.two {
        db.execute_batch(&format!("ATTACH '{}' AS q;", uri(vfs, at, "two.db", "")))?;
        db.execute_batch(&set("q."))?;
    }
    Ok(db)
}

/// Transfers, rollbacks and changes of sizes until one fails; the last step that was acknowledged, and why the next one
/// was not. At most `steps`.
pub fn work(db: &Connection, mode: Mode, from: u64, steps: u64, rng: &mut Rng) -> (u64, String) {
    for k in from + 1..=from + steps {
        let aside = match rng.below(8) {
            0 => "BEGIN; UPDATE a SET b = b + 1000, pad = randomblob(700); ROLLBACK;",
            1 => {
                "BEGIN; SAVEPOINT s; UPDATE a SET b = b - 5, pad = randomblob(600); ROLLBACK TO s; \
                 UPDATE a SET pad = randomblob(701) WHERE id % 7 = 0; COMMIT;"
            }
            _ => "",
        };
        let more = match rng.below(8) {
            _ if mode.large => "UPDATE a SET pad = randomblob(750);",
            0 => "UPDATE a SET pad = randomblob(750);",
            1 => "DELETE FROM a WHERE id > 1000;",
            2 => "INSERT INTO a SELECT NULL, 0, randomblob(700) FROM a WHERE id <= 20;",
            3 => "DELETE FROM a WHERE id > 1000; INSERT INTO a VALUES (1001, 0, zeroblob(9000));",
            _ => "",
        };
        let other = if mode.two { format!("UPDATE q.c SET v = {k};") } else { String::new() };
        let (give, take) = (rng.between(1, 30), rng.between(31, 60));
        let step = format!(
            "{aside} BEGIN; UPDATE a SET b = b - 10 WHERE id = {give};
             UPDATE a SET b = b + 10 WHERE id = {take};
             UPDATE c SET v = {k}; {more} {other} COMMIT;"
        );
        if let Err(error) = db.execute_batch(&step) {
            return (k - 1, format!("{error}: {}", ask(db, "PRAGMA varve_error")));
        }
    }
    (from + steps, NOTHING_FAILED.to_string())
}

/// What was acknowledged of a load.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ledger {
    /// Its last step when it was looked at last, and what the second database had then.
    began: u64,
    second: u64,
    /// The last step that was acknowledged.
    pub floor: u64,
}

impl Ledger {
    /// Works on; see [`work`].
    pub fn work(&mut self, db: &Connection, mode: Mode, steps: u64, rng: &mut Rng) -> String {
        let (floor, why) = work(db, mode, self.floor, steps, rng);
        self.floor = floor;
        why
    }

    /// Integrity, the sum, and as many steps as were acknowledged, or one more; both databases are at the same one if
    /// they were changed together.
    pub fn judge(&mut self, db: &Connection, mode: Mode) -> Result<(), String> {
        let found = ask(db, "PRAGMA main.integrity_check");
        if found != "ok" {
            return Err(found.lines().next().unwrap_or("").to_string());
        }
        let sum = ask(db, "SELECT sum(b) FROM a");
        if sum != (ROWS * EACH).to_string() {
            return Err(format!("sum {sum}, expected {}", ROWS * EACH));
        }
        let there: u64 = ask(db, "SELECT v FROM c").parse().map_err(|_| "no counter")?;
        if !(self.floor..=self.floor + 1).contains(&there) {
            return Err(format!("step {there}; acknowledged were {}", self.floor));
        }
        if mode.two {
            let wanted = if there > self.began { there } else { self.second };
            let second: u64 = ask(db, "SELECT v FROM q.c").parse().map_err(|_| "no second one")?;
            if second != wanted {
                return Err(format!("the other database is at step {second}, expected {wanted}"));
            }
            self.second = second;
        }
        (self.began, self.floor) = (there, there);
        Ok(())
    }
}
