//! YCSB A to F over SQLite: a table of ten fields, every operation a transaction of its own.

use block::Rng;
use rusqlite::{CachedStatement, Connection, Result, params};
use workload::generate::ycsb::{KvOp, Operations, key_name};

pub use workload::generate::ycsb::Workload;

use super::Each;

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

/// What the operations did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Operations.
    pub operations: u64,
    /// Single records read, and how many of them were there.
    pub reads: u64,
    /// Reads that found their record.
    pub found: u64,
    /// Scans.
    pub scans: u64,
    /// Records the scans returned.
    pub scanned: u64,
    /// Fields overwritten.
    pub updates: u64,
    /// Records added.
    pub inserts: u64,
}

/// A store of records and the operations on it.
#[derive(Clone, Debug)]
pub struct Ycsb {
    records: u64,
    values: Rng,
    field: String,
}

impl Ycsb {
    /// A store to be loaded with `records` records.
    pub fn new(records: u64, seed: u64) -> Ycsb {
        let values = Rng::stream(seed, "ycsb/values");
        Ycsb { records, values, field: String::with_capacity(FIELD_BYTES) }
    }

    fn draw_field(&mut self) -> &str {
        self.field.clear();
        for _ in 0..FIELD_BYTES / 10 {
            let mut bits = self.values.next_u64();
            for _ in 0..10 {
                self.field.push(char::from(b' ' + (bits % 95) as u8));
                bits /= 95;
            }
        }
        &self.field
    }

    fn draw_record(&mut self, number: u64, insert: &mut CachedStatement<'_>) -> Result<()> {
        insert.raw_bind_parameter(1, key_name(number))?;
        for field in 0..FIELDS {
            insert.raw_bind_parameter(field + 2, self.draw_field())?;
        }
        insert.raw_execute()?;
        Ok(())
    }

    /// Makes the table and its records in one transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub fn load(&mut self, db: &mut Connection) -> Result<()> {
        let work = db.transaction()?;
        let fields: Vec<String> = (0..FIELDS).map(|n| format!("field{n} TEXT")).collect();
        work.execute_batch(&format!(
            "CREATE TABLE usertable (ycsb_key TEXT PRIMARY KEY, {})",
            fields.join(", ")
        ))?;
        {
            let mut insert = work.prepare_cached(INSERT)?;
            for number in 0..self.records {
                self.draw_record(number, &mut insert)?;
            }
        }
        work.commit()
    }

    /// `count` operations of a workload. Records are inserted behind those of the load, so one
    /// loaded store serves one run of a workload that inserts.
    ///
    /// # Errors
    /// SQLite's.
    pub fn run(
        &mut self,
        db: &Connection,
        workload: Workload,
        count: u64,
        seed: u64,
        each: Each<'_>,
    ) -> Result<Done> {
        let (choices, draws) = (Rng::stream(seed, "ycsb/ops"), Rng::stream(seed, "ycsb/keys"));
        let mut operations = Operations::new(workload, self.records, count, choices, draws);
        let mut fields = Rng::stream(seed, "ycsb/fields");
        let mut done = Done::default();
        for _ in 0..count {
            match operations.draw() {
                KvOp::Read(number) => read(db, number, &mut done)?,
                KvOp::Update(number) => self.update(db, number, &mut fields, &mut done)?,
                KvOp::ReadModifyWrite(number) => {
                    read(db, number, &mut done)?;
                    self.update(db, number, &mut fields, &mut done)?;
                }
                KvOp::Insert(number) => {
                    self.draw_record(number, &mut db.prepare_cached(INSERT)?)?;
                    done.inserts += 1;
                }
                KvOp::Scan(number, length) => scan(db, number, length, &mut done)?,
            }
            done.operations += 1;
            each();
        }
        self.records = operations.records();
        Ok(done)
    }

    fn update(
        &mut self,
        db: &Connection,
        number: u64,
        fields: &mut Rng,
        done: &mut Done,
    ) -> Result<()> {
        let sql = UPDATES[fields.below(FIELDS as u64) as usize];
        let changed = db.prepare_cached(sql)?.execute(params![self.draw_field(), key_name(number)]);
        done.updates += changed? as u64;
        Ok(())
    }
}

const INSERT: &str = "INSERT INTO usertable VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const READ: &str = "SELECT * FROM usertable WHERE ycsb_key = ?";
const SCAN: &str = "SELECT * FROM usertable WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?";
const UPDATES: [&str; FIELDS] = [
    "UPDATE usertable SET field0 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field1 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field2 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field3 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field4 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field5 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field6 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field7 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field8 = ? WHERE ycsb_key = ?",
    "UPDATE usertable SET field9 = ? WHERE ycsb_key = ?",
];

/// Reads all fields of the rows of a query; how many there were.
fn fetch(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<u64> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        for field in 0..=FIELDS {
            row.get_ref(field)?;
        }
        count += 1;
    }
    Ok(count)
}

fn read(db: &Connection, number: u64, done: &mut Done) -> Result<()> {
    done.found += fetch(db, READ, [key_name(number)])?;
    done.reads += 1;
    Ok(())
}

fn scan(db: &Connection, number: u64, length: u64, done: &mut Done) -> Result<()> {
    done.scanned += fetch(db, SCAN, params![key_name(number), length])?;
    done.scans += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workload: Workload) -> (Done, u64) {
        let mut db = Connection::open_in_memory().unwrap();
        let mut ycsb = Ycsb::new(500, 7);
        ycsb.load(&mut db).unwrap();
        let mut calls = 0;
        let done = ycsb.run(&db, workload, 1000, 7, &mut || calls += 1).unwrap();
        assert_eq!((done.operations, calls), (1000, 1000));
        let rows = db.query_row("SELECT count(*) FROM usertable", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 500 + done.inserts);
        let short: u64 = db
            .query_row(
                "SELECT count(*) FROM usertable WHERE length(field0) + length(field9) <> 200",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(short, 0);
        (done, rows)
    }

    #[test]
    fn every_workload_does_its_mix() {
        let near = |n: u64, of: u64| n.abs_diff(of) < 60;
        for workload in [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E] {
            let (done, _) = run(workload);
            let reads = workload.read_percent() * 10;
            match workload {
                Workload::E => assert!(near(done.scans, 950) && done.inserts > 20, "{done:?}"),
                _ => assert!(near(done.reads, reads), "{workload:?} {done:?}"),
            }
            assert_eq!(done.reads + done.scans + done.updates + done.inserts, 1000);
            // Every read finds its record.
            assert_eq!(done.found, done.reads, "{workload:?}");
        }
        let (f, _) = run(Workload::F);
        assert_eq!(f.reads, 1000);
        assert!(near(f.updates, 500), "{f:?}");
        let (e, _) = run(Workload::E);
        let mean = e.scanned / e.scans;
        assert!((35..=51).contains(&mean), "{mean}: lengths 1 to 100, fewer at the end");
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        assert_eq!(run(Workload::A), run(Workload::A));
        assert_eq!(run(Workload::D), run(Workload::D));
    }
}
