//! Results that were made in several places, put together: the bytes of one machine, or an error.

use std::path::{Path, PathBuf};

use report::json::{Json, Map};

use super::{Finished, Found, Index, Store};
use crate::LabError;
use crate::document::Document;

/// What of a study is there.
pub struct Merged {
    /// Its index.
    pub index: Index,
    /// The results, each with the place of its point.
    results: Vec<(usize, Json)>,
    /// Places of points that can be run and are not there.
    pub missing: Vec<usize>,
}

impl Merged {
    /// What a store has of a study.
    ///
    /// # Errors
    /// A result that is damaged or cannot be read.
    pub fn of(index: &Index, stores: &[Store]) -> Result<Merged, LabError> {
        Merged::with(index, stores, &[])
    }

    /// What some results make of a study.
    ///
    /// # Errors
    /// A result that is there twice with different results, or of no point of the study.
    pub fn of_results(index: &Index, given: &[Finished]) -> Result<Merged, LabError> {
        match given.iter().find(|result| !index.ids().any(|(_, id)| id == result.id)) {
            Some(result) => {
                Err(LabError::Input(format!("point {} is not of this study", result.id)))
            }
            None => Merged::with(index, &[], given),
        }
    }

    /// Puts together what folders and single results have of a study.
    ///
    /// # Errors
    /// Indexes of different studies or programs; a result that is damaged, or there twice with
    /// different results; a result of no point of the study.
    pub fn read(paths: &[PathBuf]) -> Result<Merged, LabError> {
        let (folders, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
            paths.iter().partition(|path| path.is_dir());
        let stores: Vec<Store> = folders.iter().map(|path| Store::new(path)).collect();
        let [first, others @ ..] = stores.as_slice() else {
            let what = "expected at least one folder with the index of a study";
            return Err(LabError::Input(what.to_string()));
        };
        let name = |store: &Store| store.folder().display().to_string();
        let index = first.index()?;
        for other in others {
            index.same(&other.index()?, (&name(first), &name(other)))?;
        }
        let given: Vec<Finished> = files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        for (result, path) in given.iter().zip(&files) {
            if !index.ids().any(|(_, id)| id == result.id) {
                let (path, id) = (path.display(), &result.id);
                return Err(LabError::Input(format!(
                    "{path}: the result of point {id}, which {} does not have",
                    name(first)
                )));
            }
        }
        Merged::with(&index, &stores, &given)
    }

    fn with(index: &Index, stores: &[Store], given: &[Finished]) -> Result<Merged, LabError> {
        let (mut results, mut missing) = (Vec::new(), Vec::new());
        for (place, id) in index.ids() {
            let mut found: Option<Finished> = None;
            for store in stores {
                match store.find(id)? {
                    Found::Nothing => {}
                    Found::Finished(result) => {
                        agree(&mut found, result, index.entries[place].name())?
                    }
                    Found::Damaged(what) => {
                        let expected = "expected it to be removed, or run again (`--resume`)";
                        return Err(LabError::Input(format!("{what}; {expected}")));
                    }
                }
            }
            for result in given.iter().filter(|result| result.id == id) {
                agree(&mut found, result.clone(), index.entries[place].name())?;
            }
            match found {
                Some(result) => results.push((place, result.result)),
                None => missing.push(place),
            }
        }
        Ok(Merged { index: index.clone(), results, missing })
    }

    /// Refuses holes.
    ///
    /// # Errors
    /// How many points are missing, and the first of them.
    pub fn whole(&self) -> Result<(), LabError> {
        let Some(first) = self.missing.first() else { return Ok(()) };
        let (missing, all) = (self.missing.len(), self.index.entries.len());
        let entry = &self.index.entries[*first];
        Err(LabError::Failed(format!(
            "{missing} of {all} points are missing, the first is {first} ({}, {}); expected all, or --partial",
            entry.name(),
            entry.id().unwrap_or_default()
        )))
    }

    /// The swept keys of each of its results as numbers, in their order.
    pub fn values(&self) -> Vec<Map> {
        let entries = self.index.entries.iter().enumerate();
        let there = entries.filter(|(place, _)| self.missing.binary_search(place).is_err());
        there.map(|(_, entry)| entry.values().clone()).collect()
    }

    /// The result document; with points missing it says that it is partial.
    pub fn document(&self) -> Document {
        self.index.document(self.results.clone())
    }
}

fn read(path: &Path) -> Result<Finished, LabError> {
    let wrong = |what: String| LabError::Input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| {
        wrong(format!("{e}; expected a folder of `varve run --out`, or a file of its `points`"))
    })?;
    Finished::read(&text).map_err(wrong)
}

/// Takes a result in, if it is the first or says the same as the first.
fn agree(found: &mut Option<Finished>, result: Finished, name: &str) -> Result<(), LabError> {
    match found {
        Some(first) if first.result != result.result => Err(LabError::Check {
            contract: "C9".to_string(),
            what: format!("point {} ({name}) has two results that differ", result.id),
        }),
        Some(_) => Ok(()),
        None => {
            *found = Some(result);
            Ok(())
        }
    }
}
