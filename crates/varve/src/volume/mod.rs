//! `varve mkfs`, `mount`, `umount`, `fsck`, `dump`: volumes of the log-structured file system.

mod device;
mod dump;
mod fsck;
mod mkfs;
mod mount;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use lab::LabError;
use lfs::{FsError, Now};
use serve::disk::Timing;
use serve::mount::{mounted, wall};
use serve::stack::{Backing, Remap, Stack, StackError, StackOptions};

use crate::args::{self, Source};

pub use dump::dump;
pub use fsck::fsck;
pub use mkfs::mkfs;
pub use mount::{mount, mount_arguments, umount};

/// The wall clock's time, for a volume that nobody waits for.
fn now() -> Now {
    Now { at: block::Time::ZERO, wall: wall() }
}

fn remap(of: args::Remap) -> Remap {
    match of {
        args::Remap::Off => Remap::Off,
        args::Remap::Varve => Remap::Varve,
        args::Remap::Paper => Remap::Paper,
    }
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The stack below a volume, which is ours alone from now on.
fn open(from: &Source, size: Option<block::Bytes>, read_only: bool) -> Result<Stack, LabError> {
    let path = from.source.clone();
    let backing = match (from.drive_image, is_device(&path)) {
        (true, true) => {
            return Err(LabError::Input("--drive-image: a file, not a device".to_string()));
        }
        (true, false) => Backing::SsdImage(path, size),
        (false, true) => Backing::Device(path),
        (false, false) => Backing::Image(path, size),
    };
    let options = StackOptions {
        backing,
        remap: remap(from.remap),
        verify: from.verify == args::Switch::On,
        timing: Timing::Off,
        cut_seed: None,
        // The host log writes when it opens.
        read_only: read_only && from.remap == args::Remap::Off,
        record: None,
    };
    options.build().map_err(|error| wrong(&from.source, error))
}

fn wrong(source: &Path, error: StackError) -> LabError {
    match error {
        StackError::Config(error) => LabError::Config(error),
        StackError::Io { path, error } => LabError::io(path, error),
        StackError::InUse { path } => LabError::Failed(match mounted_at(source) {
            Some(dir) => format!("{}: mounted on {dir}", path.display()),
            None => format!("{}: in use by another process", path.display()),
        }),
        other => LabError::Input(other.to_string()),
    }
}

/// Where a source is mounted, if it is.
fn mounted_at(source: &Path) -> Option<String> {
    let source = source.canonicalize().ok()?;
    let all = mounted().ok()?;
    let found = all.into_iter().find(|found| found.file() == Some(&source))?;
    Some(found.dir.display().to_string())
}

fn volume_error(source: &Path, error: &FsError) -> LabError {
    let what = format!("{}: {error}", source.display());
    match error {
        FsError::NotAVolume(_) | FsError::Unsupported(_) | FsError::Invalid(_) => {
            LabError::Input(what)
        }
        FsError::Corrupt(_) => LabError::Check { contract: "C6".to_string(), what },
        _ => LabError::Failed(what),
    }
}
