//! The folder of a run: known to take files before the run begins, and what is written into it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::explain::rows;
use crate::files::write_whole;
use crate::report::{Shown, html};
use crate::{Document, LabError};

/// The result document in a folder.
pub const RESULTS: &str = "results.json";
/// The page of results in a folder.
pub const REPORT: &str = "report.html";
/// The scenario that repeats the runs of a folder.
const SCENARIO: &str = "run.toml";

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

    /// Writes results, report and the scenario that repeats them; the command that does.
    ///
    /// # Errors
    /// The system's reason.
    pub fn write(&self, scenario: &str, document: &Document) -> Result<String, LabError> {
        let value = document.value();
        let command = command(&self.path(SCENARIO), &value);
        let page = html(&[Shown { name: "", value: &value, command: &command }]);
        write_whole(&self.path(SCENARIO), scenario.as_bytes())?;
        write_whole(&self.path(REPORT), page.as_bytes())?;
        write_whole(&self.path(RESULTS), document.text().as_bytes())?;
        Ok(command)
    }
}

/// The scenario of the runs of a folder, if it holds it.
pub fn scenario(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(SCENARIO)).filter(|path| path.is_file())
}

/// What repeats the runs of a folder, if it holds their scenario.
pub fn repeats(folder: &Path, document: &Value) -> Option<String> {
    scenario(folder).map(|path| command(&path, document))
}

/// What repeats a run whose scenario is in a file: with the causes, if it has some.
fn command(scenario: &Path, document: &Value) -> String {
    let explain = if rows(document).is_some() { " --explain" } else { "" };
    format!("varve run {}{explain}", shell(&scenario.display().to_string()))
}

/// A word for a shell.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    if text.chars().all(plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
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
