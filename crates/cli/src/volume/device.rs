//! `varve umount` of a directory in which `varve serve fuse` serves a device, or did until it was killed.

use std::path::Path;

use lab::LabError;
use serve::fuse::{clear, is_served, who_holds};

/// Takes the mount away, if it is one of a device; whether it was. A server that still runs stops then.
pub fn umount_device(target: &Path, force: bool) -> Result<bool, LabError> {
    let dir = std::path::absolute(target).map_err(|error| LabError::io(target, error))?;
    if !is_served(&dir) {
        return Ok(false);
    }
    match clear(&dir, force).map_err(|error| LabError::Failed(error.to_string()))? {
        true => Ok(true),
        false => Err(in_use(&dir)),
    }
}

/// Somebody keeps a mount from being taken away.
pub fn in_use(dir: &Path) -> LabError {
    let who = who_holds(dir);
    let what = format!("{}: in use: {who} (--wait SECONDS, or --force cuts it off)", dir.display());
    LabError::Failed(what)
}
