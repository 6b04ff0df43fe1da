//! SQLite's file interface as safe Rust: what a VFS of this crate implements.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use crate::abi::Name;

/// An SQLite result code that is not `SQLITE_OK`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub c_int);

#[allow(missing_docs)] // SQLite's own names.
impl Code {
    pub const ERROR: Code = Code(1);
    pub const BUSY: Code = Code(5);
    pub const READONLY: Code = Code(8);
    pub const BUSY_SNAPSHOT: Code = Code(517);
    pub const IOERR: Code = Code(10);
    pub const FULL: Code = Code(13);
    pub const CANTOPEN: Code = Code(14);
    pub const IOERR_READ: Code = Code(266);
    pub const IOERR_SHORT_READ: Code = Code(522);
    pub const IOERR_WRITE: Code = Code(778);
    pub const IOERR_FSYNC: Code = Code(1034);
    pub const IOERR_TRUNCATE: Code = Code(1546);
    pub const IOERR_FSTAT: Code = Code(1802);
    pub const IOERR_DELETE: Code = Code(2570);
    pub const IOERR_LOCK: Code = Code(3850);
    pub const IOERR_SHMOPEN: Code = Code(4618);
    pub const IOERR_DELETE_NOENT: Code = Code(5898);
}

/// Flags of xOpen and bits of xDeviceCharacteristics.
#[allow(missing_docs)] // SQLite's own names.
pub mod flag {
    use std::ffi::c_int;
    pub const READONLY: c_int = 0x1;
    pub const READWRITE: c_int = 0x2;
    pub const CREATE: c_int = 0x4;
    pub const DELETEONCLOSE: c_int = 0x8;
    pub const EXCLUSIVE: c_int = 0x10;
    pub const MAIN_DB: c_int = 0x100;
    pub const MAIN_JOURNAL: c_int = 0x800;
    pub const SUPER_JOURNAL: c_int = 0x4000;
    pub const WAL: c_int = 0x0008_0000;
    pub const BATCH_ATOMIC: c_int = 0x4000;
    pub const POWERSAFE_OVERWRITE: c_int = 0x1000;
    pub const SHM_UNLOCK: c_int = 1;
    pub const SHM_LOCK: c_int = 2;
    pub const SHM_SHARED: c_int = 4;
    pub const SHM_EXCLUSIVE: c_int = 8;
}

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A database.
    Database,
    /// Its rollback journal.
    Journal,
    /// The journal that binds several journals to one commit.
    Super,
    /// A write-ahead log.
    Wal,
    /// Anything temporary.
    Temp,
}

impl Kind {
    /// The kind that the flags of xOpen name.
    pub fn of(flags: c_int) -> Kind {
        match flags {
            f if f & flag::MAIN_DB != 0 => Kind::Database,
            f if f & flag::MAIN_JOURNAL != 0 => Kind::Journal,
            f if f & flag::SUPER_JOURNAL != 0 => Kind::Super,
            f if f & flag::WAL != 0 => Kind::Wal,
            _ => Kind::Temp,
        }
    }

    /// The kind that a name tells: xDelete has no flags.
    pub fn of_name(name: &str) -> Kind {
        let file = name.rsplit('/').next().unwrap_or(name);
        match file {
            f if f.ends_with("-journal") => Kind::Journal,
            f if f.ends_with("-wal") => Kind::Wal,
            f if f.rfind("-mj").is_some_and(|at| f.len() - at == 12) => Kind::Super,
            _ => Kind::Database,
        }
    }
}

/// The five states of a database lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// No lock.
    None = 0,
    /// May read.
    Shared = 1,
    /// Will write; others may still read.
    Reserved = 2,
    /// Waits for readers to leave; no new ones.
    Pending = 3,
    /// Writes.
    Exclusive = 4,
}

impl Level {
    /// From SQLite's number.
    pub fn of(level: c_int) -> Level {
        match level {
            0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            _ => Level::Exclusive,
        }
    }
}

/// The connection on whose behalf a call comes: an address that is compared, never followed.
/// `None` before SQLite has told (`SQLITE_FCNTL_PDB`), and for files that never learn it.
pub type Caller = Option<usize>;

/// A file control.
#[derive(Debug)]
pub enum Control<'a> {
    /// A database is about to be synced, or would be but for `synchronous=OFF`.
    Sync,
    /// The transaction is over and kept.
    CommitPhaseTwo,
    /// BATCH_ATOMIC: what follows belongs together.
    BatchBegin,
    /// BATCH_ATOMIC: make it durable.
    BatchCommit,
    /// BATCH_ATOMIC: forget it.
    BatchRollback,
    /// A checkpoint begins.
    CheckpointStart,
    /// A checkpoint has copied its pages.
    CheckpointDone,
    /// A PRAGMA, before SQLite looks at it.
    Pragma(&'a str, Option<&'a str>),
    /// Whose VFS is this?
    VfsName,
    /// Has the file been moved or deleted under the connection?
    HasMoved,
    /// How much may be mapped?
    MmapSize,
    /// The database will become this large.
    SizeHint(i64),
    /// Any other.
    Other(c_int),
}

/// The answer to a file control.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, or nothing to do.
    Done,
    /// Not for this VFS; SQLite goes on as without it.
    NotFound,
    /// A text: the result of a PRAGMA, the VFS's name.
    Text(String),
    /// A number.
    Number(i64),
    /// A PRAGMA that is refused, and why.
    Refused(String),
}

/// A control that a wrapper passes on as it came.
#[derive(Clone, Copy)]
pub struct Raw {
    pub(crate) op: c_int,
    pub(crate) argument: *mut c_void,
}

/// A region of shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Where it is: null if it is not there and not to be made.
    pub at: *mut c_void,
    /// What SQLite is told beside: `SQLITE_READONLY` of one that may only be read.
    pub code: Option<Code>,
}

impl From<*mut c_void> for Region {
    fn from(at: *mut c_void) -> Region {
        Region { at, code: None }
    }
}

/// A result with SQLite's code as its error.
pub type Answer<T> = Result<T, Code>;

/// A set of files under names.
pub trait Vfs: Send + Sync {
    /// Opens a file; also answers the flags it was opened with.
    ///
    /// # Errors
    /// An SQLite code.
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)>;

    /// Deletes a file.
    ///
    /// # Errors
    /// [`Code::IOERR_DELETE_NOENT`] if there is none.
    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()>;

    /// Whether a file is there, or may be used as `flags` say.
    ///
    /// # Errors
    /// An SQLite code.
    fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool>;

    /// The one name that stands for `name` from now on.
    ///
    /// # Errors
    /// An SQLite code.
    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>>;

    /// Fills `out` with random bytes; `false`: take the host's.
    fn randomness(&self, _out: &mut [u8]) -> bool {
        false
    }

    /// Milliseconds since noon of 24 November 4714 BC; `None`: take the host's.
    fn time(&self) -> Option<i64> {
        None
    }

    /// Sleeps, because the caller has found a lock taken, until it is worth to try again or the time is over;
    /// `false`: let the host sleep.
    fn sleep(&self, _time: Duration) -> bool {
        false
    }

    /// The reason of the last error, for `sqlite3_log`.
    fn last_error(&self) -> Option<String> {
        None
    }
}

/// An open file. Every method answers with an SQLite code when it fails.
#[allow(clippy::missing_errors_doc)]
pub trait File: Send {
    /// Reads, and answers how many bytes there were: the rest is filled with zeroes.
    fn read(&mut self, caller: Caller, out: &mut [u8], at: u64) -> Answer<usize>;
    /// Writes, and lets the file grow.
    fn write(&mut self, caller: Caller, data: &[u8], at: u64) -> Answer<()>;
    /// Cuts the file to a length.
    fn truncate(&mut self, caller: Caller, size: u64) -> Answer<()>;
    /// Makes what was written durable.
    fn sync(&mut self, caller: Caller, flags: c_int) -> Answer<()>;
    /// The exact length.
    fn size(&mut self, caller: Caller) -> Answer<u64>;
    /// Raises the lock.
    fn lock(&mut self, caller: Caller, level: Level) -> Answer<()>;
    /// Lowers the lock.
    fn unlock(&mut self, caller: Caller, level: Level) -> Answer<()>;
    /// Whether anybody holds more than a shared lock.
    fn check_reserved(&mut self) -> Answer<bool>;
    /// A file control; `raw` is the same for those who pass it on.
    fn control(&mut self, caller: Caller, control: Control<'_>, raw: Raw) -> Answer<Reply>;
    /// Sector size.
    fn sector_size(&mut self) -> c_int;
    /// Characteristics of the device.
    fn characteristics(&mut self) -> c_int;
    /// Closes the file.
    fn close(&mut self, caller: Caller) -> Answer<()>;
    /// Why the last call failed, once: SQLite's log is told.
    fn reason(&mut self) -> Option<String> {
        None
    }
    /// Whether the four methods below work.
    fn has_shm(&self) -> bool {
        false
    }
    /// A region of shared memory. It stays valid until this file's [`File::shm_unmap`].
    fn shm_map(&mut self, _region: usize, _bytes: usize, _extend: bool) -> Answer<Region> {
        Err(Code::IOERR_SHMOPEN)
    }
    /// Takes or leaves locks `first .. first + count` of the shared memory.
    fn shm_lock(&mut self, _first: usize, _count: usize, _flags: c_int) -> Answer<()> {
        Err(Code::IOERR_SHMOPEN)
    }
    /// Orders accesses to the shared memory.
    fn shm_barrier(&mut self) {}
    /// Leaves the shared memory.
    fn shm_unmap(&mut self, _delete: bool) -> Answer<()> {
        Ok(())
    }
}
