//! What a database holds, page by page, as numbers: SQLite copies it into a file that keeps of each page its sum alone.
//!
//! Invariants: what is summed is what a reader of the connection sees, log and journal included; memory is eight bytes
//! for each page, so a database may be larger than it, and than the 2 GiB that SQLite gives out in one piece.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use lab::LabError;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};
use varve_sqlite_vfs::vfs::{
    Answer, Caller, Code, Control, File, Kind, Level, Raw, Reply, Vfs, flag,
};
use varve_sqlite_vfs::{Name, RegisterError, register};

use super::api;

const VFS: &str = "varve-sums";

/// Bytes of the header that say how and how often the file is written, not what it holds: file
/// format versions, change counter, schema cookie, and the counter's and library's stamps.
const STAMPS: [std::ops::Range<usize>; 4] = [18..20, 24..28, 40..44, 92..100];

static OPEN: Mutex<BTreeMap<u64, Shared>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);
static REGISTERED: LazyLock<Result<(), RegisterError>> =
    LazyLock::new(|| register(&api(), VFS, false, |_| Box::new(Sink)));

type Shared = Arc<Mutex<Copied>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sums of a database's pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sums {
    page: u64,
    pages: Vec<u64>,
}

impl Sums {
    /// Of the database of a connection, as a reader sees it now.
    ///
    /// # Errors
    /// SQLite's, of reading it.
    pub fn of(db: &Connection, what: &str) -> Result<Sums, LabError> {
        if let Err(error) = &*REGISTERED {
            return Err(LabError::Failed(format!("the VFS {VFS}: {error}")));
        }
        let wrong = |error: rusqlite::Error| LabError::Input(format!("{what}: {error}"));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let copied = Shared::default();
        lock(&OPEN).insert(number, Arc::clone(&copied));
        let copy = || {
            let flags = OpenFlags::default();
            let mut to = Connection::open_with_flags_and_vfs(format!("/{number}"), flags, VFS)?;
            to.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")?;
            Backup::new(db, &mut to)?.step(-1)
        };
        let done = copy();
        lock(&OPEN).remove(&number);
        done.map_err(wrong)?;
        let copied = lock(&copied);
        Ok(Sums { page: copied.page as u64, pages: copied.sums.clone() })
    }

    /// Bytes of the database.
    pub fn bytes(&self) -> u64 {
        self.page * self.pages.len() as u64
    }

    /// Bytes of a page.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// The first page, from 1, that another database does not have so.
    pub fn differs(&self, other: &Sums) -> Option<u64> {
        let both = self.pages.len().min(other.pages.len());
        let at = (0..both).find(|at| self.pages[*at] != other.pages[*at]);
        let shorter = (self.page, self.pages.len()) != (other.page, other.pages.len());
        at.or(shorter.then_some(both)).map(|at| at as u64 + 1)
    }
}

/// What counts of a page's bytes.
fn sum(page: &[u8], first: bool) -> u64 {
    let mut all = Sha256::new();
    let mut from = 0;
    for stamp in STAMPS.into_iter().take(if first { STAMPS.len() } else { 0 }) {
        all.update(&page[from..stamp.start]);
        from = stamp.end;
    }
    all.update(&page[from..]);
    all.finalize()[..8].iter().fold(0, |so_far, byte| so_far << 8 | u64::from(*byte))
}

/// A file that a database was copied into.
#[derive(Default)]
struct Copied {
    /// Bytes of a page, known by the first that is written.
    page: usize,
    /// The page at the beginning, which SQLite reads again.
    first: Vec<u8>,
    /// One that was never written has 0: the page of the locks.
    sums: Vec<u64>,
}

/// Files of this kind alone: the copy needs no journal.
struct Sink;

impl Vfs for Sink {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        if Kind::of(flags) != Kind::Database {
            return Err(Code::CANTOPEN);
        }
        let number = name.text().and_then(|text| text.trim_start_matches('/').parse().ok());
        let copied = number.and_then(|number: u64| lock(&OPEN).get(&number).cloned());
        Ok((Box::new(SinkFile(copied.ok_or(Code::CANTOPEN)?)), flags))
    }

    fn delete(&self, _name: &Name<'_>, _sync_dir: bool) -> Answer<()> {
        Err(Code::IOERR_DELETE_NOENT)
    }

    fn access(&self, _name: &Name<'_>, _flags: c_int) -> Answer<bool> {
        Ok(false)
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        Ok(name.text().unwrap_or_default().as_bytes().to_vec())
    }
}

struct SinkFile(Shared);

impl File for SinkFile {
    fn read(&mut self, _caller: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        let copied = lock(&self.0);
        let at = at as usize;
        out.fill(0);
        if at >= copied.page * copied.sums.len() {
            return Ok(0);
        }
        // Of the others nothing is left but a number.
        let there = copied.first.get(at..at + out.len()).ok_or(Code::IOERR_READ)?;
        out.copy_from_slice(there);
        Ok(there.len())
    }

    fn write(&mut self, _caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        let mut copied = lock(&self.0);
        if copied.page == 0 {
            copied.page = data.len();
        }
        if data.len() != copied.page || !at.is_multiple_of(data.len() as u64) {
            return Err(Code::IOERR_WRITE);
        }
        let n = (at / data.len() as u64) as usize;
        if n >= copied.sums.len() {
            copied.sums.resize(n + 1, 0);
        }
        copied.sums[n] = sum(data, n == 0);
        if n == 0 {
            copied.first = data.to_vec();
        }
        Ok(())
    }

    fn truncate(&mut self, _caller: Caller, size: u64) -> Answer<()> {
        let mut copied = lock(&self.0);
        let pages = size.checked_div(copied.page as u64).unwrap_or(0);
        copied.sums.truncate(pages as usize);
        Ok(())
    }

    fn sync(&mut self, _caller: Caller, _flags: c_int) -> Answer<()> {
        Ok(())
    }

    fn size(&mut self, _caller: Caller) -> Answer<u64> {
        let copied = lock(&self.0);
        Ok((copied.page * copied.sums.len()) as u64)
    }

    fn lock(&mut self, _caller: Caller, _level: Level) -> Answer<()> {
        Ok(())
    }

    fn unlock(&mut self, _caller: Caller, _level: Level) -> Answer<()> {
        Ok(())
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        Ok(false)
    }

    fn control(&mut self, _caller: Caller, _control: Control<'_>, _raw: Raw) -> Answer<Reply> {
        Ok(Reply::NotFound)
    }

    fn sector_size(&mut self) -> c_int {
        4096
    }

    fn characteristics(&mut self) -> c_int {
        flag::POWERSAFE_OVERWRITE
    }

    fn close(&mut self, _caller: Caller) -> Answer<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(page: u32, rows: u32) -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={page}; CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB);
             WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})
             INSERT INTO t SELECT x, zeroblob(x % 9000) FROM n;"
        ))
        .unwrap();
        db
    }

    #[test]
    fn sums_are_those_of_the_pages_whatever_the_copys_cache_holds() {
        // 18 MB are more than SQLite keeps of the copy.
        for (page, rows) in [(512, 10), (4096, 4000), (65_536, 300)] {
            let mut db = database(page, rows);
            let bytes = db.serialize("main").unwrap().to_vec();
            let sums = Sums::of(&db, "it").unwrap();
            assert_eq!((sums.page(), sums.bytes()), (u64::from(page), bytes.len() as u64));
            for (n, page) in bytes.chunks(page as usize).enumerate() {
                assert_eq!(sums.pages[n], sum(page, n == 0), "page {}", n + 1);
            }
            assert_eq!(sums.differs(&Sums::of(&db, "it").unwrap()), None);
        }
    }

    #[test]
    fn the_first_page_that_differs_is_named_and_stamps_are_not_content() {
        let page = vec![7u8; 4096];
        for (at, counts) in [(18, false), (27, false), (95, false), (17, true), (100, true)] {
            let mut other = page.clone();
            other[at] = 8;
            assert_eq!(sum(&page, true) != sum(&other, true), counts, "byte {at}");
            assert_ne!(sum(&page, false), sum(&other, false), "byte {at} of another page");
        }
        let db = database(4096, 100);
        let before = Sums::of(&db, "it").unwrap();
        db.execute("UPDATE t SET v = randomblob(20) WHERE k = 60", []).unwrap();
        let after = Sums::of(&db, "it").unwrap();
        assert!(before.differs(&after).is_some_and(|page| page > 1));
        let mut shorter = after.clone();
        shorter.pages.pop();
        assert_eq!(shorter.differs(&after), Some(after.pages.len() as u64));
    }
}
