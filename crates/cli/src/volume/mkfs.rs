//! `varve mkfs`: a new volume.

use std::path::Path;
use std::sync::Arc;

use lab::LabError;
use lfs::MkfsOptions;
use serve::mount::DiskDevice;
use stack::disk::{Disk, Done};

use super::{now, open, volume_error};
use crate::args::{Mkfs, NewVolume};
use crate::print;
use crate::random::random;

/// Bytes at the beginning of a device where others leave what they are known by.
const LOOKED_AT: u64 = 2 << 20;

/// `varve mkfs`.
pub fn mkfs(args: &Mkfs) -> Result<(), LabError> {
    let path = &args.source.source;
    let there = path.exists();
    if !there && args.size.is_none() {
        let what = format!("{}: not there; --size makes an image", path.display());
        return Err(LabError::Input(what));
    }
    let stack = open(&args.source, args.size, false)?;
    let has = stack.disk.capabilities().size;
    if there && args.size.is_some_and(|size| size.0 != has) && !args.source.drive_image {
        let what = format!("{}: has {has} bytes, --size says otherwise", path.display());
        return Err(LabError::Input(what));
    }
    if !args.force && !is_blank(&stack.disk, path)? {
        let what = format!("{}: something is there; --force overwrites it", path.display());
        return Err(LabError::Input(what));
    }
    let made = make(&stack.disk, path, &args.new);
    if made.is_err() && !there {
        // Nothing but zeroes, or half a volume: nobody's.
        let _ = std::fs::remove_file(path);
    }
    made?;
    stack.disk.close().map_err(|error| LabError::Failed(error.to_string()))?;
    print(&format!("{}: a volume of {has} bytes\n", path.display()))
}

/// Makes a volume of a whole disk.
pub fn make(disk: &Arc<dyn Disk>, path: &Path, new: &NewVolume) -> Result<(), LabError> {
    let random = random::<20>()?;
    let (uuid, version) = random.split_at(16);
    let drawn: [u8; 16] = std::array::from_fn(|i| uuid[i]);
    // Far from the end, where versions would have nowhere to go.
    let version = u32::from_le_bytes(std::array::from_fn(|i| version[i])) >> 1;
    let gap = u32::try_from(new.gap.0 / 4096).ok().filter(|_| new.gap.0.is_multiple_of(2 << 20));
    let gap = gap.ok_or_else(|| LabError::Input("--gap: expected whole 2 MiB".to_string()))?;
    let options = MkfsOptions {
        label: new.label.clone(),
        gap,
        ..MkfsOptions::new(new.uuid.unwrap_or(drawn), version.max(1))
    };
    let can = disk.capabilities();
    // What is refused is refused before anything is lost.
    lfs::superblock(can.size / 4096, &options).map_err(|error| {
        let least = lfs::least_blocks(&options).filter(|least| can.size / 4096 < *least);
        match least {
            Some(least) => LabError::Input(format!(
                "{}: {} bytes are too small: the least is {} bytes ({} KiB)",
                path.display(),
                can.size,
                least * 4096,
                least * 4
            )),
            None => volume_error(path, &error),
        }
    })?;
    if can.trim {
        // What lay there is of no use to anybody, and a sparse image becomes sparse again.
        let done = disk.trim(0, can.size, false);
        done.and_then(Done::wait)
            .map_err(|error| LabError::Failed(format!("{}: {error}", path.display())))?;
    }
    let made = lfs::mkfs(DiskDevice(Arc::clone(disk)), &options, now());
    made.map(|_| ()).map_err(|error| volume_error(path, &error))
}

/// Whether a disk begins with nothing but zeroes.
pub fn is_blank(disk: &Arc<dyn Disk>, path: &Path) -> Result<bool, LabError> {
    let bytes = disk.capabilities().size.min(LOOKED_AT);
    let mut begin = vec![0; bytes as usize];
    let done = disk.read(0, &mut begin);
    done.and_then(Done::wait)
        .map_err(|error| LabError::Failed(format!("{}: {error}", path.display())))?;
    Ok(begin.iter().all(|byte| *byte == 0))
}
