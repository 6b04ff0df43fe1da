//! `SELECT varve_error()`: the store's own reason, where a program has no error log to read.
//!
//! Invariant: a function of one SQLite is given only what that SQLite made. The first one of the process that loads the
//! library has the function; a second one, which is rare, does without.

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use super::{Any, place};

/// Text is UTF-8.
const UTF8: c_int = 1;

type Body = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_void);
type Create = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    c_int,
    c_int,
    *mut c_void,
    Option<Body>,
    Option<Body>,
    Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int;
type Text = unsafe extern "C" fn(*mut c_void, *const c_char, c_int, *const c_void);
type Null = unsafe extern "C" fn(*mut c_void);

/// What the function answers with, and whose it is.
struct Answers {
    create: Create,
    text: Text,
    null: Null,
}

static ANSWERS: OnceLock<Answers> = OnceLock::new();

/// Gives the connection the function, if it takes it: one that has it already does not while a statement runs, as
/// `SELECT load_extension(..)` does.
///
/// # Safety
/// As SQLite promises for the entry point of an extension: its connection, or null, and its table of functions.
pub(super) unsafe fn offer(db: *mut c_void, table: *const Any) {
    // SAFETY: each place holds the function of that name, in every version that loads extensions.
    let (create, text, null) = unsafe {
        let get = |place: usize| *table.add(place);
        let (Some(create), Some(text), Some(null)) =
            (get(place::CREATE_FUNCTION), get(place::RESULT_TEXT), get(place::RESULT_NULL))
        else {
            return;
        };
        (
            std::mem::transmute::<unsafe extern "C" fn(), Create>(create),
            std::mem::transmute::<unsafe extern "C" fn(), Text>(text),
            std::mem::transmute::<unsafe extern "C" fn(), Null>(null),
        )
    };
    let answers = ANSWERS.get_or_init(|| Answers { create, text, null });
    if db.is_null() || answers.create as usize != create as usize {
        return;
    }
    // SAFETY: the connection is SQLite's, and the body lives as long as the library, which is for good: by now the VFS
    // is registered, and the load ends well whatever is answered here.
    let _refused = unsafe {
        let none = std::ptr::null_mut();
        create(db, c"varve_error".as_ptr(), 0, UTF8, none, Some(answer), None, None)
    };
}

unsafe extern "C" fn answer(context: *mut c_void, _: c_int, _: *mut *mut c_void) {
    // There is no better answer where there is no reason, nor after a panic.
    let reason = catch_unwind(varve_sqlite_vfs::last_reason).unwrap_or_default();
    let Some(answers) = ANSWERS.get() else { return };
    let found = reason.and_then(|reason| Some((c_int::try_from(reason.len()).ok()?, reason)));
    // SAFETY: SQLite's context of this call; it copies the text, as the last argument (-1) says.
    unsafe {
        match found {
            Some((length, text)) => {
                let copy = std::ptr::without_provenance(usize::MAX);
                (answers.text)(context, text.as_ptr().cast(), length, copy);
            }
            None => (answers.null)(context),
        }
    }
}
