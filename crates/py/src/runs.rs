//! Runs, counts of hits, and what comes of them.

use lab::study::{Kind, Table};
use lab::{Document, Experiment, HostCost, LabError};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyNone;
use report::json::{Json, Map};

use crate::registry;
use crate::scenario::{Scenario, asked};
use crate::watched::{Shared, watched};

/// The result document of an experiment, and its numbers as columns.
#[pyclass(frozen, module = "varve._varve")]
pub struct Results {
    document: Document,
    values: Vec<Map>,
    scenario: String,
}

impl Results {
    pub fn new(document: Document, values: Vec<Map>, scenario: String) -> Results {
        Results { document, values, scenario }
    }
}

/// A cell of a table. A column is of one type: whole numbers only where all of it must be whole.
fn cell(py: Python<'_>, value: &Json) -> PyResult<Py<PyAny>> {
    match value {
        Json::Null => Ok(PyNone::get(py).to_owned().into_any().unbind()),
        Json::Int(value) => value.into_py_any(py),
        Json::Text(text) => text.into_py_any(py),
        Json::Bool(value) => value.into_py_any(py),
        other => other.number().into_py_any(py),
    }
}

#[pymethods]
impl Results {
    /// The document without what the runs cost.
    fn text(&self) -> String {
        self.document.text()
    }

    /// The document with it.
    fn text_with_cost(&self, wall_ms: u64, cpu_ms: u64, peak_rss: u64) -> String {
        self.document.clone().with_cost(HostCost { wall_ms, cpu_ms, peak_rss }).text()
    }

    /// The scenario that repeats it.
    #[getter]
    fn scenario(&self) -> &str {
        &self.scenario
    }

    /// Names and kinds of the columns.
    fn columns(&self) -> Vec<(String, &'static str)> {
        let kind = |(name, kind): &(String, Kind)| (name.clone(), kind.name());
        Table::of(&self.document, &self.values).columns().iter().map(kind).collect()
    }

    /// The cells, by row.
    fn cells(&self, py: Python<'_>) -> PyResult<Vec<Vec<Py<PyAny>>>> {
        let table = Table::of(&self.document, &self.values);
        let row = |row: &Vec<Json>| row.iter().map(|value| cell(py, value)).collect();
        table.rows().iter().map(row).collect()
    }

    /// As `varve run --csv` writes it.
    fn csv(&self) -> String {
        Table::of(&self.document, &self.values).csv()
    }
}

/// The version that results of a scenario of this text carry, which Python says: its policies are known there.
pub fn says(version: &Py<PyAny>, text: &str) -> Result<String, LabError> {
    Python::attach(|py| version.call1(py, (text,))?.extract(py)).map_err(|error: PyErr| {
        let told = LabError::Failed(error.to_string());
        Shared::of_this_thread().fail(error);
        told
    })
}

/// Runs a scenario.
#[pyfunction]
#[pyo3(signature = (scenario, version, threads, progress = None))]
pub fn run(
    py: Python<'_>,
    scenario: &Scenario,
    version: Py<PyAny>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Results> {
    let scenario = &scenario.0;
    watched(py, progress.as_ref(), |watch| {
        let experiment = Experiment::watched(scenario, watch)?;
        let text = experiment.scenario().to_toml()?;
        let document =
            experiment.run(registry::threads(&text, threads), &says(&version, &text)?, watch)?;
        Ok(Results::new(document, experiment.values(), text))
    })
}

/// Counts hits: the document of `varve sim --hits --json`.
#[pyfunction]
#[pyo3(signature = (trace, ssd, policies, buffers, set, options, curve, version, threads, progress = None))]
#[expect(clippy::too_many_arguments, reason = "each is one of the caller's")]
pub fn hits(
    py: Python<'_>,
    trace: &str,
    ssd: Option<String>,
    policies: Option<Vec<String>>,
    buffers: Option<Vec<String>>,
    set: Vec<String>,
    options: Vec<(String, String)>,
    curve: Option<String>,
    version: &str,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress.as_ref(), |watch| {
        let asked = asked(trace, ssd, (policies, buffers), set, &options)?;
        let plan = asked.hits(curve.as_deref(), watch)?;
        let found = plan.count(threads, watch)?;
        Ok(plan.document(&found, version).pretty())
    })
}
