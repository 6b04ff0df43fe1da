//! What of ours is mounted where: the system's table.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fuse::{FuseError, unmount};

/// A mounted file system of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// What it is mounted from: an image, a device, or the name of a stack.
    pub source: String,
    /// Where.
    pub dir: PathBuf,
}

/// Our type in the table.
pub(super) const KIND: &str = "fuse.varve";

/// File systems of ours that are mounted, as this process sees it. The device as a file
/// (`varve serve fuse`) is none.
///
/// # Errors
/// The table cannot be read.
pub fn mounted() -> io::Result<Vec<Mounted>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

fn parse(table: &str) -> Vec<Mounted> {
    let line = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        if right.next()? != KIND {
            return None;
        }
        let source = unescape(right.next()?);
        let dir = unescape(left.split(' ').nth(4)?);
        Some(Mounted { source, dir: PathBuf::from(dir) })
    };
    table.lines().filter_map(line).filter(|found| found.source != crate::fuse::SOURCE).collect()
}

/// Blanks and the like are written as three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

impl Mounted {
    /// Tries to unmount it; false while something there is in use.
    ///
    /// # Errors
    /// [`FuseError`].
    pub fn unmount(&self) -> Result<bool, FuseError> {
        unmount(&self.dir)
    }

    /// Where a report is left should it not end well; none of a mount that gives none.
    pub fn report(&self) -> Option<PathBuf> {
        let mut name = [0; 4096];
        let len = rustix::fs::getxattr(&self.dir, super::END, &mut name).ok()?;
        Some(PathBuf::from(OsStr::from_bytes(&name[..len])))
    }

    /// Whether a process still has the file or device for itself: a mount that is over is still
    /// being ended. What is in memory only is nobody's.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn in_use(&self) -> io::Result<bool> {
        let Some(path) = self.file().filter(|path| path.exists()) else { return Ok(false) };
        match File::open(path)?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The file or device it is mounted from, if that is what it is mounted from.
    pub fn file(&self) -> Option<&Path> {
        let path = Path::new(&self.source);
        path.is_absolute().then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_found_among_others() {
        let table = "22 1 0:21 / /proc rw - proc proc rw\n\
             30 1 0:40 / /mnt/a\\040b rw,nosuid shared:1 master:2 - fuse.varve /images/x\\134y rw\n\
             31 1 0:41 / /mnt/c rw - fuse.varve varve rw\n";
        let found = parse(table);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].dir, Path::new("/mnt/a b"));
        assert_eq!(found[0].source, "/images/x\\y");
    }
}
