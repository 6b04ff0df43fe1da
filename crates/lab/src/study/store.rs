//! A folder of results: `points.json`, the index, and `points/ID.json`, a result for each point that has
//! ended.
//!
//! * A result is there whole or not at all, whenever the program was killed; after a power cut it may be damaged,
//!   which is seen when it is read.
//! * Any number of programs may write to one folder, on any number of machines: results of one id have
//!   the same bytes.
//! * Results of other studies may lie in the same folder; nobody looks at them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Finished, Index};
use crate::LabError;
use crate::files::{PART, write_unsynced, write_whole};

/// The index of a store.
pub const INDEX: &str = "points.json";
/// The folder of its results.
const POINTS: &str = "points";

/// What is found under the name of a result.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The result.
    Finished(Finished),
    /// Something else: what is wrong with it.
    Damaged(String),
}

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in a folder, whether anything is there or not.
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_path_buf() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a result.
    pub fn path(&self, id: &str) -> PathBuf {
        self.folder.join(POINTS).join(format!("{id}.json"))
    }

    /// Makes the folder, and writes the index into it.
    ///
    /// # Errors
    /// The system's reason.
    pub fn begin(&self, index: &Index) -> Result<(), LabError> {
        let points = self.folder.join(POINTS);
        std::fs::create_dir_all(&points).map_err(|e| LabError::io(&points, e))?;
        write_whole(&self.folder.join(INDEX), index.to_json().pretty().as_bytes())
    }

    /// The index.
    ///
    /// # Errors
    /// No index, or a broken one.
    pub fn index(&self) -> Result<Index, LabError> {
        let path = self.folder.join(INDEX);
        let wrong = |what: String| LabError::Input(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|e| {
            wrong(format!("{e}; expected the index that `varve run --out` writes of a sweep"))
        })?;
        Index::read(&text).map_err(wrong)
    }

    /// How many of a study's points have a file here, whatever is in it.
    pub fn count(&self, index: &Index) -> usize {
        index.ids().filter(|(_, id)| self.path(id).exists()).count()
    }

    /// Looks for the result of an id.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn find(&self, id: &str) -> Result<Found, LabError> {
        let path = self.path(id);
        let bytes = match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
            result => result.map_err(|e| LabError::io(&path, e))?,
        };
        let damaged = |what: &str| Ok(Found::Damaged(format!("{}: {what}", path.display())));
        match std::str::from_utf8(&bytes).map_err(|e| e.to_string()).and_then(Finished::read) {
            Ok(result) if result.id == id => Ok(Found::Finished(result)),
            Ok(result) => damaged(&format!("the result of {}, expected that of {id}", result.id)),
            Err(what) => damaged(&what),
        }
    }

    /// Puts a result there.
    ///
    /// # Errors
    /// The system's reason.
    pub fn put(&self, result: &Finished) -> Result<(), LabError> {
        write_unsynced(&self.path(&result.id), result.text().as_bytes())
    }

    /// Removes what killed programs left half-written of a study whose results are all there. A program that runs
    /// here may be writing one of them again, or one of another study: its parts stay. One on another machine
    /// that loses a part writes it again.
    ///
    /// # Errors
    /// The system's reason.
    pub fn clean(&self, index: &Index) -> Result<(), LabError> {
        let ids: BTreeSet<&str> = index.ids().map(|(_, id)| id).collect();
        let of_study = |name: &str| match name.split_once(".json.") {
            Some(("points", _)) => true,
            Some((id, _)) => ids.contains(id),
            None => false,
        };
        for folder in [self.folder.clone(), self.folder.join(POINTS)] {
            let wrong = |e| LabError::io(&folder, e);
            for entry in std::fs::read_dir(&folder).map_err(wrong)? {
                let path = entry.map_err(wrong)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.ends_with(PART) && of_study(&name) && is_left(&name) {
                    match std::fs::remove_file(&path) {
                        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(wrong(e)),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether no program of this machine writes a part, whose name ends in `.PID.N.part`.
fn is_left(name: &str) -> bool {
    let pid = name.rsplit('.').nth(2).and_then(|pid| pid.parse::<u32>().ok());
    pid.is_none_or(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use report::json::Map;

    use super::super::Entry;
    use super::*;

    /// It removed all of them: also those that were being written.
    #[test]
    fn only_parts_of_the_study_that_nobody_writes_are_removed() {
        let folder = std::env::temp_dir().join(format!("varve-clean-{}", std::process::id()));
        std::fs::create_dir_all(folder.join(POINTS)).unwrap();
        let index = Index {
            version: String::new(),
            engine: String::new(),
            heading: Map::new(),
            scenario: String::new(),
            inputs: Vec::new(),
            entries: vec![Entry::new(Map::new(), Map::new(), Ok("ab12".to_string()))],
        };
        let own = format!("points/ab12.json.{}.0.part", std::process::id());
        let stay = [&own, "points/cd34.json.999999999.0.part", "mine.json.999999999.0.part"];
        let left = ["points/ab12.json.999999999.0.part", "points.json.999999999.0.part"];
        for name in stay.iter().chain(&left) {
            std::fs::write(folder.join(name), "{").unwrap();
        }
        Store::new(&folder).clean(&index).unwrap();
        assert!(stay.iter().all(|name| folder.join(name).exists()));
        assert!(!left.iter().any(|name| folder.join(name).exists()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
