//! Where a database is used for real, so that the kernel counts what reaches the device.
//!
//! Invariant: what was made here is gone when the ground is dropped: files, folder, file system, loop device.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use lab::LabError;

use super::disk::{Disk, Written, run};

/// Which device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// The one that a folder lies on. What others write to it meanwhile is counted, too.
    Folder(PathBuf),
    /// An ext4 of its own on a loop device, which nobody else writes to. Needs root.
    Loop,
}

impl FromStr for At {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<At, Self::Err> {
        Ok(match text {
            "loop" => At::Loop,
            folder => At::Folder(folder.into()),
        })
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            At::Folder(folder) => write!(f, "the device of {}", folder.display()),
            At::Loop => f.write_str("a loop device with ext4"),
        }
    }
}

/// A folder with nothing in it, on a device.
#[derive(Debug)]
pub(super) struct Ground {
    place: PathBuf,
    disk: Option<Disk>,
    mounted: bool,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The least that the file system of a loop device has.
const LEAST: u64 = 512 << 20;

impl Ground {
    /// A ground for files of `bytes` in all.
    ///
    /// # Errors
    /// A folder on no device that the kernel counts for; what making a file system needs is not there.
    pub(super) fn new(at: &At, bytes: u64) -> Result<Ground, LabError> {
        let parent = match at {
            At::Folder(folder) => folder.clone(),
            At::Loop => std::env::temp_dir(),
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = parent.join(format!("varve-measure-{}-{number}", std::process::id()));
        fs::create_dir(&place).map_err(|e| LabError::io(&place, e))?;
        let mut ground = Ground { place, disk: None, mounted: false };
        if *at == At::Loop {
            ground.mount(bytes.max(LEAST))?;
        }
        fs::create_dir_all(ground.folder()).map_err(|e| LabError::io(&ground.place, e))?;
        ground.disk = Disk::below(&ground.folder())?;
        if ground.disk.is_none() {
            let found = "a file system on no block device that the kernel counts for";
            return Err(LabError::Input(format!("--at {}: {found}", parent.display())));
        }
        Ok(ground)
    }

    fn mount(&mut self, bytes: u64) -> Result<(), LabError> {
        let (image, folder) = (self.place.join("disk"), self.folder());
        let file = File::create_new(&image).map_err(|e| LabError::io(&image, e))?;
        file.set_len(bytes).map_err(|e| LabError::io(&image, e))?;
        fs::create_dir(&folder).map_err(|e| LabError::io(&folder, e))?;
        let needs = |error: LabError| LabError::Failed(format!("--at loop: needs root: {error}"));
        // Tables that the kernel would write later would be counted.
        let whole = "lazy_itable_init=0,lazy_journal_init=0";
        let words: [&OsStr; 5] =
            ["-q".as_ref(), "-F".as_ref(), "-E".as_ref(), whole.as_ref(), image.as_ref()];
        run("mkfs.ext4", &words).map_err(needs)?;
        let words: [&OsStr; 4] = ["-o".as_ref(), "loop".as_ref(), image.as_ref(), folder.as_ref()];
        run("mount", &words).map_err(needs)?;
        self.mounted = true;
        Ok(())
    }

    /// Where files may be made.
    pub(super) fn folder(&self) -> PathBuf {
        self.place.join("files")
    }

    /// An empty folder of this name.
    pub(super) fn room(&self, name: &str) -> Result<PathBuf, LabError> {
        let room = self.folder().join(name);
        fs::create_dir_all(&room).map_err(|e| LabError::io(&room, e))?;
        Ok(room)
    }

    /// What has reached the device, when all that was written has.
    pub(super) fn settled(&self) -> Result<Written, LabError> {
        self.disk.as_ref().map_or_else(|| Ok(Written::default()), Disk::settled)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.mounted && run("umount", &[self.folder().as_ref()]).is_err() {
            // What lies there is somebody's who still has a file open: not ours to take away.
            return;
        }
        remove(&self.place);
    }
}

/// Removes a folder, if it can be: the measurement says more than an error of that would.
pub(super) fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}
