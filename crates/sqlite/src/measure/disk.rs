//! What reaches the block device below a folder, as the kernel counts it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::LabError;

/// A block device with a file system, and a folder on it.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    stat: PathBuf,
}

/// What was written to a device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Written {
    /// Bytes.
    pub bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
}

impl Written {
    /// What was written since then.
    pub fn since(self, before: Written) -> Written {
        Written {
            bytes: self.bytes - before.bytes,
            writes: self.writes - before.writes,
            flushes: self.flushes - before.flushes,
        }
    }

    /// Both together.
    pub fn and(self, other: Written) -> Written {
        Written {
            bytes: self.bytes + other.bytes,
            writes: self.writes + other.writes,
            flushes: self.flushes + other.flushes,
        }
    }
}

/// Of the kernel's units in `stat`.
const SECTOR: u64 = 512;

impl Disk {
    /// The device of a folder; `None`: its file system lies on none that the kernel counts for.
    ///
    /// # Errors
    /// No such folder.
    pub fn below(folder: &Path) -> Result<Option<Disk>, LabError> {
        let found = fs::metadata(folder).map_err(|e| LabError::io(folder, e))?;
        let device = found.dev();
        let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
        let minor = device & 0xff | (device >> 12) & !0xff;
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        Ok(stat.is_file().then(|| Disk { folder: folder.to_path_buf(), stat }))
    }

    /// Everything written to the file system so far is on the device, and counted.
    ///
    /// # Errors
    /// The sync fails; the kernel counts otherwise than expected.
    pub fn settled(&self) -> Result<Written, LabError> {
        run("sync", &["-f".as_ref(), self.folder.as_ref()])?;
        let text = fs::read_to_string(&self.stat).map_err(|e| LabError::io(&self.stat, e))?;
        counted(&text).ok_or_else(|| {
            LabError::Failed(format!(
                "{}: expected 17 numbers, found `{}`",
                self.stat.display(),
                text.trim()
            ))
        })
    }
}

/// Runs a program of the system; what it says on standard error is the reason when it fails.
pub(super) fn run(program: &str, arguments: &[&OsStr]) -> Result<(), LabError> {
    let said = Command::new(program).args(arguments).output();
    let said = said.map_err(|e| LabError::Failed(format!("{program}: {e}")))?;
    match said.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&said.stderr);
            Err(LabError::Failed(format!("{program}: {}: {}", said.status, why.trim())))
        }
    }
}

/// Fields 5, 7 and 16 of the kernel's `stat` of a block device.
fn counted(text: &str) -> Option<Written> {
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let (writes, sectors, flushes) = (fields.get(4)?, fields.get(6)?, fields.get(15)?);
    Some(Written { bytes: sectors * SECTOR, writes: *writes, flushes: *flushes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_fields_are_taken_by_their_places() {
        let text = " 1 2 3 4 50 6 70 8 9 10 11 12 13 14 15 160 17\n";
        let written = Written { bytes: 70 * 512, writes: 50, flushes: 160 };
        assert_eq!(counted(text), Some(written));
        assert_eq!(counted("1 2 3 4 5 6 7 8 9 10 11"), None, "an older kernel's");
        let more = Written { bytes: 100, writes: 2, flushes: 3 };
        assert_eq!(written.and(more).since(written), more);
    }
}
