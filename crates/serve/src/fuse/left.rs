//! Mounts of `varve serve fuse` that are there, and those whose server is gone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::loop_device::program;
use super::{FuseError, SOURCE, unmount};

/// How long a mount may take to answer before it is called stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Asks for the attributes of a path, with a limit: a stuck server would keep us for ever.
pub(crate) fn ask(path: &Path) -> Option<io::Result<()>> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_path_buf();
    // The thread is left behind if nobody answers; this process ends soon.
    std::thread::spawn(move || sender.send(fs::symlink_metadata(path).map(|_| ())));
    receiver.recv_timeout(PATIENCE).ok()
}

/// Whether a mount is there whose server is gone.
pub fn is_dead(dir: &Path) -> bool {
    matches!(ask(dir), Some(Err(e)) if e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()))
}

/// The directories in a table of mounts on which a device is served as a file.
pub(crate) fn served(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let (source, dir, kind) = (fields.next()?, fields.next()?, fields.next()?);
            // Mounted by root it is plain `fuse`, by fusermount3 `fuse.varve`.
            let ours = source == SOURCE.as_bytes() && kind.starts_with(b"fuse");
            ours.then(|| unescaped(dir))
        })
        .collect()
}

/// A path as the table of mounts writes it: `\040` is a space.
fn unescaped(field: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsStr::from_bytes(&out))
}

/// Whether a device is served as a file in this directory, by whom ever, or was by a server that is
/// gone. The directory is compared by its name alone: it may not answer.
pub fn is_served(dir: &Path) -> bool {
    let table = fs::read("/proc/self/mounts").unwrap_or_default();
    let Ok(dir) = std::path::absolute(dir) else { return false };
    served(&table).contains(&dir)
}

/// Loop devices over a file in a directory.
pub(crate) fn loops(dir: &Path) -> Vec<PathBuf> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let over = |device: &fs::DirEntry| {
        let file = fs::read_to_string(device.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim()).parent() == Some(dir))
    };
    let name = |device: fs::DirEntry| Path::new("/dev").join(device.file_name());
    devices.flatten().filter(over).map(name).collect()
}

/// Takes a mount away whose server is gone, and the loop devices over it. False while something there
/// is in use; with `force` it is taken from whoever uses it: what he has not written is lost in any
/// case.
///
/// # Errors
/// [`FuseError`].
pub fn clear(dir: &Path, force: bool) -> Result<bool, FuseError> {
    for device in loops(dir) {
        program("losetup", &[OsStr::new("--detach"), device.as_os_str()])?;
    }
    if unmount(dir)? {
        return Ok(true);
    }
    if force {
        cut_off(dir)?;
    }
    Ok(force)
}

/// Takes a mount from whoever uses it: whatever they ask from then on is an error.
///
/// # Errors
/// [`FuseError`].
pub fn cut_off(dir: &Path) -> Result<(), FuseError> {
    match rustix::mount::unmount(dir, UnmountFlags::FORCE | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => {
            let words = ["-u".as_ref(), "-z".as_ref(), dir.as_os_str()];
            program("fusermount3", &words).map(|_| ())
        }
        Err(e) => Err(FuseError::Unmount { dir: dir.to_path_buf(), source: e.into() }),
    }
}
