//! The few functions of the process's SQLite that a VFS needs.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use std::sync::{Mutex, PoisonError};

use super::ffi::sqlite3_vfs;

/// What was written to the error log last. Most languages give a program no way to read that log.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// The last reason that a VFS of this crate gave in this process, whichever connection it was for.
pub fn last_reason() -> Option<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Functions of one SQLite: a bundled one, or the host's through an extension's table. This crate
/// links to none of its own.
#[derive(Clone, Copy)]
pub struct Api {
    pub(super) find: unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs,
    pub(super) register: unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int,
    pub(super) uri: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    pub(super) malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub(super) log: unsafe extern "C" fn(c_int, *const c_char, ...),
}

impl Api {
    /// From `sqlite3_vfs_find`, `sqlite3_vfs_register`, `sqlite3_uri_parameter`, `sqlite3_malloc`
    /// and `sqlite3_log` of one and the same SQLite, in this order. `V` is the caller's own
    /// declaration of `sqlite3_vfs`. Other functions than these are the caller's fault, as they
    /// would be in any declaration of a foreign function.
    pub fn new<V>(
        find: unsafe extern "C" fn(*const c_char) -> *mut V,
        register: unsafe extern "C" fn(*mut V, c_int) -> c_int,
        uri: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
        malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
        log: unsafe extern "C" fn(c_int, *const c_char, ...),
    ) -> Api {
        // SAFETY: both types are functions over a thin pointer to SQLite's one `sqlite3_vfs`, which
        // the two declarations only name differently; calling conventions and sizes are the same.
        let (find, register) = unsafe {
            (
                std::mem::transmute::<
                    unsafe extern "C" fn(*const c_char) -> *mut V,
                    unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs,
                >(find),
                std::mem::transmute::<
                    unsafe extern "C" fn(*mut V, c_int) -> c_int,
                    unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int,
                >(register),
            )
        };
        Api { find, register, uri, malloc, log }
    }

    /// Writes a line to SQLite's error log (the shell shows it after `.log stderr`).
    pub(crate) fn log(&self, code: c_int, text: &str) {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_string());
        let Ok(text) = CString::new(text) else { return };
        // SAFETY: the format takes one string, and one NUL-ended string follows.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) }
    }

    /// A copy of `text` that SQLite may free; null when memory has run out.
    pub(super) fn text(&self, text: &str) -> *mut c_char {
        let clean: Vec<u8> = text.bytes().filter(|b| *b != 0).collect();
        let Ok(length) = c_int::try_from(clean.len() + 1) else { return std::ptr::null_mut() };
        // SAFETY: `sqlite3_malloc` may be called at any time after SQLite was initialised, which
        // registering a VFS does; `length` is positive.
        let place = unsafe { (self.malloc)(length) }.cast::<u8>();
        if !place.is_null() {
            // SAFETY: the block is `length` bytes long and nobody else knows it yet.
            unsafe {
                std::ptr::copy_nonoverlapping(clean.as_ptr(), place, clean.len());
                place.add(clean.len()).write(0);
            }
        }
        place.cast()
    }

    /// The parameter `key` of the URI that `name` was opened with.
    ///
    /// # Safety
    /// `name` is null or the name SQLite gave to xOpen of a main database, journal or WAL.
    pub(super) unsafe fn parameter(&self, name: *const c_char, key: &CStr) -> Option<String> {
        if name.is_null() {
            return None;
        }
        // SAFETY: by the promise above; the answer lies in the same block as the name.
        let found = unsafe { (self.uri)(name, key.as_ptr()) };
        // SAFETY: `sqlite3_uri_parameter` answers null or a NUL-ended text.
        (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_string_lossy().into_owned())
    }
}
