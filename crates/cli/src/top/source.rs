//! Where the counters come from.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use lab::LabError;
use rustix::io::Errno;
use serde_json::Value;
use serve::mount::STATS;

use crate::ctl::result;

/// The kernel's limit of an extended attribute.
const LARGEST: usize = 64 << 10;

/// Something that counts.
#[derive(Debug)]
pub enum Source {
    /// A control socket.
    Socket(PathBuf),
    /// The directory of a mounted volume.
    Volume(PathBuf),
    /// The file of counters of `varve serve fuse`.
    File(PathBuf),
}

impl Source {
    /// What `path` is.
    ///
    /// # Errors
    /// It is none of these.
    pub fn find(path: &Path) -> Result<Source, LabError> {
        let found = std::fs::metadata(path).map_err(|error| LabError::io(path, error))?;
        if found.file_type().is_socket() {
            return Ok(Source::Socket(path.to_path_buf()));
        }
        if found.is_dir() {
            let file = path.join(serve::fuse::STATS);
            let device = file.is_file() && path.join(serve::fuse::CONTROL).exists();
            return Ok(if device {
                Source::File(file)
            } else {
                Source::Volume(path.to_path_buf())
            });
        }
        Err(LabError::Input(format!("{}: expected a socket or a directory", path.display())))
    }

    /// The counters now.
    ///
    /// # Errors
    /// Nobody answers, or not as expected.
    pub fn read(&self) -> Result<Value, LabError> {
        let (path, text) = match self {
            Source::Socket(path) => return result(path, r#"{"command":"stats"}"#),
            Source::File(path) => {
                let text = std::fs::read(path).map_err(|error| LabError::io(path, error))?;
                (path, text)
            }
            Source::Volume(path) => {
                let mut text = vec![0; LARGEST];
                let len =
                    rustix::fs::getxattr(path, STATS, &mut text[..]).map_err(
                        |error| match error {
                            Errno::NODATA | Errno::NOTSUP => {
                                LabError::Input(format!("{}: no volume of ours", path.display()))
                            }
                            error => LabError::io(path, error.into()),
                        },
                    )?;
                text.truncate(len);
                (path, text)
            }
        };
        serde_json::from_slice(&text)
            .map_err(|error| LabError::Failed(format!("{}: {error}", path.display())))
    }
}
