//! Files and devices below a stack, which are its own while it runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use block::Bytes;
use live::FileMedium;

use crate::StackError;
use crate::disk::NamedMedium;

/// Bytes of something that is made.
pub(super) fn whole(size: Bytes) -> Result<u64, StackError> {
    match size.0 {
        0 => Err(StackError::Options("a size of 0 bytes".to_string())),
        bytes if bytes.is_multiple_of(4096) => Ok(bytes),
        bytes => Err(StackError::Options(format!("{bytes} bytes: expected a multiple of 4096"))),
    }
}

/// What was made for a stack that did not start goes again: the next start would take it as it is.
pub(super) fn unmake(path: &Path) {
    // If it stays, who looks finds it, and the error that is told is the one that matters.
    let _ = std::fs::remove_file(path);
}

/// A file, and whether it was made.
pub(super) fn open_file(
    path: &Path,
    size: Option<Bytes>,
    read_only: bool,
) -> Result<(NamedMedium<FileMedium>, bool), StackError> {
    let io = |error| StackError::Io { path: path.to_path_buf(), error };
    let mut options = OpenOptions::new();
    options.read(true).write(!read_only);
    let (file, made) = match (path.exists(), size) {
        (false, Some(size)) if !read_only => {
            let bytes = whole(size)?;
            let file = options.create_new(true).open(path).map_err(io)?;
            if let Err(error) = file.set_len(bytes) {
                unmake(path);
                return Err(io(error));
            }
            (file, true)
        }
        (false, None) if !read_only => {
            let text = "no such file; one is made if a size is given";
            return Err(io(Error::new(ErrorKind::NotFound, text)));
        }
        _ => (options.open(path).map_err(io)?, false),
    };
    let found = file.metadata().map_err(io)?;
    let kind = found.file_type();
    if !kind.is_file() {
        let hint = if kind.is_block_device() { " (a device: --device)" } else { "" };
        return Err(StackError::Options(format!("{}: not a file{hint}", path.display())));
    }
    if let Some(size) = size {
        sized(path, Bytes(found.len()), size)?;
    }
    own(path, &file)?;
    Ok((named(path, file), made))
}

/// Refuses a size for what is there with another one: it is of a file that is made.
pub(super) fn sized(path: &Path, found: Bytes, asked: Bytes) -> Result<(), StackError> {
    if found == asked {
        return Ok(());
    }
    Err(StackError::Options(format!(
        "{}: there, with {} bytes; expected a size of as many ({} were asked for), none, or another file",
        path.display(),
        found.0,
        asked.0
    )))
}

/// A file whose failures are told by its name.
fn named(path: &Path, file: File) -> NamedMedium<FileMedium> {
    NamedMedium::new(path.display().to_string(), FileMedium(file))
}

pub(super) fn open_device(
    path: &Path,
    read_only: bool,
) -> Result<NamedMedium<FileMedium>, StackError> {
    let io = |error| StackError::Io { path: path.to_path_buf(), error };
    let mut options = OpenOptions::new();
    options.read(true).write(!read_only);
    // The system refuses a device that is mounted.
    options.custom_flags(rustix::fs::OFlags::EXCL.bits() as i32);
    let file = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            // By one of us? Who waits for that one to end has to know. It may just have ended.
            own(path, &File::open(path).map_err(io)?)?;
            options.open(path).map_err(io)?
        }
        opened => opened.map_err(io)?,
    };
    if !file.metadata().map_err(io)?.file_type().is_block_device() {
        return Err(StackError::Options(format!("{}: not a block device", path.display())));
    }
    own(path, &file)?;
    Ok(named(path, file))
}

/// One process at a time.
fn own(path: &Path, file: &File) -> Result<(), StackError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StackError::InUse { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(StackError::Io { path: path.to_path_buf(), error }),
    }
}
