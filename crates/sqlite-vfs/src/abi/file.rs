//! The methods of an open file: from SQLite's table of functions to `dyn File`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Api;
use super::ffi::{fcntl, sqlite3_file, sqlite3_io_methods};
use crate::vfs::{Answer, Caller, Code, Control, File, Level, Raw, Reply};

/// What lies in the `szOsFile` bytes that SQLite gives to xOpen.
#[repr(C)]
pub(super) struct Open {
    base: sqlite3_file,
    /// From `Box::into_raw`, null once closed.
    file: *mut Box<dyn File>,
    /// From `SQLITE_FCNTL_PDB`: where SQLite keeps the connection that uses the file.
    connection: *const *const c_void,
    api: Api,
}

impl Open {
    /// # Safety
    /// `place` is the block that xOpen was given.
    pub(super) unsafe fn install(place: *mut sqlite3_file, file: Box<dyn File>, api: Api) {
        let base = sqlite3_file { pMethods: if file.has_shm() { &WITH_SHM } else { &WITHOUT_SHM } };
        let file = Box::into_raw(Box::new(file));
        let open = Open { base, file, connection: std::ptr::null(), api };
        // SAFETY: the block is `szOsFile` bytes long, which is the size of an `Open`, and aligned
        // for any pointer.
        unsafe { place.cast::<Open>().write(open) }
    }

    fn caller(&self) -> Caller {
        if self.connection.is_null() {
            return None;
        }
        // SAFETY: SQLite keeps what it named by `SQLITE_FCNTL_PDB` until it has closed the file.
        Some(unsafe { *self.connection } as usize)
    }
}

/// Runs `body` on the file behind `place`. A panic becomes `SQLITE_IOERR`.
///
/// # Safety
/// `place` was filled by [`Open::install`], and SQLite makes no other call on this file meanwhile.
unsafe fn with(
    place: *mut sqlite3_file,
    body: impl FnOnce(&mut dyn File, Caller) -> Answer<()>,
) -> c_int {
    // SAFETY: by the promise above.
    let open = unsafe { &mut *place.cast::<Open>() };
    if open.file.is_null() {
        return Code::IOERR.0;
    }
    let caller = open.caller();
    // SAFETY: the box lives until xClose, and SQLite does not use one file from two threads at once.
    let file = unsafe { &mut *open.file };
    let (mut file, api) = (AssertUnwindSafe(file), open.api);
    let done = code(catch_unwind(AssertUnwindSafe(|| body(file.as_mut(), caller))));
    // A panic here is one of a file that has just failed.
    if done != 0
        && let Ok(Some(reason)) = catch_unwind(AssertUnwindSafe(|| file.reason()))
    {
        api.log(done, &reason);
    }
    done
}

/// The result code of a call that may have panicked.
pub(super) fn code(done: std::thread::Result<Answer<()>>) -> c_int {
    match done {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::IOERR.0,
    }
}

fn offset(at: i64) -> Answer<u64> {
    u64::try_from(at).map_err(|_| Code::IOERR)
}

unsafe extern "C" fn close(place: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    let done = unsafe { with(place, |file, caller| file.close(caller)) };
    // SAFETY: as above; the box came from `into_raw` and is taken back once.
    unsafe {
        let open = &mut *place.cast::<Open>();
        let file = std::mem::replace(&mut open.file, std::ptr::null_mut());
        open.base.pMethods = std::ptr::null();
        if !file.is_null() && catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(file)))).is_err()
        {
            return Code::IOERR.0;
        }
    }
    done
}

unsafe extern "C" fn read(
    place: *mut sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    at: i64,
) -> c_int {
    let amount = usize::try_from(amount).unwrap_or(0);
    // SAFETY: SQLite gives a buffer of `amount` bytes; it is made of plain bytes, and zeroed first
    // because Rust may not see memory that nobody has written.
    let out = unsafe {
        std::ptr::write_bytes(out.cast::<u8>(), 0, amount);
        std::slice::from_raw_parts_mut(out.cast::<u8>(), amount)
    };
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe {
        with(place, |file, caller| {
            let got = file
                .read(caller, out, offset(at)?)
                .map_err(|c| if c == Code::IOERR { Code::IOERR_READ } else { c })?;
            if got >= out.len() {
                return Ok(());
            }
            out[got..].fill(0);
            Err(Code::IOERR_SHORT_READ)
        })
    }
}

unsafe extern "C" fn write(
    place: *mut sqlite3_file,
    data: *const c_void,
    amount: c_int,
    at: i64,
) -> c_int {
    let amount = usize::try_from(amount).unwrap_or(0);
    // SAFETY: SQLite gives `amount` bytes, which it does not change during the call.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), amount) };
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, caller| file.write(caller, data, offset(at)?)) }
}

unsafe extern "C" fn truncate(place: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, caller| file.truncate(caller, offset(size)?)) }
}

unsafe extern "C" fn sync(place: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, caller| file.sync(caller, flags)) }
}

unsafe extern "C" fn size(place: *mut sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled, and a place for the answer.
    unsafe {
        with(place, |file, caller| {
            *out = i64::try_from(file.size(caller)?).map_err(|_| Code::IOERR)?;
            Ok(())
        })
    }
}

unsafe extern "C" fn lock(place: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, caller| file.lock(caller, Level::of(level))) }
}

unsafe extern "C" fn unlock(place: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, caller| file.unlock(caller, Level::of(level))) }
}

unsafe extern "C" fn check_reserved(place: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled, and a place for the answer.
    unsafe {
        with(place, |file, _| {
            *out = c_int::from(file.check_reserved()?);
            Ok(())
        })
    }
}

/// A text of SQLite's, or nothing if the pointer is null.
///
/// # Safety
/// `text` is null or NUL-ended.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: by the promise above.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

unsafe extern "C" fn control(place: *mut sqlite3_file, op: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    let open = unsafe { &mut *place.cast::<Open>() };
    let api = open.api;
    if op == fcntl::PDB {
        open.connection = argument.cast::<*const c_void>().cast_const();
    }
    let (mut name, mut value) = (None, None);
    if op == fcntl::PRAGMA {
        // SAFETY: SQLite gives three texts: place of the answer, name, value or null.
        unsafe {
            let texts = argument.cast::<*const c_char>();
            name = text(*texts.add(1));
            value = text(*texts.add(2));
        }
    }
    let control = match op {
        fcntl::SYNC => Control::Sync,
        fcntl::COMMIT_PHASETWO => Control::CommitPhaseTwo,
        fcntl::BEGIN_ATOMIC => Control::BatchBegin,
        fcntl::COMMIT_ATOMIC => Control::BatchCommit,
        fcntl::ROLLBACK_ATOMIC => Control::BatchRollback,
        fcntl::CKPT_START => Control::CheckpointStart,
        fcntl::CKPT_DONE => Control::CheckpointDone,
        fcntl::PRAGMA => Control::Pragma(name.as_deref().unwrap_or(""), value.as_deref()),
        fcntl::VFSNAME => Control::VfsName,
        fcntl::HAS_MOVED => Control::HasMoved,
        fcntl::MMAP_SIZE => Control::MmapSize,
        // SAFETY: for this control SQLite gives the address of an i64.
        fcntl::SIZE_HINT => Control::SizeHint(unsafe { *argument.cast::<i64>() }),
        other => Control::Other(other),
    };
    let mut answer = Reply::NotFound;
    // SAFETY: SQLite calls with a file that xOpen filled.
    let done = unsafe {
        with(place, |file, caller| {
            answer = file.control(caller, control, Raw { op, argument })?;
            Ok(())
        })
    };
    if done != 0 {
        return done;
    }
    match answer {
        Reply::Done => 0,
        Reply::NotFound => 12,
        Reply::Text(text) | Reply::Refused(text) if argument.is_null() => {
            api.log(Code::ERROR.0, &text);
            Code::ERROR.0
        }
        // SAFETY: PRAGMA and VFSNAME, the only ones answered by texts, give the address of a
        // `char*` that SQLite frees.
        Reply::Text(text) => unsafe {
            *argument.cast::<*mut c_char>() = api.text(&text);
            0
        },
        // SAFETY: as above.
        Reply::Refused(text) => unsafe {
            *argument.cast::<*mut c_char>() = api.text(&text);
            Code::ERROR.0
        },
        // SAFETY: MMAP_SIZE gives the address of an i64, HAS_MOVED that of an int.
        Reply::Number(number) => unsafe {
            match op {
                fcntl::MMAP_SIZE => *argument.cast::<i64>() = number,
                _ => *argument.cast::<c_int>() = number as c_int,
            }
            0
        },
    }
}

unsafe extern "C" fn sector_size(place: *mut sqlite3_file) -> c_int {
    let mut answer = 4096;
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe {
        with(place, |file, _| {
            answer = file.sector_size();
            Ok(())
        });
    }
    answer
}

unsafe extern "C" fn characteristics(place: *mut sqlite3_file) -> c_int {
    let mut answer = 0;
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe {
        with(place, |file, _| {
            answer = file.characteristics();
            Ok(())
        });
    }
    answer
}

unsafe extern "C" fn shm_map(
    place: *mut sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled, and a place for the answer.
    unsafe {
        *out = std::ptr::null_mut();
        with(place, |file, _| {
            let region = file.shm_map(region as usize, bytes as usize, extend != 0)?;
            *out = region.at;
            region.code.map_or(Ok(()), Err)
        })
    }
}

unsafe extern "C" fn shm_lock(
    place: *mut sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, _| file.shm_lock(first as usize, count as usize, flags)) }
}

unsafe extern "C" fn shm_barrier(place: *mut sqlite3_file) {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe {
        with(place, |file, _| {
            file.shm_barrier();
            Ok(())
        });
    }
}

unsafe extern "C" fn shm_unmap(place: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: SQLite calls with a file that xOpen filled.
    unsafe { with(place, |file, _| file.shm_unmap(delete != 0)) }
}

/// Nothing is mapped: SQLite reads instead.
unsafe extern "C" fn fetch(
    _place: *mut sqlite3_file,
    _at: i64,
    _amount: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives a place for the answer.
    unsafe { *out = std::ptr::null_mut() };
    0
}

unsafe extern "C" fn unfetch(_place: *mut sqlite3_file, _at: i64, _what: *mut c_void) -> c_int {
    0
}

const fn methods(version: c_int) -> sqlite3_io_methods {
    sqlite3_io_methods {
        iVersion: version,
        xClose: Some(close),
        xRead: Some(read),
        xWrite: Some(write),
        xTruncate: Some(truncate),
        xSync: Some(sync),
        xFileSize: Some(size),
        xLock: Some(lock),
        xUnlock: Some(unlock),
        xCheckReservedLock: Some(check_reserved),
        xFileControl: Some(control),
        xSectorSize: Some(sector_size),
        xDeviceCharacteristics: Some(characteristics),
        xShmMap: Some(shm_map),
        xShmLock: Some(shm_lock),
        xShmBarrier: Some(shm_barrier),
        xShmUnmap: Some(shm_unmap),
        xFetch: Some(fetch),
        xUnfetch: Some(unfetch),
    }
}

static WITHOUT_SHM: sqlite3_io_methods = methods(1);
static WITH_SHM: sqlite3_io_methods = methods(3);
