//! The process's default VFS and its files, behind safe methods.

use std::ffi::{CString, c_int};

use super::ffi::{sqlite3_file, sqlite3_io_methods, sqlite3_vfs};
use super::{Api, Name};
use crate::vfs::{Answer, Code, Level, Raw, Region, Reply};

/// The VFS that was the default when ours was registered. SQLite never frees it.
#[derive(Clone, Copy)]
pub struct Host {
    vfs: *mut sqlite3_vfs,
}

// SAFETY: SQLite calls the methods of a VFS from any thread; the structure itself is not changed
// after it was registered, but for its link to the next one, which we do not read.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// The default VFS of this SQLite, if it has one.
    pub fn default_of(api: &Api) -> Option<Host> {
        // SAFETY: null asks for the default.
        let vfs = unsafe { (api.find)(std::ptr::null()) };
        (!vfs.is_null()).then_some(Host { vfs })
    }

    pub(super) fn raw(&self) -> *mut sqlite3_vfs {
        self.vfs
    }

    fn table(&self) -> &sqlite3_vfs {
        // SAFETY: SQLite keeps a registered VFS for good.
        unsafe { &*self.vfs }
    }

    /// The longest name it takes.
    pub(super) fn longest_name(&self) -> c_int {
        self.table().mxPathname
    }

    /// Opens a file of the host's.
    ///
    /// # Errors
    /// The host's code.
    pub fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(HostFile, c_int)> {
        let open = self.table().xOpen.ok_or(Code::CANTOPEN)?;
        let words = (self.table().szOsFile as usize).div_ceil(8).max(1);
        let mut block = vec![0u64; words].into_boxed_slice();
        let (place, mut out) = (block.as_mut_ptr().cast::<sqlite3_file>(), flags);
        // SAFETY: the block is zeroed, aligned and as long as the host asks; the name is the one
        // SQLite gave, with all that stands behind it.
        let done = unsafe { open(self.vfs, name.raw, place, flags, &raw mut out) };
        let file = HostFile { block };
        // The host sets its methods when there is something to close, even after an error: then
        // dropping the file closes it.
        if done == 0 { Ok((file, out)) } else { Err(Code(done)) }
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// The host's code.
    pub fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        let delete = self.table().xDelete.ok_or(Code::IOERR_DELETE)?;
        // SAFETY: the name is the one SQLite gave.
        ok(unsafe { delete(self.vfs, name.raw, c_int::from(sync_dir)) })
    }

    /// Whether a file is there, or may be used.
    ///
    /// # Errors
    /// The host's code.
    pub fn access(&self, name: &Name<'_>, flags: c_int) -> Answer<bool> {
        let access = self.table().xAccess.ok_or(Code::IOERR)?;
        let mut out = 0;
        // SAFETY: the name is the one SQLite gave.
        ok(unsafe { access(self.vfs, name.raw, flags, &raw mut out) })?;
        Ok(out != 0)
    }

    /// The absolute name.
    ///
    /// # Errors
    /// The host's code.
    pub fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        self.full_path_raw(name.raw)
    }

    /// The absolute name of a text that did not come from SQLite.
    ///
    /// # Errors
    /// The host's code.
    pub fn full_path_of(&self, name: &str) -> Answer<Vec<u8>> {
        let name = CString::new(name).map_err(|_| Code::CANTOPEN)?;
        self.full_path_raw(name.as_ptr())
    }

    fn full_path_raw(&self, name: *const std::ffi::c_char) -> Answer<Vec<u8>> {
        let full = self.table().xFullPathname.ok_or(Code::CANTOPEN)?;
        let length = self.longest_name().max(1024) + 1;
        let mut out = vec![0u8; length as usize];
        // SAFETY: the name is NUL-ended and `out` has `length` bytes.
        let done = unsafe { full(self.vfs, name, length, out.as_mut_ptr().cast()) };
        // SQLITE_OK_SYMLINK says that a link was followed: nobody above asks.
        if done & 0xff != 0 {
            return Err(Code(done));
        }
        let end = out.iter().position(|b| *b == 0).unwrap_or(out.len() - 1);
        out.truncate(end);
        Ok(out)
    }
}

fn ok(code: c_int) -> Answer<()> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

/// An open file of the host's VFS; closed when dropped, if not before.
pub struct HostFile {
    /// Holds the host's own structure, which begins with its table of methods.
    block: Box<[u64]>,
}

impl HostFile {
    fn place(&mut self) -> *mut sqlite3_file {
        self.block.as_mut_ptr().cast()
    }

    fn methods(&mut self) -> Answer<&'static sqlite3_io_methods> {
        // SAFETY: the block begins with an `sqlite3_file`; zeroes are a null table.
        let table = unsafe { (*self.place()).pMethods };
        // SAFETY: a table of methods is static in the host's code.
        if table.is_null() { Err(Code::IOERR) } else { Ok(unsafe { &*table }) }
    }

    /// See [`crate::vfs::File::read`]: here the host has zero-filled what it did not read.
    pub(crate) fn read(&mut self, out: &mut [u8], at: u64) -> Answer<()> {
        let read = self.methods()?.xRead.ok_or(Code::IOERR)?;
        // SAFETY: `out` has as many bytes as asked for.
        ok(unsafe { read(self.place(), out.as_mut_ptr().cast(), out.len() as c_int, at as i64) })
    }

    pub(crate) fn write(&mut self, data: &[u8], at: u64) -> Answer<()> {
        let write = self.methods()?.xWrite.ok_or(Code::IOERR)?;
        // SAFETY: `data` has as many bytes as are to be written.
        ok(unsafe { write(self.place(), data.as_ptr().cast(), data.len() as c_int, at as i64) })
    }

    pub(crate) fn truncate(&mut self, size: u64) -> Answer<()> {
        let truncate = self.methods()?.xTruncate.ok_or(Code::IOERR)?;
        // SAFETY: the file is open.
        ok(unsafe { truncate(self.place(), size as i64) })
    }

    pub(crate) fn sync(&mut self, flags: c_int) -> Answer<()> {
        let sync = self.methods()?.xSync.ok_or(Code::IOERR)?;
        // SAFETY: the file is open.
        ok(unsafe { sync(self.place(), flags) })
    }

    pub(crate) fn size(&mut self) -> Answer<u64> {
        let size = self.methods()?.xFileSize.ok_or(Code::IOERR)?;
        let mut out = 0i64;
        // SAFETY: the file is open, and `out` is the place for the answer.
        ok(unsafe { size(self.place(), &raw mut out) })?;
        Ok(out.max(0) as u64)
    }

    pub(crate) fn lock(&mut self, level: Level) -> Answer<()> {
        let lock = self.methods()?.xLock.ok_or(Code::IOERR)?;
        // SAFETY: the file is open.
        ok(unsafe { lock(self.place(), level as c_int) })
    }

    pub(crate) fn unlock(&mut self, level: Level) -> Answer<()> {
        let unlock = self.methods()?.xUnlock.ok_or(Code::IOERR)?;
        // SAFETY: the file is open.
        ok(unsafe { unlock(self.place(), level as c_int) })
    }

    pub(crate) fn check_reserved(&mut self) -> Answer<bool> {
        let check = self.methods()?.xCheckReservedLock.ok_or(Code::IOERR)?;
        let mut out = 0;
        // SAFETY: the file is open, and `out` is the place for the answer.
        ok(unsafe { check(self.place(), &raw mut out) })?;
        Ok(out != 0)
    }

    pub(crate) fn control(&mut self, raw: Raw) -> Answer<Reply> {
        let control = self.methods()?.xFileControl.ok_or(Code::IOERR)?;
        // SAFETY: number and argument are what SQLite gave, in the same call.
        match unsafe { control(self.place(), raw.op, raw.argument) } {
            0 => Ok(Reply::Done),
            12 => Ok(Reply::NotFound),
            code => Err(Code(code)),
        }
    }

    pub(crate) fn sector_size(&mut self) -> c_int {
        let Ok(Some(size)) = self.methods().map(|m| m.xSectorSize) else { return 4096 };
        // SAFETY: the file is open.
        unsafe { size(self.place()) }
    }

    pub(crate) fn characteristics(&mut self) -> c_int {
        let Ok(Some(ask)) = self.methods().map(|m| m.xDeviceCharacteristics) else { return 0 };
        // SAFETY: the file is open.
        unsafe { ask(self.place()) }
    }

    pub(crate) fn has_shm(&mut self) -> bool {
        self.methods().is_ok_and(|m| m.iVersion >= 2 && m.xShmMap.is_some())
    }

    pub(crate) fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        let map = self.methods()?.xShmMap.ok_or(Code::IOERR_SHMOPEN)?;
        let mut out = std::ptr::null_mut();
        // SAFETY: the file is open, has shared memory (`has_shm`), and `out` is for the answer.
        let done = unsafe {
            map(self.place(), region as c_int, bytes as c_int, c_int::from(extend), &raw mut out)
        };
        match ok(done) {
            // Memory that this process may only read comes with READONLY.
            Err(code) if !out.is_null() => Ok(Region { at: out, code: Some(code) }),
            done => done.map(|()| Region::from(out)),
        }
    }

    pub(crate) fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        let lock = self.methods()?.xShmLock.ok_or(Code::IOERR_SHMOPEN)?;
        // SAFETY: the file is open and has shared memory.
        ok(unsafe { lock(self.place(), first as c_int, count as c_int, flags) })
    }

    pub(crate) fn shm_barrier(&mut self) {
        if let Ok(Some(barrier)) = self.methods().map(|m| m.xShmBarrier) {
            // SAFETY: the file is open and has shared memory.
            unsafe { barrier(self.place()) }
        }
    }

    pub(crate) fn shm_unmap(&mut self, delete: bool) -> Answer<()> {
        let unmap = self.methods()?.xShmUnmap.ok_or(Code::IOERR_SHMOPEN)?;
        // SAFETY: the file is open and has shared memory.
        ok(unsafe { unmap(self.place(), c_int::from(delete)) })
    }

    pub(crate) fn close(&mut self) -> Answer<()> {
        let Ok(methods) = self.methods() else { return Ok(()) };
        let close = methods.xClose.ok_or(Code::IOERR)?;
        // SAFETY: the file is open, and is not used again: its table is taken away.
        unsafe {
            let done = close(self.place());
            (*self.place()).pMethods = std::ptr::null();
            ok(done)
        }
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        // Nobody is left to hear of an error: SQLite never got this file, or has closed it.
        let _ = self.close();
    }
}
