//! A database of an experiment: files in memory, somebody who listens, and a connection.
//!
//! One VFS serves all stages of the process, each in a room of its own, because what is registered
//! with SQLite stays registered. A stage leaves with its room.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags, ffi};
use varve_sqlite_vfs::event::Observer;
use varve_sqlite_vfs::vfs::{Answer, Code, File, Vfs};
use varve_sqlite_vfs::{Api, Name, RegisterError, register};

use super::{Memory, Watched};

/// The name under which SQLite knows the rooms.
const VFS: &str = "varve-stage";

type Rooms = BTreeMap<u64, Arc<Watched<Memory>>>;

static ROOMS: Mutex<Rooms> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);
static REGISTERED: LazyLock<Result<(), RegisterError>> = LazyLock::new(|| {
    register(&api(), VFS, false, |_| Box::new(Lobby { temporary: Memory::new(0) }))
});

/// The functions of the SQLite that this program carries.
pub fn api() -> Api {
    Api::new(
        ffi::sqlite3_vfs_find,
        ffi::sqlite3_vfs_register,
        ffi::sqlite3_uri_parameter,
        ffi::sqlite3_malloc,
        ffi::sqlite3_log,
    )
}

fn rooms() -> MutexGuard<'static, Rooms> {
    ROOMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leads calls to the room in their name, `/ROOM/FILE`; nameless files are nobody's.
struct Lobby {
    temporary: Memory,
}

impl Lobby {
    fn room(name: &Name<'_>) -> Answer<Arc<Watched<Memory>>> {
        let room = name.text().and_then(|text| text.split('/').nth(1)?.parse().ok());
        room.and_then(|room: u64| rooms().get(&room).cloned()).ok_or(Code::CANTOPEN)
    }
}

impl Vfs for Lobby {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        match name.text() {
            None => self.temporary.open(name, flags),
            Some(_) => Lobby::room(name)?.open(name, flags),
        }
    }

    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        Lobby::room(name)?.delete(name, sync_dir)
    }

    fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool> {
        Lobby::room(name)?.access(name, flags)
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        Lobby::room(name)?.full_path(name)
    }

    fn randomness(&self, out: &mut [u8]) -> bool {
        self.temporary.randomness(out)
    }

    fn time(&self) -> Option<i64> {
        self.temporary.time()
    }
}

/// Why a stage cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// SQLite does not take the VFS.
    #[error("the VFS is not registered: {0}")]
    Register(String),
    /// SQLite refuses.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// A setting was not taken.
    #[error("PRAGMA {pragma} answered {answer}")]
    Setting {
        /// The setting, with the value asked for.
        pragma: String,
        /// What SQLite said.
        answer: String,
    },
}

/// `PRAGMA synchronous`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Synchronous {
    /// Never sync.
    Off,
    /// Sync WAL at checkpoints only.
    Normal,
    /// Sync at every commit.
    Full,
}

/// How a database is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `journal_mode`: `delete`, `memory`, `wal`, ..
    pub journal: &'static str,
    /// `synchronous`.
    pub synchronous: Synchronous,
    /// `locking_mode=EXCLUSIVE`.
    pub exclusive: bool,
    /// Pages SQLite keeps in its cache.
    pub cache: u32,
    /// Frames after which a checkpoint is made.
    pub checkpoint: u32,
}

impl Settings {
    /// Those of the byte tables: cache 4096 pages, checkpoints at 1000, locking NORMAL.
    pub const fn new(journal: &'static str, synchronous: Synchronous) -> Settings {
        Settings { journal, synchronous, exclusive: false, cache: 4096, checkpoint: 1000 }
    }

    /// The same under locking EXCLUSIVE.
    pub const fn exclusive(mut self, exclusive: bool) -> Settings {
        self.exclusive = exclusive;
        self
    }

    /// The same with a checkpoint after so many frames.
    pub const fn checkpoint(mut self, frames: u32) -> Settings {
        self.checkpoint = frames;
        self
    }

    /// Tells a connection.
    ///
    /// # Errors
    /// SQLite's, or a journal mode it did not take.
    pub fn apply(&self, db: &Connection) -> Result<(), StageError> {
        let locking = if self.exclusive { "exclusive" } else { "normal" };
        for (pragma, value) in [("locking_mode", locking), ("journal_mode", self.journal)] {
            let sql = format!("PRAGMA {pragma}={value}");
            let answer: String = db.query_row(&sql, [], |row| row.get(0))?;
            if !answer.eq_ignore_ascii_case(value) {
                return Err(StageError::Setting { pragma: format!("{pragma}={value}"), answer });
            }
        }
        db.execute_batch(&format!(
            "PRAGMA synchronous={}; PRAGMA cache_size={}; PRAGMA temp_store=MEMORY;",
            self.synchronous as u8, self.cache
        ))?;
        let sql = format!("PRAGMA wal_autocheckpoint={}", self.checkpoint);
        db.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
        Ok(())
    }
}

/// A room with its files and its listener.
#[derive(Debug)]
pub struct Stage {
    room: u64,
}

impl Stage {
    /// Puts `files` into a room where `observer` listens.
    ///
    /// # Errors
    /// [`StageError::Register`].
    pub fn new(files: &Memory, observer: Arc<dyn Observer>) -> Result<Stage, StageError> {
        if let Err(error) = &*REGISTERED {
            return Err(StageError::Register(error.to_string()));
        }
        let room = NEXT.fetch_add(1, Ordering::Relaxed);
        rooms().insert(room, Arc::new(Watched::new(files.clone(), observer)));
        Ok(Stage { room })
    }

    /// Opens a database of the room.
    ///
    /// # Errors
    /// SQLite's, or a setting it does not take.
    pub fn open(&self, name: &str, settings: &Settings) -> Result<Connection, StageError> {
        let db = self.open_as_it_is(name)?;
        settings.apply(&db)?;
        Ok(db)
    }

    /// Opens a database of the room with the settings it has.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open_as_it_is(&self, name: &str) -> Result<Connection, StageError> {
        let path = format!("/{}/{name}", self.room);
        Ok(Connection::open_with_flags_and_vfs(path, OpenFlags::default(), VFS)?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        rooms().remove(&self.room);
    }
}
