//! The symbols a host looks for: the only module with unsafe code.

mod function;

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

use varve_sqlite_vfs::Api;

use crate::setup::start;

const ERROR: c_int = 1;
/// The VFS outlives the connection that loaded it.
const OK_LOAD_PERMANENTLY: c_int = 256;

/// A function of the host's table, of a type of its own.
type Any = Option<unsafe extern "C" fn()>;

/// Places in SQLite's table of functions for extensions. New functions are added at its end, so
/// these hold for every version that has them; the last one came with SQLite 3.7.16.
mod place {
    pub(super) const CREATE_FUNCTION: usize = 45;
    pub(super) const LIBVERSION_NUMBER: usize = 67;
    pub(super) const MALLOC: usize = 68;
    pub(super) const RESULT_NULL: usize = 84;
    pub(super) const RESULT_TEXT: usize = 85;
    pub(super) const VFS_FIND: usize = 141;
    pub(super) const VFS_REGISTER: usize = 142;
    pub(super) const LOG: usize = 167;
    pub(super) const URI_PARAMETER: usize = 189;
}
/// The oldest SQLite the file controls in use are known of.
const OLDEST: c_int = 3_037_000;

type Version = unsafe extern "C" fn() -> c_int;
type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;
type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Register = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Uri = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
type Log = unsafe extern "C" fn(c_int, *const c_char, ...);

/// # Safety
/// `table` is the host's table of functions for extensions.
unsafe fn api_of(table: *const Any) -> Result<(Api, usize), String> {
    // SAFETY: the table is at least this long in every version that loads extensions and is not
    // older than `OLDEST`, and each place holds the function of that name.
    unsafe {
        let get = |place: usize| (*table.add(place)).ok_or("the host lacks a function".to_string());
        let version = std::mem::transmute::<unsafe extern "C" fn(), Version>(get(
            place::LIBVERSION_NUMBER,
        )?)();
        if version < OLDEST {
            return Err(format!("SQLite {version} is older than {OLDEST}"));
        }
        let find = std::mem::transmute::<unsafe extern "C" fn(), Find>(get(place::VFS_FIND)?);
        let api = Api::new(
            find,
            std::mem::transmute::<unsafe extern "C" fn(), Register>(get(place::VFS_REGISTER)?),
            std::mem::transmute::<unsafe extern "C" fn(), Uri>(get(place::URI_PARAMETER)?),
            std::mem::transmute::<unsafe extern "C" fn(), Malloc>(get(place::MALLOC)?),
            std::mem::transmute::<unsafe extern "C" fn(), Log>(get(place::LOG)?),
        );
        Ok((api, find as usize))
    }
}

/// # Safety
/// As SQLite promises for the entry point of an extension.
unsafe fn load(
    db: *mut c_void,
    error: *mut *mut c_char,
    table: *const Any,
    default: bool,
) -> c_int {
    let done = catch_unwind(|| {
        // SAFETY: by the promise above.
        let (api, host) = unsafe { api_of(table) }?;
        start(&api, host, default)?;
        // SAFETY: the same.
        unsafe { function::offer(db, table) };
        Ok::<(), String>(())
    });
    let reason = match done {
        Ok(Ok(())) => return OK_LOAD_PERMANENTLY,
        Ok(Err(reason)) => reason,
        Err(_) => "panic".to_string(),
    };
    // SAFETY: SQLite gives a place for a text that it frees, or null; the table has malloc.
    unsafe {
        if let (false, Some(malloc)) = (error.is_null(), *table.add(place::MALLOC)) {
            let malloc = std::mem::transmute::<unsafe extern "C" fn(), Malloc>(malloc);
            let text = malloc(reason.len() as c_int + 1).cast::<u8>();
            if !text.is_null() {
                std::ptr::copy_nonoverlapping(reason.as_ptr(), text, reason.len());
                text.add(reason.len()).write(0);
                *error = text.cast();
            }
        }
    }
    ERROR
}

/// The entry point SQLite tries first.
///
/// # Safety
/// SQLite calls it, with its table of functions.
// SAFETY: no other library in a process that loads extensions resolves this name through us.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut c_void,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's promise for entry points.
    unsafe { load(db, error, table.cast(), false) }
}

/// The entry point SQLite makes from the name of the library.
///
/// # Safety
/// SQLite calls it, with its table of functions.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_varvesqlite_init(
    db: *mut c_void,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's promise for entry points.
    unsafe { load(db, error, table.cast(), false) }
}

/// The entry point for programs that name files and nothing else: from here on names that end in `.varve` are images
/// for whoever asks for no VFS; all other files are what they were.
///
/// # Safety
/// SQLite calls it, with its table of functions.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_varve_default(
    db: *mut c_void,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: SQLite's promise for entry points.
    unsafe { load(db, error, table.cast(), true) }
}

/// For hosts that cannot load extensions: registers the VFS with the SQLite whose functions these
/// are. 0, or 1 if it could not be registered.
///
/// # Safety
/// The five are `sqlite3_vfs_find`, `sqlite3_vfs_register`, `sqlite3_uri_parameter`,
/// `sqlite3_malloc` and `sqlite3_log` of one SQLite.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_sqlite_register(
    find: Option<Find>,
    register: Option<Register>,
    uri: Option<Uri>,
    malloc: Option<Malloc>,
    log: Option<Log>,
) -> c_int {
    let done = catch_unwind(|| {
        let lacks = || "the host lacks a function".to_string();
        let find = find.ok_or_else(lacks)?;
        let api = Api::new(
            find,
            register.ok_or_else(lacks)?,
            uri.ok_or_else(lacks)?,
            malloc.ok_or_else(lacks)?,
            log.ok_or_else(lacks)?,
        );
        start(&api, find as usize, false)
    });
    c_int::from(!matches!(done, Ok(Ok(()))))
}

/// The store's last reason in this process, for hosts whose SQLite gives them no error log and no functions: as much
/// of it as `room` bytes hold, NUL-ended. Its length in bytes, whatever the room; 0 if there is none.
///
/// # Safety
/// `out` is a place of `room` bytes, or `room` is 0.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_sqlite_error(out: *mut c_char, room: c_int) -> c_int {
    let reason = catch_unwind(varve_sqlite_vfs::last_reason).unwrap_or_default();
    let (reason, room) = (reason.unwrap_or_default(), usize::try_from(room).unwrap_or(0));
    if !out.is_null() && room > 0 {
        let taken = reason.len().min(room - 1);
        // SAFETY: by the promise above, there are `room` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(reason.as_ptr(), out.cast(), taken);
            out.add(taken).write(0);
        }
    }
    c_int::try_from(reason.len()).unwrap_or(c_int::MAX)
}
