//! What small programs do all day: one row at a time, readings with many indexes, orders, loads in bulk.
//!
//! A commit changes about as many pages as in programs of its kind: 1, 20, 8, and some 600. Rows, indexes and
//! draws are the same on every machine.

use block::Rng;
use rusqlite::{Connection, Result, Transaction, params};

use super::Each;

/// Which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One row of 100 bytes of 20,000 is updated.
    Update,
    /// Six readings of 200 sensors are added to a table with four indexes.
    Sensor,
    /// An order is added, one of those there goes on, now and then an old one goes; three indexes.
    Mixed,
    /// 15,000 rows are added to a table with an index.
    Bulk,
}

impl Kind {
    /// Names on command lines.
    pub const NAMES: [(&'static str, Kind); 4] = [
        ("update", Kind::Update),
        ("sensor", Kind::Sensor),
        ("mixed", Kind::Mixed),
        ("bulk", Kind::Bulk),
    ];

    /// Rows before the first commit.
    pub fn rows(self) -> u64 {
        match self {
            Kind::Update => 20_000,
            Kind::Sensor => 50_000,
            Kind::Mixed => 30_000,
            Kind::Bulk => 0,
        }
    }

    fn tables(self) -> &'static str {
        match self {
            Kind::Update => "CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);",
            Kind::Sensor => {
                "CREATE TABLE t(k INTEGER PRIMARY KEY, at INTEGER, sensor INTEGER, unit TEXT, value INTEGER, \
                 check_sum INTEGER);
                 CREATE INDEX by_time ON t(at);
                 CREATE INDEX by_sensor ON t(sensor, at);
                 CREATE INDEX by_value ON t(value);
                 CREATE INDEX by_sum ON t(check_sum);"
            }
            Kind::Mixed => {
                "CREATE TABLE t(k INTEGER PRIMARY KEY, customer INTEGER, state INTEGER, due INTEGER, note BLOB);
                 CREATE INDEX by_customer ON t(customer);
                 CREATE INDEX by_state ON t(state, k);
                 CREATE INDEX by_due ON t(due);"
            }
            Kind::Bulk => {
                "CREATE TABLE t(k INTEGER PRIMARY KEY, name INTEGER, v BLOB);
                 CREATE INDEX by_name ON t(name);"
            }
        }
    }
}

/// A program's database and what it does to it.
#[derive(Clone, Debug)]
pub struct Program {
    kind: Kind,
    rng: Rng,
    /// Rows added so far.
    rows: u64,
}

/// States of an order.
const STATES: u64 = 6;
const CUSTOMERS: u64 = 5_000;
const SENSORS: u64 = 200;
const UNITS: [&str; 4] = ["deg C", "hPa", "V", "% rH"];

impl Program {
    /// The program at its start.
    pub fn new(kind: Kind) -> Program {
        Program { kind, rng: Rng::stream(1, "sqlite/programs"), rows: 0 }
    }

    /// Makes the tables and fills them, in one transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub fn load(&mut self, db: &mut Connection) -> Result<()> {
        let work = db.transaction()?;
        work.execute_batch(self.kind.tables())?;
        for _ in 0..self.kind.rows() {
            self.add(&work)?;
        }
        work.commit()
    }

    /// `count` commits.
    ///
    /// # Errors
    /// SQLite's.
    pub fn run(&mut self, db: &Connection, count: u64, each: Each<'_>) -> Result<()> {
        for _ in 0..count {
            let work = db.unchecked_transaction()?;
            match self.kind {
                Kind::Update => self.update(&work)?,
                Kind::Sensor => (0..6).try_for_each(|_| self.add(&work))?,
                Kind::Mixed => self.orders(&work)?,
                Kind::Bulk => (0..15_000).try_for_each(|_| self.add(&work))?,
            }
            work.commit()?;
            each();
        }
        Ok(())
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        for part in bytes.chunks_mut(8) {
            let draw = self.rng.next_u64().to_le_bytes();
            part.copy_from_slice(&draw[..part.len()]);
        }
        bytes
    }

    fn add(&mut self, db: &Transaction<'_>) -> Result<()> {
        self.rows += 1;
        match self.kind {
            Kind::Update => {
                let value = self.bytes(100);
                db.prepare_cached("INSERT INTO t(v) VALUES(?)")?.execute([value])?;
            }
            Kind::Sensor => {
                let sensor = self.rng.below(SENSORS);
                let (value, sum) = (self.rng.below(100_000), self.rng.below(1 << 32));
                let unit = UNITS[sensor as usize % UNITS.len()];
                db.prepare_cached(
                    "INSERT INTO t(at, sensor, unit, value, check_sum) VALUES(?, ?, ?, ?, ?)",
                )?
                .execute(params![
                    1_700_000_000 + self.rows / 6,
                    sensor,
                    unit,
                    value,
                    sum
                ])?;
            }
            Kind::Mixed => {
                let (customer, due) = (self.rng.below(CUSTOMERS), self.rng.below(1_000_000));
                let state = if self.rows > self.kind.rows() { 0 } else { self.rng.below(STATES) };
                let note = self.bytes(120);
                db.prepare_cached("INSERT INTO t(customer, state, due, note) VALUES(?, ?, ?, ?)")?
                    .execute(params![customer, state, due, note])?;
            }
            Kind::Bulk => {
                let (name, value) = (self.rng.below(1 << 40), self.bytes(100));
                db.prepare_cached("INSERT INTO t(name, v) VALUES(?, ?)")?
                    .execute(params![name, value])?;
            }
        }
        Ok(())
    }

    /// A row's number: any of those that were ever there.
    fn any(&mut self) -> u64 {
        self.rng.below(self.rows) + 1
    }

    fn update(&mut self, db: &Transaction<'_>) -> Result<()> {
        let (row, value) = (self.any(), self.bytes(100));
        db.prepare_cached("UPDATE t SET v = ? WHERE k = ?")?.execute(params![value, row])?;
        Ok(())
    }

    fn orders(&mut self, db: &Transaction<'_>) -> Result<()> {
        self.add(db)?;
        let row = self.any();
        db.prepare_cached("UPDATE t SET state = (state + 1) % ? WHERE k = ?")?
            .execute(params![STATES, row])?;
        if self.rng.ratio(1, 4) {
            let row = self.any();
            db.prepare_cached("DELETE FROM t WHERE k = ?")?.execute([row])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_commits_what_it_says_and_draws_the_same_rows() {
        for (name, kind) in Kind::NAMES {
            let run = || {
                let mut db = Connection::open_in_memory().unwrap();
                let mut program = Program::new(kind);
                program.load(&mut db).unwrap();
                let rows = |db: &Connection| -> u64 {
                    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
                };
                assert_eq!(rows(&db), kind.rows(), "{name}");
                let (mut calls, before) = (0, db.total_changes());
                program.run(&db, 2, &mut || calls += 1).unwrap();
                assert_eq!(calls, 2, "{name}");
                let bytes = db.serialize("main").unwrap().to_vec();
                (db.total_changes() - before, rows(&db), bytes)
            };
            let (changed, rows, bytes) = run();
            match kind {
                Kind::Update => assert_eq!((changed, rows), (2, 20_000)),
                Kind::Sensor => assert_eq!((changed, rows), (12, 50_012)),
                Kind::Mixed => assert!((4..=6).contains(&changed), "{changed}"),
                Kind::Bulk => assert_eq!((changed, rows), (30_000, 30_000)),
            }
            assert!(bytes == run().2, "{name}: the same rows every time");
        }
    }
}
