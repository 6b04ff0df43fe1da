//! The file that a name means: when it was opened, and now.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use rustix::io::Errno;

use crate::error::LiveError;

/// The file that had a name when it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    path: PathBuf,
    file: (u64, u64),
}

impl Named {
    pub(crate) fn new(path: &Path, file: &File) -> io::Result<Named> {
        Ok(Named { path: std::path::absolute(path)?, file: id(file, Path::new(""))? })
    }

    /// Whether the name means another file now, or none: it was removed, moved away, or replaced.
    pub fn has_moved(&self) -> bool {
        !id(CWD, &self.path).is_ok_and(|there| there == self.file)
    }
}

/// The device and the number of a file; of `at` itself without a path. Nothing else is asked: whoever is told when a file
/// was written lets its next write tell another time (Linux from 6.13 on), and a commit that waits for that took a third longer.
fn id(at: impl AsFd, path: &Path) -> io::Result<(u64, u64)> {
    let flags = if path.as_os_str().is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    match statx(&at, path, flags, StatxFlags::INO) {
        Ok(found) => Ok((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)),
        // A kernel before 4.11, or a sandbox of that time.
        Err(Errno::NOSYS) => {
            let found = match path.as_os_str().is_empty() {
                true => File::from(at.as_fd().try_clone_to_owned()?).metadata()?,
                false => std::fs::metadata(path)?,
            };
            Ok((found.dev(), found.ino()))
        }
        Err(error) => Err(error.into()),
    }
}

/// A file in which something is made. What was there before stays if that fails, and it is empty again.
#[derive(Debug)]
pub(crate) struct Making {
    path: PathBuf,
    pub file: File,
    /// It was not there before.
    ours: bool,
}

impl Making {
    /// A file that is not there, or one that is: whether that is empty is looked at by who locks it. Nothing else: a device has
    /// a length of 0, too.
    pub fn new(path: &Path) -> Result<Making, LiveError> {
        let io = |error| LiveError::Io { path: path.to_path_buf(), error };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, ours) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Opening may already do something to a device.
                if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
                    let what =
                        "no file: expected a name that is free, or an empty file".to_string();
                    return Err(LiveError::NotAnImage { path: path.to_path_buf(), what });
                }
                (options.create(true).truncate(false).open(path).map_err(io)?, false)
            }
            Err(error) => return Err(io(error)),
        };
        Ok(Making { path: path.to_path_buf(), file, ours })
    }

    /// As it was. (The error that leads here says more than one of this would.)
    pub fn undo(&self) {
        let here = Named::new(&self.path, &self.file).is_ok_and(|named| !named.has_moved());
        let _ = match self.ours && here {
            true => std::fs::remove_file(&self.path),
            false => self.file.set_len(0),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_stays() {
        let folder = std::env::temp_dir().join(format!("varve-named-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (new, old) = (folder.join("new"), folder.join("old"));
        std::fs::write(&old, "").expect("written");
        for path in [&new, &old] {
            let made = Making::new(path).expect("made");
            made.file.set_len(4096).expect("longer");
            made.undo();
        }
        assert!(!new.exists());
        assert_eq!(std::fs::metadata(&old).expect("there").len(), 0);
        // Somebody else's by now.
        let made = Making::new(&new).expect("made");
        std::fs::rename(&new, folder.join("away")).expect("moved");
        std::fs::write(&new, "theirs").expect("written");
        let named = Named::new(&folder.join("away"), &made.file).expect("named");
        made.undo();
        assert_eq!(std::fs::read(&new).expect("there"), b"theirs");
        assert!(!named.has_moved());
        std::fs::remove_file(folder.join("away")).expect("removed");
        assert!(named.has_moved());
        assert!(
            Making::new(Path::new("/dev/null")).is_err_and(|e| e.to_string().contains("no file"))
        );
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
