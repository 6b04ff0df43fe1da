//! The VFS of volumes on stacks: which volume and which of its files a name means.

use std::ffi::c_int;
use std::sync::Arc;

use lfs::format::FileType;
use lfs::fs::NewInode;
use lfs::{FsError, Nid};
use varve_sqlite_vfs::Name;
use varve_sqlite_vfs::vfs::{Answer, Code, File, Vfs, flag};

use super::file::{StackFile, code};
use super::{Shared, lock, volumes};

/// All volumes of this process.
pub(super) struct Volumes;

/// The volume that a name begins with, and the file in its root.
fn find(name: &str) -> Answer<(Shared, String)> {
    let volumes = volumes();
    let found = volumes.iter().find(|(volume, _)| name.starts_with(volume.as_str()));
    let (volume, shared) = found.ok_or(Code::CANTOPEN)?;
    let file = &name[volume.len()..];
    match file.is_empty() || file.contains('/') {
        true => Err(Code::CANTOPEN),
        false => Ok((Arc::clone(shared), file.to_string())),
    }
}

const NEW: NewInode = NewInode { permissions: 0o644, uid: 0, gid: 0 };

impl Vfs for Volumes {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        let (shared, file) = match name.text() {
            Some(name) => find(name)?,
            // A temporary file may lie anywhere: on the volume that was named first.
            None => {
                let volumes = volumes();
                let shared = volumes.values().next().ok_or(Code::CANTOPEN)?;
                let number = {
                    let mut state = lock(shared);
                    state.number += 1;
                    state.number
                };
                (Arc::clone(shared), format!(".temporary-{number}"))
            }
        };
        let bytes = file.as_bytes();
        let mut state = lock(&shared);
        let found = state.ask(|fs, now| fs.lookup(now, Nid::ROOT, bytes));
        let ino = match found {
            Ok(_) if flags & flag::EXCLUSIVE != 0 => return Err(Code::CANTOPEN),
            Ok(ino) => ino,
            Err(FsError::NotFound) if flags & flag::CREATE != 0 => state
                .ask(|fs, now| fs.create(now, Nid::ROOT, bytes, FileType::File, NEW, (0, 0)))
                .map_err(|e| code(&e, Code::CANTOPEN))?,
            Err(error) => return Err(code(&error, Code::CANTOPEN)),
        };
        state.number += 1;
        let (handle, goes) = (state.number, flags & flag::DELETEONCLOSE != 0);
        drop(state);
        let opened = StackFile::new(shared, ino, handle, goes.then_some(file));
        Ok((Box::new(opened), flags))
    }

    fn delete(&self, name: &Name<'_>, sync_dir: bool) -> Answer<()> {
        let (shared, file) = find(name.text().unwrap_or_default())?;
        let mut state = lock(&shared);
        let gone = state.ask(|fs, now| fs.unlink(now, Nid::ROOT, file.as_bytes()));
        gone.map_err(|error| match error {
            FsError::NotFound => Code::IOERR_DELETE_NOENT,
            other => code(&other, Code::IOERR_DELETE),
        })?;
        if sync_dir {
            let synced = state.ask(|fs, now| fs.fsync(now, Nid::ROOT));
            synced.map_err(|error| code(&error, Code::IOERR_DELETE))?;
        }
        Ok(())
    }

    fn access(&self, name: &Name<'_>, _: c_int) -> Answer<bool> {
        let (shared, file) = find(name.text().unwrap_or_default())?;
        match lock(&shared).ask(|fs, now| fs.lookup(now, Nid::ROOT, file.as_bytes())) {
            Ok(_) => Ok(true),
            Err(FsError::NotFound) => Ok(false),
            Err(error) => Err(code(&error, Code::IOERR)),
        }
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        Ok(name.text().ok_or(Code::CANTOPEN)?.as_bytes().to_vec())
    }
}
