//! Files that are the host's, beside those of stores: for a VFS that is the default of a process.
//!
//! Invariant: a call on such a file is the host's call, with what SQLite gave.

use std::ffi::c_int;

use crate::abi::HostFile;
use crate::vfs::{Answer, Caller, Control, File, Level, Raw, Region, Reply};

/// The end of names that are images.
const IMAGE: &str = ".varve";

/// Whether a name is one of an image, of an object in one, or of a file beside one.
pub(crate) fn is_image(name: &str) -> bool {
    name.split('/').any(|part| {
        let base = ["-journal", "-wal", "-shm"].iter().find_map(|end| part.strip_suffix(end));
        let beside = base.or_else(|| before_super(part));
        part.ends_with(IMAGE)
            || beside.is_some_and(|base| base.ends_with(IMAGE) && base.len() > IMAGE.len())
    })
}

/// What a super-journal lies beside.
fn before_super(name: &str) -> Option<&str> {
    const DRAWN: usize = 9;
    let (base, draw) = name.split_at_checked(name.len().checked_sub(DRAWN)?)?;
    let base = base.strip_suffix("-mj")?;
    draw.bytes().all(|b| b.is_ascii_hexdigit()).then_some(base)
}

/// A file of the host's.
pub(crate) struct Ordinary {
    file: HostFile,
    shm: bool,
}

impl Ordinary {
    pub(crate) fn new(mut file: HostFile) -> Ordinary {
        let shm = file.has_shm();
        Ordinary { file, shm }
    }
}

impl File for Ordinary {
    fn read(&mut self, _: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        // A short read has been filled up by the host; the code must reach SQLite as it is.
        self.file.read(out, at).map(|()| out.len())
    }
    fn write(&mut self, _: Caller, data: &[u8], at: u64) -> Answer<()> {
        self.file.write(data, at)
    }
    fn truncate(&mut self, _: Caller, size: u64) -> Answer<()> {
        self.file.truncate(size)
    }
    fn sync(&mut self, _: Caller, flags: c_int) -> Answer<()> {
        self.file.sync(flags)
    }
    fn size(&mut self, _: Caller) -> Answer<u64> {
        self.file.size()
    }
    fn lock(&mut self, _: Caller, level: Level) -> Answer<()> {
        // Whoever waits for it does not wait for a store.
        self.file.lock(level).inspect_err(|_| crate::store::forget_missed())
    }
    fn unlock(&mut self, _: Caller, level: Level) -> Answer<()> {
        self.file.unlock(level)
    }
    fn check_reserved(&mut self) -> Answer<bool> {
        self.file.check_reserved()
    }
    fn control(&mut self, _: Caller, _: Control<'_>, raw: Raw) -> Answer<Reply> {
        self.file.control(raw)
    }
    fn sector_size(&mut self) -> c_int {
        self.file.sector_size()
    }
    fn characteristics(&mut self) -> c_int {
        self.file.characteristics()
    }
    fn close(&mut self, _: Caller) -> Answer<()> {
        self.file.close()
    }
    fn has_shm(&self) -> bool {
        self.shm
    }
    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        self.file.shm_map(region, bytes, extend)
    }
    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        self.file.shm_lock(first, count, flags)
    }
    fn shm_barrier(&mut self) {
        self.file.shm_barrier();
    }
    fn shm_unmap(&mut self, delete: bool) -> Answer<()> {
        self.file.shm_unmap(delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_files_are_images() {
        for name in [
            "/a/home.varve",
            "home.varve-journal",
            "/home.varve-wal",
            "home.varve-mj0123ABCD9",
            "/a/home.varve/other.db-journal",
            "/a.varve/b",
        ] {
            assert!(is_image(name), "{name}");
        }
        for name in [
            "/a/home.db",
            "home.varve.db",
            "home.varve-old",
            "home.varve-mjx",
            ".varve-journal",
            "-mj0123ABCD9",
            "é",
            "/a/home.db-wal",
            "",
        ] {
            assert!(!is_image(name), "{name}");
        }
    }
}
