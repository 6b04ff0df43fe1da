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

/// What each scenario that a run writes begins with.
pub(crate) const WRITTEN: &str = "# Written by varve";

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

    /// What the results of a scenario would take the place of here, before they are made: those of the same one
    /// are nothing, those of another one a line for people. A study that is changed and run again replaces its
    /// own, so that is no error; what is not ours is. Results without a scenario (hits) replace their kind.
    ///
    /// # Errors
    /// A file that no run wrote.
    pub fn replaces(
        &self,
        scenario: Option<&str>,
        schema: &str,
    ) -> Result<Option<String>, LabError> {
        let foreign = |name: &str| {
            let path = self.path(name);
            let what = "a file that no run wrote is there; expected another folder for --out";
            Err(LabError::Input(format!("{}: {what}", path.display())))
        };
        let there = std::fs::read_to_string(self.path(SCENARIO)).ok();
        if scenario.is_some() && there.as_ref().is_some_and(|text| !text.starts_with(WRITTEN)) {
            return foreign(SCENARIO);
        }
        let Ok(bytes) = std::fs::read(self.path(RESULTS)) else { return Ok(None) };
        let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let Some(found) = document["schema"].as_str().filter(|name| name.starts_with("varve."))
        else {
            return foreign(RESULTS);
        };
        if (scenario.is_none() || there.as_deref() == scenario) && found == schema {
            return Ok(None);
        }
        let title =
            document["title"].as_str().map(|title| format!(" ({title})")).unwrap_or_default();
        let path = self.path(RESULTS);
        Ok(Some(format!("{}: results of another study{title} are replaced", path.display())))
    }

    /// The names of what a run writes here.
    pub fn files(&self) -> Vec<PathBuf> {
        [RESULTS, REPORT, SCENARIO].map(|name| self.path(name)).to_vec()
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

/// Whether a file is a scenario as a run writes it.
pub fn is_written(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.starts_with(WRITTEN))
}

/// The scenario of the runs of a folder, if it holds it: what somebody else wrote under its name repeats
/// something else.
pub fn scenario(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(SCENARIO)).filter(|path| is_written(path))
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
