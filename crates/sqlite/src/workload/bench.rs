//! sqlite-bench: one table of keys and values, written and read one row, or one batch, at a time.

use rusqlite::{Connection, Result, params};

use super::{Each, MinStd, Xorshift};

const CREATE: &str = "CREATE TABLE test (key blob, value blob, PRIMARY KEY(key))";
const REPLACE: &str = "REPLACE INTO test (key, value) VALUES (?, ?)";
const SELECT: &str = "SELECT value FROM test WHERE key = ?";
/// Rows of one transaction of the batch tests.
pub const BATCH: u64 = 1000;

/// The table: how many keys, and how long their values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Keys 0 to `keys` - 1.
    pub keys: u64,
    /// Bytes of each value.
    pub value: usize,
}

impl Shape {
    /// As many values of this size as `total` bytes hold.
    pub fn holding(total: u64, value: usize) -> Shape {
        Shape { keys: total / value as u64, value }
    }
}

/// A key as the table holds it: 16 digits.
pub fn key(number: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    assert!(rest == 0, "key {number} has more than 16 digits");
    digits
}

/// The workload of the byte tables: the table is loaded and overwritten with [`Xorshift`]'s draws.
#[derive(Clone, Debug)]
pub struct Overwrite {
    shape: Shape,
    draws: Xorshift,
    value: Vec<u8>,
    /// Whether no byte of a new value tells anything of the next.
    noise: bool,
}

impl Overwrite {
    /// The workload at its start.
    pub fn new(shape: Shape) -> Overwrite {
        assert!(shape.keys > 0, "no keys");
        let draws = Xorshift::new(Xorshift::SEED);
        Overwrite { shape, draws, value: vec![0; shape.value], noise: false }
    }

    /// The same with values that nothing packs: one draw for four bytes of a value.
    pub fn of_noise(self) -> Overwrite {
        Overwrite { noise: true, ..self }
    }

    /// The table.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Makes the table and fills it in key order in one transaction: one draw a byte.
    ///
    /// # Errors
    /// SQLite's.
    pub fn load(&mut self, db: &mut Connection) -> Result<()> {
        self.fill(db, false)
    }

    /// The same draws, keys and lengths, but each value is its first byte repeated: as many pages,
    /// and files in memory keep them in little room.
    ///
    /// # Errors
    /// SQLite's.
    pub fn load_even(&mut self, db: &mut Connection) -> Result<()> {
        self.fill(db, true)
    }

    fn fill(&mut self, db: &mut Connection, even: bool) -> Result<()> {
        let work = db.transaction()?;
        work.execute(CREATE, [])?;
        {
            let mut insert = work.prepare(REPLACE)?;
            for number in 0..self.shape.keys {
                for byte in &mut self.value {
                    *byte = self.draws.draw() as u8;
                }
                if even && let Some(first) = self.value.first().copied() {
                    self.value.fill(first);
                }
                insert.execute(params![key(number).as_slice(), self.value])?;
            }
        }
        work.commit()
    }

    /// `count` overwrites, a transaction each: one draw for the key, one for 64 bytes of value.
    ///
    /// # Errors
    /// SQLite's.
    pub fn run(&mut self, db: &Connection, count: u64, each: Each<'_>) -> Result<()> {
        let mut replace = db.prepare(REPLACE)?;
        for _ in 0..count {
            let number = u64::from(self.draws.draw()) % self.shape.keys;
            if self.noise {
                for piece in self.value.chunks_mut(4) {
                    piece.copy_from_slice(&self.draws.draw().to_le_bytes()[..piece.len()]);
                }
            } else {
                for piece in self.value.chunks_mut(64) {
                    piece.fill(self.draws.draw() as u8);
                }
            }
            replace.execute(params![key(number).as_slice(), self.value])?;
            each();
        }
        Ok(())
    }
}

/// The tests of the tool. Its `...sync` tests are these with `synchronous=FULL`, which is the
/// caller's to set; `...100K` ones have a value of 100,000 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// Writes all keys in order, into a new table.
    FillSeq,
    /// The same, 1000 in a transaction.
    FillSeqBatch,
    /// Writes as many random keys, into a new table.
    FillRandom,
    /// The same, 1000 in a transaction.
    FillRandBatch,
    /// Writes as many random keys into the table there is.
    Overwrite,
    /// The same, 1000 in a transaction.
    OverwriteBatch,
    /// Reads all rows in order.
    ReadSeq,
    /// Reads as many random keys.
    ReadRandom,
}

/// What a test did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Rows asked for or written.
    pub rows: u64,
    /// Rows that were there when read; all of the written ones.
    pub found: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Transactions that wrote.
    pub commits: u64,
}

impl Test {
    /// The tool's names of its tests.
    pub const NAMES: [(&'static str, Test); 8] = [
        ("fillseq", Test::FillSeq),
        ("fillseqbatch", Test::FillSeqBatch),
        ("fillrandom", Test::FillRandom),
        ("fillrandbatch", Test::FillRandBatch),
        ("overwrite", Test::Overwrite),
        ("overwritebatch", Test::OverwriteBatch),
        ("readseq", Test::ReadSeq),
        ("readrandom", Test::ReadRandom),
    ];

    /// The test of a name, with or without the suffix `sync`.
    pub fn parse(name: &str) -> Option<Test> {
        let name = match name {
            "fillrandsync" => "fillrandom",
            other => other.strip_suffix("sync").unwrap_or(other),
        };
        Test::NAMES.iter().find(|(one, _)| *one == name).map(|(_, test)| *test)
    }

    fn batch(self) -> u64 {
        match self {
            Test::FillSeqBatch | Test::FillRandBatch | Test::OverwriteBatch => BATCH,
            _ => 1,
        }
    }

    /// Runs the test with [`MinStd`]'s keys and half compressible values.
    ///
    /// # Errors
    /// SQLite's: a table that is there already, or not yet.
    pub fn run(self, db: &Connection, shape: Shape, seed: u32, each: Each<'_>) -> Result<Done> {
        let draws = MinStd::new(seed);
        match self {
            Test::ReadSeq => read_sequential(db, each),
            Test::ReadRandom => read_random(db, shape, draws, each),
            Test::Overwrite | Test::OverwriteBatch => self.write(db, shape, draws, each),
            Test::FillSeq | Test::FillSeqBatch | Test::FillRandom | Test::FillRandBatch => {
                db.execute(CREATE, [])?;
                self.write(db, shape, draws, each)
            }
        }
    }

    fn write(
        self,
        db: &Connection,
        shape: Shape,
        mut draws: MinStd,
        each: Each<'_>,
    ) -> Result<Done> {
        let in_order = matches!(self, Test::FillSeq | Test::FillSeqBatch);
        let (mut done, mut value) = (Done::default(), vec![0; shape.value]);
        let mut replace = db.prepare(REPLACE)?;
        let batch = self.batch();
        while done.rows < shape.keys {
            let work = db.unchecked_transaction()?;
            for _ in 0..batch.min(shape.keys - done.rows) {
                let number = if in_order { done.rows } else { draws.below(shape.keys) };
                draws.fill(&mut value);
                replace.execute(params![key(number).as_slice(), value])?;
                done.rows += 1;
                done.found += 1;
                done.bytes += 16 + value.len() as u64;
            }
            work.commit()?;
            done.commits += 1;
            each();
        }
        Ok(done)
    }
}

fn read_sequential(db: &Connection, each: Each<'_>) -> Result<Done> {
    let mut done = Done::default();
    let mut select = db.prepare("SELECT key, value FROM test ORDER BY key")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        done.rows += 1;
        done.found += 1;
        done.bytes += (row.get_ref(0)?.as_blob()?.len() + row.get_ref(1)?.as_blob()?.len()) as u64;
        each();
    }
    Ok(done)
}

fn read_random(db: &Connection, shape: Shape, mut draws: MinStd, each: Each<'_>) -> Result<Done> {
    let mut done = Done::default();
    let mut select = db.prepare(SELECT)?;
    for _ in 0..shape.keys {
        let key = key(draws.below(shape.keys));
        let mut rows = select.query([key.as_slice()])?;
        if let Some(row) = rows.next()? {
            done.found += 1;
            done.bytes += 16 + row.get_ref(0)?.as_blob()?.len() as u64;
        }
        done.rows += 1;
        each();
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { keys: 2500, value: 100 };

    fn count(db: &Connection) -> u64 {
        db.query_row("SELECT count(*) FROM test", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn every_test_of_the_tool_does_what_its_name_says() {
        for (name, test) in Test::NAMES {
            let db = Connection::open_in_memory().unwrap();
            let fresh = name.starts_with("fill");
            if !fresh {
                Test::FillSeqBatch.run(&db, SHAPE, 1, &mut || ()).unwrap();
            }
            let mut calls = 0;
            let done = test.run(&db, SHAPE, 301, &mut || calls += 1).unwrap();
            assert_eq!((done.rows, done.bytes), (2500, done.found * 116), "{name}");
            assert_eq!(done.found, 2500, "{name}");
            match name {
                "readseq" | "readrandom" => assert_eq!((calls, done.commits), (2500, 0), "{name}"),
                _ if name.ends_with("batch") => assert_eq!((calls, done.commits), (3, 3), "{name}"),
                _ => assert_eq!((calls, done.commits), (2500, 2500), "{name}"),
            }
            // Random keys leave about 1/e of them out.
            let rows = count(&db);
            match name {
                "fillrandom" | "fillrandbatch" => assert!((1500..1660).contains(&rows), "{rows}"),
                _ => assert_eq!(rows, 2500, "{name}"),
            }
            let again = test.run(&db, SHAPE, 301, &mut || ());
            assert_eq!(again.is_err(), fresh, "{name}: a table that is there already");
        }
        assert_eq!(Test::parse("fillrandsync"), Some(Test::FillRandom));
        assert_eq!(Test::parse("overwritesync"), Some(Test::Overwrite));
        assert_eq!(Test::parse("fillsomehow"), None);
    }

    #[test]
    fn keys_that_were_not_written_are_not_found() {
        let db = Connection::open_in_memory().unwrap();
        Test::FillRandom.run(&db, SHAPE, 5, &mut || ()).unwrap();
        let done = Test::ReadRandom.run(&db, SHAPE, 6, &mut || ()).unwrap();
        assert!(done.found < done.rows && done.found > done.rows / 2, "{done:?}");
    }

    #[test]
    fn overwriting_draws_the_same_rows_on_every_machine() {
        let run = |overwrites: u64| {
            let mut db = Connection::open_in_memory().unwrap();
            let mut work = Overwrite::new(Shape { keys: 300, value: 130 });
            work.load(&mut db).unwrap();
            work.run(&db, overwrites, &mut || ()).unwrap();
            let mut sum = 0u64;
            let mut select = db.prepare("SELECT key, value FROM test ORDER BY key").unwrap();
            let mut rows = select.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                for at in 0..2 {
                    for byte in row.get_ref(at).unwrap().as_blob().unwrap() {
                        sum = sum.wrapping_mul(0x0000_0100_0000_01B3) ^ u64::from(*byte);
                    }
                }
            }
            sum
        };
        assert_eq!(run(50), run(50));
        assert_ne!(run(50), run(51));
        assert_eq!(key(1234), *b"0000000000001234");
        assert_eq!(Shape::holding(16 << 20, 512).keys, 32_768);
    }
}
