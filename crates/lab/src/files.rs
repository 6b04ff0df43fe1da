//! Files that are there whole or not at all.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::LabError;

/// Parts of one name that may be left behind by programs that were killed, at most.
const MOST_PARTS: u32 = 1000;
/// The end of a part's name.
pub(crate) const PART: &str = ".part";

/// Writes a file under a temporary name in the same folder, syncs it and renames it: whoever finds
/// the name finds all of it. What is there and no file (`/dev/stdout`, a pipe) is written to.
///
/// # Errors
/// The system's reason; then nothing of that name was changed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    write(path, bytes, true)
}

/// Looks whether [`write_whole`] could write a file of that name, before the work whose result it is to
/// hold: a file is made beside it and removed.
///
/// # Errors
/// The system's reason.
pub fn can_write(path: &Path) -> Result<(), LabError> {
    let probe = || match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        // Opening a pipe to see whether it can be would wait for its reader, or take it away.
        Ok(there) if !there.is_file() => Ok(()),
        _ if path.file_name().is_none() => Err(std::io::ErrorKind::InvalidFilename.into()),
        _ => new_part(path).and_then(|(part, _)| std::fs::remove_file(part)),
    };
    probe().map_err(|e: std::io::Error| LabError::io(path, e))
}

/// A file that is read: what it is, and where.
pub type Reads = (&'static str, PathBuf);

/// Refuses to write over what is read, or two things under one name, before anything is written: whoever
/// wants something out of a file wants to keep that file.
///
/// # Errors
/// The name that would be written.
pub fn keeps(reads: &[Reads], writes: &[PathBuf]) -> Result<(), LabError> {
    let places: Vec<PathBuf> = writes.iter().map(|path| place(path)).collect();
    for (at, (path, place)) in writes.iter().zip(&places).enumerate() {
        let wrong = |what: String| Err(LabError::Input(format!("{}: {what}", path.display())));
        if let Some((what, _)) = reads.iter().find(|(_, read)| self::place(read) == *place) {
            return wrong(format!("is the {what} that is read, too"));
        }
        // A pipe or a device takes more than one.
        if places[..at].contains(place)
            && !std::fs::metadata(path).is_ok_and(|there| !there.is_file())
        {
            return wrong("is written for two options; expected two names".to_string());
        }
    }
    Ok(())
}

/// Where a name leads, whether anything is there or not.
fn place(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let in_folder =
        || Some(parent.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_path_buf())
}

/// As [`write_whole`], for what is checked when it is read and can be made again: a program that is
/// killed leaves all of it or nothing, a power cut may leave anything.
pub(crate) fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    write(path, bytes, false)
}

/// A new file beside `path`, to be renamed to it once it is whole. Of two programs that write the same name,
/// on one machine or on two, each has its own.
///
/// # Errors
/// The system's reason.
pub fn new_part(path: &Path) -> std::io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.{number}{PART}", std::process::id()));
        let part = path.with_file_name(name);
        match File::options().write(true).create_new(true).open(&part) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < MOST_PARTS => {
                number += 1;
            }
            result => return result.map(|file| (part, file)),
        }
    }
}

fn write(path: &Path, bytes: &[u8], sync: bool) -> Result<(), LabError> {
    // A pipe or a device takes what is written to it; another file in its place would be neither.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let put = || File::options().write(true).open(path)?.write_all(bytes);
        return put().map_err(|e| LabError::io(path, e));
    }
    let mut result = put(path, bytes, sync);
    // Who cleans the folder from another machine cannot see that this program runs.
    if result.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        result = put(path, bytes, sync);
    }
    result.map_err(|e| LabError::io(path, e))
}

/// Writes a file by a part of its own.
fn put(path: &Path, bytes: &[u8], sync: bool) -> std::io::Result<()> {
    let (part, mut file) = new_part(path)?;
    let mut write = || -> std::io::Result<()> {
        file.write_all(bytes)?;
        if sync {
            file.sync_all()?;
        }
        std::fs::rename(&part, path)?;
        if !sync {
            return Ok(());
        }
        // The name is durable once its folder is.
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().inspect_err(|_| {
        // The first error counts; a part that cannot be removed does no harm.
        let _ = std::fs::remove_file(&part);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_not_written_over_by_any_name() {
        let folder = std::env::temp_dir().join(format!("varve-keeps-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        std::fs::write(path("t.csv"), b"a trace").unwrap();
        std::os::unix::fs::symlink("t.csv", path("link")).unwrap();
        let reads = [("trace", path("t.csv"))];
        std::fs::create_dir(path("below")).unwrap();
        for name in ["t.csv", "link", "below/../t.csv"] {
            let error = keeps(&reads, &[path("new"), path(name)]).unwrap_err().to_string();
            assert!(error.contains("is the trace that is read, too"), "{error}");
        }
        let twice = keeps(&reads, &[path("new"), folder.join(".").join("new")]).unwrap_err();
        assert!(twice.to_string().contains("two options"), "{twice}");
        keeps(&reads, &[path("new"), path("other"), "/dev/null".into(), "/dev/null".into()])
            .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

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
        for (name, can) in [("x.json", true), ("new", true), ("no/such", false), ("..", false)] {
            assert_eq!(can_write(&folder.join(name)).is_ok(), can, "{name}");
        }
        assert!(can_write(&folder).is_err(), "a folder is no file");
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing stays of a look");
        let link = folder.join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        write_whole(&link, b"nobody reads this").unwrap();
        assert!(link.is_symlink());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
