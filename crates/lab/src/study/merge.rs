//! Results that were made in several places, put together: the bytes of one machine, or an error.

use std::path::{Path, PathBuf};

use report::json::{Json, Map};

use super::{Found, Index, Store, Unit};
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
    /// A unit that is damaged or cannot be read.
    pub fn of(index: &Index, stores: &[Store]) -> Result<Merged, LabError> {
        Merged::with(index, stores, &[])
    }

    /// Puts together what folders and single units have of a study.
    ///
    /// # Errors
    /// Indexes of different studies or programs; a unit that is damaged, or there twice with
    /// different results; a unit of no point of the study.
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
        let units: Vec<Unit> = files.iter().map(|path| unit(path)).collect::<Result<_, _>>()?;
        for (unit, path) in units.iter().zip(&files) {
            if !index.ids().any(|(_, id)| id == unit.id) {
                let (path, id) = (path.display(), &unit.id);
                return Err(LabError::Input(format!(
                    "{path}: the result of point {id}, which {} does not have",
                    name(first)
                )));
            }
        }
        Merged::with(&index, &stores, &units)
    }

    fn with(index: &Index, stores: &[Store], units: &[Unit]) -> Result<Merged, LabError> {
        let (mut results, mut missing) = (Vec::new(), Vec::new());
        for (place, id) in index.ids() {
            let mut found: Option<Unit> = None;
            for store in stores {
                match store.find(id)? {
                    Found::Nothing => {}
                    Found::Unit(unit) => agree(&mut found, unit, index.entries[place].name())?,
                    Found::Damaged(what) => {
                        let expected = "expected it to be removed, or run again (`--resume`)";
                        return Err(LabError::Input(format!("{what}; {expected}")));
                    }
                }
            }
            for unit in units.iter().filter(|unit| unit.id == id) {
                agree(&mut found, unit.clone(), index.entries[place].name())?;
            }
            match found {
                Some(unit) => results.push((place, unit.result)),
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

fn unit(path: &Path) -> Result<Unit, LabError> {
    let wrong = |what: String| LabError::Input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| {
        wrong(format!("{e}; expected a folder of `varve run --out`, or a file of its `points`"))
    })?;
    Unit::read(&text).map_err(wrong)
}

/// Takes a unit in, if it is the first or says the same as the first.
fn agree(found: &mut Option<Unit>, unit: Unit, name: &str) -> Result<(), LabError> {
    match found {
        Some(first) if first.result != unit.result => Err(LabError::Check {
            contract: "C9".to_string(),
            what: format!("point {} ({name}) has two results that differ", unit.id),
        }),
        Some(_) => Ok(()),
        None => {
            *found = Some(unit);
            Ok(())
        }
    }
}
