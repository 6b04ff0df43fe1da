//! The symbols that the test program calls: the only module with unsafe code.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;

use varve_sqlite_vfs::Api;

use crate::setup::{folder, start};

type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Register = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Uri = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;
type Log = unsafe extern "C" fn(c_int, *const c_char, ...);

/// Registers the VFS `varve` over a new store in memory. 0, or 1 if it could not; the reason goes
/// to standard error.
///
/// # Safety
/// The five are `sqlite3_vfs_find`, `sqlite3_vfs_register`, `sqlite3_uri_parameter`,
/// `sqlite3_malloc` and `sqlite3_log` of the program's SQLite.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_suite_store(
    find: Find,
    register: Register,
    uri: Uri,
    malloc: Malloc,
    log: Log,
) -> c_int {
    answer(catch_unwind(|| start(&Api::new(find, register, uri, malloc, log))))
}

/// Keeps the files of a folder in a store of their own. 0, or 1 if that cannot be.
///
/// # Safety
/// `name` is NUL-ended.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_suite_folder(name: *const c_char) -> c_int {
    // SAFETY: by the promise above.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    answer(catch_unwind(|| folder(&name)))
}

fn answer(done: std::thread::Result<Result<(), String>>) -> c_int {
    match done {
        Ok(Ok(())) => 0,
        Ok(Err(reason)) => {
            eprintln!("varve-sqlite-suite: {reason}");
            1
        }
        Err(_) => 1,
    }
}
