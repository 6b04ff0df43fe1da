//! A file of a volume on a stack, as SQLite has it.

use std::ffi::c_int;

use block::Bytes;
use lfs::{FsError, Nid};
use varve_sqlite_vfs::vfs::{Answer, Caller, Code, Control, File, Level, Raw, Reply};

use super::{Shared, lock};

/// What SQLite is told of an error of the volume.
pub(super) fn code(error: &FsError, otherwise: Code) -> Code {
    match error {
        FsError::NoSpace => Code::FULL,
        FsError::ReadOnly(_) => Code::READONLY,
        _ => otherwise,
    }
}

/// An open file.
pub(super) struct StackFile {
    volume: Shared,
    ino: Nid,
    handle: u64,
    /// It goes when it is closed.
    temporary: Option<String>,
}

impl StackFile {
    pub(super) fn new(
        volume: Shared,
        ino: Nid,
        handle: u64,
        temporary: Option<String>,
    ) -> StackFile {
        StackFile { volume, ino, handle, temporary }
    }
}

impl File for StackFile {
    fn read(&mut self, _: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        let read = lock(&self.volume).ask(|fs, now| fs.read(now, self.ino, Bytes(at), out));
        let count = read.map_err(|error| code(&error, Code::IOERR_READ))?;
        out[count..].fill(0);
        Ok(count)
    }

    fn write(&mut self, _: Caller, data: &[u8], at: u64) -> Answer<()> {
        let written = lock(&self.volume).ask(|fs, now| fs.write(now, self.ino, Bytes(at), data));
        written.map_err(|error| code(&error, Code::IOERR_WRITE))
    }

    fn truncate(&mut self, _: Caller, size: u64) -> Answer<()> {
        let cut = lock(&self.volume).ask(|fs, now| fs.truncate(now, self.ino, Bytes(size)));
        cut.map_err(|error| code(&error, Code::IOERR_TRUNCATE))
    }

    fn sync(&mut self, _: Caller, _: c_int) -> Answer<()> {
        let synced = lock(&self.volume).ask(|fs, now| fs.fsync(now, self.ino));
        synced.map_err(|error| code(&error, Code::IOERR_FSYNC))
    }

    fn size(&mut self, _: Caller) -> Answer<u64> {
        let found = lock(&self.volume).ask(|fs, now| fs.attributes(now, self.ino));
        found.map(|found| found.size.0).map_err(|error| code(&error, Code::IOERR_FSTAT))
    }

    fn lock(&mut self, _: Caller, level: Level) -> Answer<()> {
        lock(&self.volume).locks.raise(self.ino, self.handle, level)
    }

    fn unlock(&mut self, _: Caller, level: Level) -> Answer<()> {
        lock(&self.volume).locks.lower(self.ino, self.handle, level);
        Ok(())
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        Ok(lock(&self.volume).locks.reserved(self.ino))
    }

    fn control(&mut self, _: Caller, control: Control<'_>, _: Raw) -> Answer<Reply> {
        Ok(match control {
            Control::Sync | Control::CommitPhaseTwo => Reply::Done,
            Control::CheckpointStart | Control::CheckpointDone => Reply::Done,
            Control::VfsName => Reply::Text(super::VFS.to_string()),
            Control::HasMoved => Reply::Number(0),
            _ => Reply::NotFound,
        })
    }

    fn sector_size(&mut self) -> c_int {
        4096
    }

    /// What is written over part of a page may be torn where the device below tears its blocks.
    fn characteristics(&mut self) -> c_int {
        0
    }

    fn close(&mut self, _: Caller) -> Answer<()> {
        let mut state = lock(&self.volume);
        state.locks.lower(self.ino, self.handle, Level::None);
        match self.temporary.take() {
            None => Ok(()),
            Some(name) => state
                .ask(|fs, now| fs.unlink(now, Nid::ROOT, name.as_bytes()))
                .map_err(|error| code(&error, Code::IOERR_DELETE)),
        }
    }

    fn reason(&mut self) -> Option<String> {
        lock(&self.volume).reason.take()
    }
}
