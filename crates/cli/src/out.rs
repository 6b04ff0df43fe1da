//! The folder of `--out`: known to take files before the run begins.

use std::path::{Path, PathBuf};

use lab::LabError;

/// A folder that takes files.
pub struct Folder {
    path: PathBuf,
    /// It was not there before.
    made: bool,
}

impl Folder {
    /// Makes the folder if it is not there, and tries whether a file can be written in it.
    ///
    /// # Errors
    /// The folder, and the system's reason.
    pub fn prepare(path: &Path) -> Result<Folder, LabError> {
        let wrong = |e: std::io::Error| {
            let what = format!("--out: {e}; expected a folder that files can be written to");
            LabError::io(path, std::io::Error::new(e.kind(), what))
        };
        let made = !path.exists();
        std::fs::create_dir_all(path).map_err(wrong)?;
        let probe = path.join(format!(".varve.{}.part", std::process::id()));
        std::fs::File::create(&probe).map_err(wrong)?;
        std::fs::remove_file(&probe).map_err(wrong)?;
        Ok(Folder { path: path.to_path_buf(), made })
    }

    /// Its path.
    pub fn here(&self) -> &Path {
        &self.path
    }

    /// The path of a file of that name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    /// A folder that was made for nothing is not left behind. (Only an empty one can be removed.)
    fn drop(&mut self) {
        if self.made {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}
