//! Where the library stands: before the functions with which programs open a database. Each call goes
//! on to the SQLite that its caller would have reached.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

use varve_sqlite_vfs::{Api, PerProcess};

use crate::count;

type Any = unsafe extern "C" fn();
type Malloc = unsafe extern "C" fn(c_int) -> *mut c_void;
type Find = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Register = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Uri = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;
type Log = unsafe extern "C" fn(c_int, *const c_char, ...);
type Open = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type OpenWide = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type OpenWith =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;

const CANTOPEN: c_int = 14;
/// The next library in the order of the search, on Linux.
const NEXT: *mut c_void = -1isize as *mut c_void;
/// Lazily, and only if it is loaded already.
const LOADED: c_int = 0x1 | 0x4;
/// An answer to the unwinder: enough.
const STOP: c_int = 4;

/// What the C library tells of an address.
#[repr(C)]
struct Place {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

// SAFETY: these are the C library's and the unwinder's, with these types.
unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dladdr(address: *const c_void, place: *mut Place) -> c_int;
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

fn place_of(address: *const c_void) -> Option<Place> {
    let none = std::ptr::null_mut();
    let mut place =
        Place { file: std::ptr::null(), base: none, symbol: std::ptr::null(), address: none };
    // SAFETY: `place` is for the answer; any address may be asked for.
    let found = unsafe { dladdr(address, &raw mut place) } != 0;
    (found && !place.file.is_null()).then_some(place)
}

/// The first return address outside this library, from the unwinder.
unsafe extern "C" fn outside(frame: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the unwinder gives a frame, and `data` is the place `caller` gave it.
    unsafe {
        let address = _Unwind_GetIP(frame) as *const c_void;
        let ours = place_of(outside as *const c_void).map(|place| place.base);
        if place_of(address).map(|place| place.base) == ours {
            return 0;
        }
        *data.cast::<*const c_void>() = address;
        STOP
    }
}

/// The file that called into this library.
fn caller() -> Option<Place> {
    let mut address: *const c_void = std::ptr::null();
    // SAFETY: `outside` is of the type that the unwinder calls, and writes one address.
    unsafe { _Unwind_Backtrace(outside, (&raw mut address).cast()) };
    place_of(address)
}

/// A library in which the functions of one SQLite are found.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    /// A function of it, which is not one of ours.
    fn function(self, name: &CStr) -> Option<Any> {
        // SAFETY: the text ends with a zero; a handle that was found stays valid.
        let found = unsafe { dlsym(self.0, name.as_ptr()) };
        let base = |place: Place| place.base;
        let ours = place_of(outside as *const c_void).map(base);
        if found.is_null() || place_of(found).map(base) == ours {
            return None;
        }
        // SAFETY: a place of code that is not null.
        Some(unsafe { std::mem::transmute::<*mut c_void, Any>(found) })
    }

    /// Where the caller's SQLite is: in the caller's file or in what that file needs; else the
    /// process's shared one, else whatever comes next in the order of the search.
    fn of_caller(name: &CStr) -> Option<Library> {
        let loaded = |name: *const c_char| {
            // SAFETY: the text ends with a zero; nothing is loaded.
            let library = unsafe { dlopen(name, LOADED) };
            (!library.is_null()).then_some(Library(library))
        };
        let own = caller().and_then(|place| loaded(place.file));
        [own, loaded(c"libsqlite3.so.0".as_ptr()), Some(Library(NEXT))]
            .into_iter()
            .flatten()
            .find(|library| library.function(name).is_some())
    }

    /// Starts to count before the first database of this SQLite is opened, if somebody wants that.
    fn count(self) {
        // By the place of a function, because several handles may mean one library.
        static KNOWN: PerProcess<Mutex<Vec<usize>>> = PerProcess::new();
        if !count::wanted() {
            return;
        }
        let Some(register) = self.function(c"sqlite3_vfs_register") else { return };
        {
            let mut known = KNOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
            if known.contains(&(register as usize)) {
                return;
            }
            known.push(register as usize);
        }
        let api = || {
            // SAFETY: SQLite's functions of these names have these types in every version.
            unsafe {
                Some(Api::new(
                    std::mem::transmute::<Any, Find>(self.function(c"sqlite3_vfs_find")?),
                    std::mem::transmute::<Any, Register>(register),
                    std::mem::transmute::<Any, Uri>(self.function(c"sqlite3_uri_parameter")?),
                    std::mem::transmute::<Any, Malloc>(self.function(c"sqlite3_malloc")?),
                    std::mem::transmute::<Any, Log>(self.function(c"sqlite3_log")?),
                ))
            }
        };
        if let Some(api) = api() {
            count::start(&api);
        }
    }
}

/// The function `name` of the SQLite that the caller means, which is counted from here on.
fn real(name: &CStr) -> Option<Any> {
    let found = catch_unwind(|| {
        let library = Library::of_caller(name)?;
        library.count();
        library.function(name)
    });
    found.ok().flatten()
}

/// # Safety
/// As SQLite's function of that name.
// SAFETY: stands before the one of SQLite on purpose, and does what that does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open(name: *const c_char, db: *mut *mut c_void) -> c_int {
    let Some(open) = real(c"sqlite3_open") else { return CANTOPEN };
    // SAFETY: the type of SQLite's function; the arguments are the caller's.
    unsafe { std::mem::transmute::<Any, Open>(open)(name, db) }
}

/// # Safety
/// As SQLite's function of that name.
// SAFETY: stands before the one of SQLite on purpose, and does what that does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open16(name: *const c_void, db: *mut *mut c_void) -> c_int {
    let Some(open) = real(c"sqlite3_open16") else { return CANTOPEN };
    // SAFETY: the type of SQLite's function; the arguments are the caller's.
    unsafe { std::mem::transmute::<Any, OpenWide>(open)(name, db) }
}

/// # Safety
/// As SQLite's function of that name.
// SAFETY: stands before the one of SQLite on purpose, and does what that does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open_v2(
    name: *const c_char,
    db: *mut *mut c_void,
    flags: c_int,
    vfs: *const c_char,
) -> c_int {
    let Some(open) = real(c"sqlite3_open_v2") else { return CANTOPEN };
    // SAFETY: the type of SQLite's function; the arguments are the caller's.
    unsafe { std::mem::transmute::<Any, OpenWith>(open)(name, db, flags, vfs) }
}
