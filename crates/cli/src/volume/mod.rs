//! `varve mkfs`, `mount`, `umount`, `fsck`, `dump`: volumes of the log-structured file system.

mod device;
mod dump;
mod fsck;
mod mkfs;
mod mount;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::LabError;
use lfs::{FsError, Now};
use serve::mount::{mounted, wall};
use stack::live::Stack;
use stack::{Base, Description, Layer, StackError};

use crate::args::{self, Source};
use crate::serve::log;
use crate::{note, stop};

pub use dump::dump;
pub use fsck::fsck;
pub use mkfs::mkfs;
pub use mount::{mount, mount_arguments, umount};

/// How often it looks whether it is to stop, or whether a volume is free.
const LOOK: Duration = Duration::from_millis(50);
/// How long an image may still be in use by the mount before.
const PATIENCE: Duration = Duration::from_secs(30);
/// After so long it says that it waits.
const TO_SAY: Duration = Duration::from_secs(1);

/// The wall clock's time, for a volume that nobody waits for.
fn now() -> Now {
    Now { at: block::Time::ZERO, wall: wall() }
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The stack below a volume, which is ours alone from now on.
fn open(from: &Source, size: Option<block::Bytes>, read_only: bool) -> Result<Stack, LabError> {
    let path = from.source.clone();
    let base = match (from.drive_image, is_device(&path)) {
        (true, true) => {
            return Err(LabError::Input("--drive-image: a file, not a device".to_string()));
        }
        (true, false) => Base::DriveImage { path, size },
        (false, true) => Base::Device(path),
        (false, false) => Base::Image { path, size },
    };
    let mut layers = Vec::new();
    // The host log writes when it opens.
    let only_read = read_only && from.remap == args::Remap::Off;
    layers.extend(only_read.then_some(Layer::ReadOnly));
    layers.extend(log(from.remap, from.verify)?);
    started(&Description { base, layers }, &from.source, note)
}

/// The stack below; if the mount before is still writing its last checkpoint, that is waited for, and said by `say`.
fn started(stack: &Description, source: &Path, say: impl Fn(&str)) -> Result<Stack, LabError> {
    let since = Instant::now();
    let mut said = false;
    loop {
        let path = match Stack::start(stack) {
            Err(StackError::InUse { path }) => path,
            built => return built.map_err(|error| wrong(source, error)),
        };
        let gone = mounted_at(&path).is_none() && since.elapsed() < PATIENCE;
        if !gone || stop::flag().load(Ordering::Relaxed) {
            return Err(wrong(&path, StackError::InUse { path: path.clone() }));
        }
        if since.elapsed() > TO_SAY && !std::mem::replace(&mut said, true) {
            let most = PATIENCE.as_secs();
            say(&format!("varve: {}: in use: waits up to {most} s for it", path.display()));
        }
        std::thread::sleep(LOOK);
    }
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
