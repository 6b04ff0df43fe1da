//! Registration, and the methods of a VFS: from SQLite's table of functions to `dyn Vfs`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::ffi::{Sym, sqlite3_file, sqlite3_vfs};
use super::file::{Open, code};
use super::{Api, Host, Name};
use crate::vfs::{Answer, Code, Vfs, flag};

/// Why a VFS could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name holds a NUL.
    #[error("a VFS name may not hold a NUL")]
    Name,
    /// The name is taken: SQLite would forget the other VFS, whose files may be open.
    #[error("a VFS named {0} is registered already")]
    Taken(String),
    /// SQLite has no default VFS to delegate to.
    #[error("this SQLite has no default VFS")]
    NoHost,
    /// SQLite refused.
    #[error("SQLite refused the VFS with code {0}")]
    Refused(c_int),
}

struct Registered {
    vfs: Box<dyn Vfs>,
    host: Host,
    api: Api,
}

/// Registers a VFS under `name` for the rest of the process, as the default one if wanted.
/// `make` is given the VFS that was the default until now.
///
/// # Errors
/// [`RegisterError`].
pub fn register(
    api: &Api,
    name: &str,
    default: bool,
    make: impl FnOnce(Host) -> Box<dyn Vfs>,
) -> Result<(), RegisterError> {
    let c_name = CString::new(name).map_err(|_| RegisterError::Name)?;
    // SAFETY: the name is NUL-ended.
    if !unsafe { (api.find)(c_name.as_ptr()) }.is_null() {
        return Err(RegisterError::Taken(name.to_string()));
    }
    let host = Host::default_of(api).ok_or(RegisterError::NoHost)?;
    let data = Box::new(Registered { vfs: make(host), host, api: *api });
    // SQLite keeps the structure, its name and its data for as long as the process lives.
    let vfs = Box::into_raw(Box::new(sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<Open>() as c_int,
        mxPathname: host.longest_name().max(512),
        pNext: std::ptr::null_mut(),
        zName: c_name.into_raw(),
        pAppData: Box::into_raw(data).cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }));
    // SAFETY: the structure is complete and lives for good.
    match unsafe { (api.register)(vfs, c_int::from(default)) } {
        0 => Ok(()),
        code => Err(RegisterError::Refused(code)),
    }
}

/// # Safety
/// `vfs` is a structure that [`register`] made.
unsafe fn ours<'a>(vfs: *mut sqlite3_vfs) -> &'a Registered {
    // SAFETY: by the promise above; it is never freed, and only shared references exist.
    unsafe { &*(*vfs).pAppData.cast::<Registered>() }
}

/// Runs `body`; a failure is told to SQLite's log with its reason.
fn guarded(ours: &Registered, body: impl FnOnce() -> Answer<()>) -> c_int {
    code(catch_unwind(AssertUnwindSafe(body)).inspect(|answer| {
        if let Err(Code::CANTOPEN | Code::BUSY) = answer
            && let Some(reason) = ours.vfs.last_error()
        {
            ours.api.log(Code::CANTOPEN.0, &reason);
        }
    }))
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    place: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with the structure it was given; without methods the file need not be
    // closed.
    let ours = unsafe {
        (*place).pMethods = std::ptr::null();
        ours(vfs)
    };
    guarded(ours, || {
        let rich = flags & (flag::MAIN_DB | flag::MAIN_JOURNAL | flag::WAL) != 0;
        // SAFETY: the name lives through the call; the names of these three kinds carry the
        // parameters of the URI, says SQLite's documentation of xOpen.
        let name = unsafe { Name::new(name, rich.then_some(ours.api)) };
        let (file, got) = ours.vfs.open(&name, flags)?;
        // SAFETY: `place` is the block of this xOpen; `out` is null or a place for the answer.
        unsafe {
            Open::install(place, file, ours.api);
            if !out.is_null() {
                *out = got;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and a NUL-ended name.
    let (ours, name) = unsafe { (ours(vfs), Name::new(name, None)) };
    guarded(ours, || ours.vfs.delete(&name, sync != 0))
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and a NUL-ended name.
    let (ours, name) = unsafe { (ours(vfs), Name::new(name, None)) };
    guarded(ours, || {
        let there = ours.vfs.access(&name, flags)?;
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *out = c_int::from(there) };
        Ok(())
    })
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and a NUL-ended name.
    let (ours, name) = unsafe { (ours(vfs), Name::new(name, None)) };
    guarded(ours, || {
        let full = ours.vfs.full_path(&name)?;
        if full.len() >= usize::try_from(length).unwrap_or(0) || full.contains(&0) {
            return Err(Code::CANTOPEN);
        }
        // SAFETY: `out` has `length` bytes, more than the name.
        unsafe {
            std::ptr::copy_nonoverlapping(full.as_ptr(), out.cast::<u8>(), full.len());
            out.add(full.len()).write(0);
        }
        Ok(())
    })
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, length: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and `length` bytes, which are zeroed
    // before Rust sees them.
    let (ours, bytes) = unsafe {
        let length = usize::try_from(length).unwrap_or(0);
        std::ptr::write_bytes(out, 0, length);
        (ours(vfs), std::slice::from_raw_parts_mut(out.cast::<u8>(), length))
    };
    if catch_unwind(AssertUnwindSafe(|| ours.vfs.randomness(bytes))).unwrap_or(false) {
        return length;
    }
    let host = ours.host.raw();
    // SAFETY: the host lives for good, and `out` has `length` bytes.
    unsafe { (*host).xRandomness.map_or(0, |ask| ask(host, length, out)) }
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    // SAFETY: SQLite calls with the structure it was given; the host lives for good.
    unsafe {
        let ours = ours(vfs);
        let time = Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
        if catch_unwind(AssertUnwindSafe(|| ours.vfs.sleep(time))).unwrap_or(false) {
            return microseconds;
        }
        let host = ours.host.raw();
        (*host).xSleep.map_or(0, |ask| ask(host, microseconds))
    }
}

const MILLISECONDS_A_DAY: f64 = 86_400_000.0;

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and a place for the answer; the host
    // lives for good.
    unsafe {
        let ours = ours(vfs);
        if let Ok(Some(time)) = catch_unwind(AssertUnwindSafe(|| ours.vfs.time())) {
            *out = time as f64 / MILLISECONDS_A_DAY;
            return 0;
        }
        let host = ours.host.raw();
        (*host).xCurrentTime.map_or(1, |ask| ask(host, out))
    }
}

unsafe extern "C" fn current_time_64(vfs: *mut sqlite3_vfs, out: *mut i64) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and a place for the answer; the host
    // lives for good, and one of version 2 has this method.
    unsafe {
        let ours = ours(vfs);
        if let Ok(Some(time)) = catch_unwind(AssertUnwindSafe(|| ours.vfs.time())) {
            *out = time;
            return 0;
        }
        let host = ours.host.raw();
        if (*host).iVersion >= 2
            && let Some(ask) = (*host).xCurrentTimeInt64
        {
            return ask(host, out);
        }
        let mut days = 0.0;
        let done = (*host).xCurrentTime.map_or(1, |ask| ask(host, &raw mut days));
        *out = (days * MILLISECONDS_A_DAY) as i64;
        done
    }
}

unsafe extern "C" fn last_error(vfs: *mut sqlite3_vfs, length: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite calls with the structure it was given and `length` bytes; the host lives for
    // good.
    unsafe {
        let ours = ours(vfs);
        if let Ok(Some(reason)) = catch_unwind(AssertUnwindSafe(|| ours.vfs.last_error())) {
            let room = usize::try_from(length).unwrap_or(0);
            if room > 0 && !out.is_null() {
                let shown = reason.len().min(room - 1);
                std::ptr::copy_nonoverlapping(reason.as_ptr(), out.cast::<u8>(), shown);
                out.add(shown).write(0);
            }
            return 0;
        }
        let host = ours.host.raw();
        (*host).xGetLastError.map_or(0, |ask| ask(host, length, out))
    }
}

unsafe extern "C" fn dl_open(vfs: *mut sqlite3_vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: SQLite calls with the structure it was given; the host lives for good.
    unsafe {
        let host = ours(vfs).host.raw();
        (*host).xDlOpen.map_or(std::ptr::null_mut(), |ask| ask(host, name))
    }
}

unsafe extern "C" fn dl_error(vfs: *mut sqlite3_vfs, length: c_int, out: *mut c_char) {
    // SAFETY: as in `dl_open`.
    unsafe {
        let host = ours(vfs).host.raw();
        if let Some(ask) = (*host).xDlError {
            ask(host, length, out);
        }
    }
}

unsafe extern "C" fn dl_sym(
    vfs: *mut sqlite3_vfs,
    library: *mut c_void,
    name: *const c_char,
) -> Sym {
    // SAFETY: as in `dl_open`.
    unsafe {
        let host = ours(vfs).host.raw();
        (*host).xDlSym.and_then(|ask| ask(host, library, name))
    }
}

unsafe extern "C" fn dl_close(vfs: *mut sqlite3_vfs, library: *mut c_void) {
    // SAFETY: as in `dl_open`.
    unsafe {
        let host = ours(vfs).host.raw();
        if let Some(ask) = (*host).xDlClose {
            ask(host, library);
        }
    }
}
