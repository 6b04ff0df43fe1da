//! A drive as an image file, with holes where it is zeroes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use stack::disk::Disk;

use crate::error::TortureError;

/// Bytes that are looked at at once.
const PIECE: u64 = 64 << 10;

/// Writes a drive to a new file.
///
/// # Errors
/// The drive's, or the file's.
pub fn write(disk: &dyn Disk, path: &Path) -> Result<(), TortureError> {
    let size = disk.capabilities().size;
    let file = File::create(path).map_err(TortureError::io(path))?;
    file.set_len(size).map_err(TortureError::io(path))?;
    let mut piece = vec![0; PIECE as usize];
    for at in (0..size).step_by(PIECE as usize) {
        let bytes = &mut piece[..PIECE.min(size - at) as usize];
        disk.read(at, bytes)?.wait()?;
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(bytes, at).map_err(TortureError::io(path))?;
        }
    }
    Ok(())
}
