//! Making and powering on: what stands in a file becomes a drive, or says what is missing.

use std::path::Path;
use std::sync::Arc;

use block::{Bytes, Medium, Plant};
use ssd::Drive;

use crate::damage::Damage;
use crate::error::LiveError;
use crate::file::ImageFile;
use crate::image::{Found, format, long_enough, made_for, recognise};
use crate::load::load;
use crate::planted::Planted;
use crate::pointer::{BEFORE, Place, Pointer};
use crate::region::Region;

/// A drive that was powered on.
pub(crate) struct Powered {
    pub drive: Drive,
    pub file: Arc<ImageFile>,
    pub survived: Vec<Damage>,
}

/// Makes an empty image in a file that has none; what is before it last.
pub(crate) fn form(
    path: &Path,
    below: Arc<dyn Medium>,
    capacity: Bytes,
    log: Bytes,
    limit: Bytes,
) -> Result<(), LiveError> {
    let io = |error| LiveError::Io { path: path.to_path_buf(), error };
    let (config, params) = made_for(capacity)?;
    let base = if limit > capacity { BEFORE } else { 0 };
    let medium = Region::of(Arc::clone(&below), base);
    format(&*medium, &params, &config, log.0).map_err(io)?;
    if base > 0 {
        let pointer = Pointer { number: 1, base, capacity: 0, limit: limit.0 };
        pointer.write(&*below).map_err(io)?;
    }
    Ok(())
}

/// Powers on the image at a place.
pub(crate) fn start(
    path: &Path,
    below: Arc<dyn Medium>,
    place: Place,
    length: Option<u64>,
    planted: Plant<Planted>,
) -> Result<(Powered, Option<Pointer>), LiveError> {
    let Place { pointer, damage, .. } = place;
    let (base, capacity) = pointer.map_or((0, 0), |pointer| (pointer.base, pointer.capacity));
    let mut powered = start_at(path, below, (base, capacity), length, planted)?;
    powered.survived.splice(..0, damage);
    Ok((powered, pointer))
}

/// Powers on the image that begins at `base` and has grown to `capacity`, if that is not 0.
pub(crate) fn start_at(
    path: &Path,
    below: Arc<dyn Medium>,
    (base, capacity): (u64, u64),
    length: Option<u64>,
    planted: Plant<Planted>,
) -> Result<Powered, LiveError> {
    let medium = Region::of(below, base);
    let (params, found) = recognise(path, &*medium, capacity).map_err(|error| error.moved(base))?;
    let Found { superblock, layout, damage } = found;
    if let Some(length) = length {
        long_enough(path, length, base + layout.bytes())?;
    }
    let mut loaded = load(&params.geometry, &superblock, layout, &*medium, planted)
        .map_err(|error| LiveError::Io { path: path.to_path_buf(), error })?;
    if !loaded.damage.is_empty() {
        let damage = std::mem::take(&mut loaded.damage);
        return Err(LiveError::Damaged { path: path.to_path_buf(), damage }.moved(base));
    }
    let rewrite = damage.is_some();
    let file = ImageFile::new(superblock, (layout, base), medium, &mut loaded, rewrite, planted);
    let file = Arc::new(file);
    let drive = Drive::live(&params, loaded.image, Arc::clone(&file) as _)
        .map_err(|error| LiveError::Device { path: path.to_path_buf(), error })?;
    let survived = damage.into_iter().chain(loaded.survived);
    let survived = survived.map(|damage| damage.moved(base)).collect();
    Ok(Powered { drive, file, survived })
}
