//! The folder of `--out`: known to take files before the run begins, and keeping what is finished
//! of a sweep that does not come to its end.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use lab::files::write_whole;
use lab::{Finished, LabError};

use crate::{cost, note};

/// The results of a sweep under way, or of one that was interrupted.
const PARTIAL: &str = "partial.json";
/// A sweep under way is written down once in so many milliseconds at most.
const EVERY_MS: u64 = 1000;

/// A folder that takes files.
pub struct Folder {
    path: PathBuf,
    /// It was not there before.
    made: bool,
    clock: cost::Watch,
    kept: Mutex<Kept>,
}

/// What was written of a sweep under way.
#[derive(Default)]
struct Kept {
    count: usize,
    at_ms: u64,
    failed: bool,
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
        let (clock, kept) = (cost::Watch::start(), Mutex::default());
        Ok(Folder { path: path.to_path_buf(), made, clock, kept })
    }

    /// The path of a file of that name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes down what is finished of a sweep: at once if nothing more will follow, else now and
    /// then. Runs on whatever thread ended a run; one of them writes at a time.
    pub fn keep(&self, finished: &Finished<'_>) {
        let Ok(mut kept) = self.kept.lock() else { return };
        let now = self.clock.ms();
        if finished.of() == 1 || !finished.last && now < kept.at_ms + EVERY_MS {
            return;
        }
        let (count, document) = finished.document();
        let whole = count == finished.of();
        if count > kept.count && !whole {
            let written = write_whole(&self.path(PARTIAL), document.text().as_bytes());
            match written {
                Ok(()) => kept.count = count,
                // The run goes on; its end will say so again if it is still true.
                Err(error) if !kept.failed => {
                    note(&format!("what is finished so far cannot be kept: {error}"));
                    kept.failed = true;
                }
                Err(_) => {}
            }
            kept.at_ms = now;
        }
        if finished.last && kept.count > 0 {
            let (path, of) = (self.path(PARTIAL), finished.of());
            note(&format!("{} of {of} runs are finished and kept: {}", kept.count, path.display()));
        }
    }

    /// The results are written whole: what was kept of them on the way is not needed any more.
    ///
    /// # Errors
    /// The system's reason.
    pub fn forget_partial(&self) -> Result<(), LabError> {
        let path = self.path(PARTIAL);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LabError::io(path, e)),
            _ => Ok(()),
        }
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
