//! Points of a sweep that are run one by one, wherever, and what their results make together.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use lab::study::{Finished, Found, Index, Merged, Store, Study};
use lab::{Experiment, LabError};
use pyo3::prelude::*;

use crate::errors::guarded;
use crate::runs::{Results, says};
use crate::watched::watched;

/// A study by the text of its scenario, its version, and what the system says of the files that it reads.
type Known = (String, String, Vec<(PathBuf, Option<(u64, SystemTime)>)>);

/// The study that was last worked at: a worker is given one point of it after another, and reads its traces
/// once, unless one was changed.
static LAST: Mutex<Option<(Known, Arc<Study>)>> = Mutex::new(None);

/// The length of a file, and when it was changed.
fn seen(path: &Path) -> Option<(u64, SystemTime)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Runs the point of an id; `text` is the scenario of its index, with the paths of its traces. What is in the store is
/// not run again, and what is run is put there.
#[pyfunction]
#[pyo3(signature = (text, id, version, store, progress = None))]
pub fn finish(
    py: Python<'_>,
    text: &str,
    id: &str,
    version: Py<PyAny>,
    store: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress.as_ref(), |watch| {
        let store = store.as_deref().map(Store::new);
        if let Some(store) = &store
            && let Found::Finished(there) = store.find(id)?
        {
            return Ok(there.text());
        }
        let version = says(&version, text)?;
        let scenario = lab::scenario::Scenario::from_text("sweep", text, Default::default())?;
        let reads = scenario.reads().into_iter().map(|(_, path)| (path.clone(), seen(&path)));
        let asked: Known = (text.to_string(), version.clone(), reads.collect());
        let known = {
            let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            let same = last.as_ref().filter(|(of, _)| *of == asked);
            same.map(|(_, study)| Arc::clone(study))
        };
        let study = match known {
            Some(study) => study,
            None => {
                let experiment = Experiment::watched(&scenario, watch)?;
                let study = Arc::new(Study::of(experiment, &version)?);
                let last = (asked, Arc::clone(&study));
                *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
                study
            }
        };
        let result = study.finish(id, watch)?;
        if let Some(store) = &store {
            store.put(&result)?;
        }
        Ok(result.text())
    })
}

/// Makes a folder the store of a study.
#[pyfunction]
pub fn begin(py: Python<'_>, index: &str, store: PathBuf) -> PyResult<()> {
    let begin = || Store::new(&store).begin(&Index::read(index).map_err(LabError::Input)?);
    py.detach(|| guarded(begin))
}

/// Ids of points that have no whole result in a store.
#[pyfunction]
pub fn missing(py: Python<'_>, index: &str, store: PathBuf) -> PyResult<Vec<String>> {
    let missing = || {
        let (index, store) = (Index::read(index).map_err(LabError::Input)?, Store::new(&store));
        let mut ids = Vec::new();
        for (_, id) in index.ids() {
            if !matches!(store.find(id)?, Found::Finished(_)) {
                ids.push(id.to_string());
            }
        }
        Ok(ids)
    };
    py.detach(|| guarded(missing))
}

/// The results of a study, from its index and those of its points, which are given, or those of a store; unless
/// `partial`, of all of them.
#[pyfunction]
#[pyo3(signature = (index, results, store, partial))]
pub fn merge(
    py: Python<'_>,
    index: &str,
    results: Vec<String>,
    store: Option<PathBuf>,
    partial: bool,
) -> PyResult<Results> {
    let merge = || {
        let index = Index::read(index).map_err(LabError::Input)?;
        let read = |(at, text): (usize, &String)| {
            Finished::read(text).map_err(|e| LabError::Input(format!("result {at}: {e}")))
        };
        let results = results.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let store = store.as_deref().map(Store::new);
        let merged = match &store {
            Some(store) => Merged::of(&index, std::slice::from_ref(store))?,
            None => Merged::of_results(&index, &results)?,
        };
        if !partial {
            merged.whole()?;
        }
        if let Some(store) = store.filter(|_| merged.missing.is_empty()) {
            store.clean(&merged.index)?;
        }
        let (values, scenario) = (merged.values(), merged.index.scenario.clone());
        Ok(Results::new(merged.document(), values, Some(scenario)))
    };
    py.detach(|| guarded(merge))
}
