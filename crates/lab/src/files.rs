//! Files that are there whole or not at all.

use std::io::Write;
use std::path::Path;

use crate::LabError;

/// Writes a file under a temporary name in the same folder, syncs it and renames it: whoever finds
/// the name finds all of it.
///
/// # Errors
/// The system's reason; then nothing of that name was changed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(&part, path)?;
        // The name is durable once its folder is.
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|e| {
        // The first error counts; a part that cannot be removed does no harm.
        let _ = std::fs::remove_file(&part);
        LabError::io(path, e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_no_part_stays() {
        let folder = std::env::temp_dir().join(format!("varve-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.json");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(write_whole(&folder.join("no/such/folder"), b"x").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
