//! Points of a sweep that are run one by one, wherever, and what their results make together.

use std::sync::{Arc, Mutex, PoisonError};

use lab::study::{Finished, Index, Merged, Study};
use lab::{Experiment, LabError};
use pyo3::prelude::*;

use crate::errors::guarded;
use crate::runs::{Results, says};
use crate::watched::watched;

/// The study that was last worked at, by the text of its scenario and its version: a worker is given one point
/// of it after another, and reads its traces once.
static LAST: Mutex<Option<(String, String, Arc<Study>)>> = Mutex::new(None);

/// Runs the point of an id; `text` is the scenario of its index, with the paths of its traces.
#[pyfunction]
#[pyo3(signature = (text, id, version, progress = None))]
pub fn finish(
    py: Python<'_>,
    text: &str,
    id: &str,
    version: Py<PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress.as_ref(), |watch| {
        let version = says(&version, text)?;
        let known = {
            let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            let same = last.as_ref().filter(|(of, by, _)| of == text && *by == version);
            same.map(|(_, _, study)| Arc::clone(study))
        };
        let study = match known {
            Some(study) => study,
            None => {
                let scenario =
                    lab::scenario::Scenario::from_text("sweep", text, Default::default())?;
                let experiment = Experiment::watched(&scenario, watch)?;
                let study = Arc::new(Study::of(experiment, &version)?);
                let last = (text.to_string(), version, Arc::clone(&study));
                *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
                study
            }
        };
        Ok(study.finish(id, watch)?.text())
    })
}

/// The results of a study, from its index and those of its points; unless `partial`, of all of them.
#[pyfunction]
pub fn merge(
    py: Python<'_>,
    index: &str,
    results: Vec<String>,
    partial: bool,
) -> PyResult<Results> {
    let merge = || {
        let index = Index::read(index).map_err(LabError::Input)?;
        let read = |(at, text): (usize, &String)| {
            Finished::read(text).map_err(|e| LabError::Input(format!("result {at}: {e}")))
        };
        let results = results.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let merged = Merged::of_results(&index, &results)?;
        if !partial {
            merged.whole()?;
        }
        let (values, scenario) = (merged.values(), merged.index.scenario.clone());
        Ok(Results::new(merged.document(), values, Some(scenario)))
    };
    py.detach(|| guarded(merge))
}
