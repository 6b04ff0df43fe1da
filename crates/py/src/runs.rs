//! Runs, counts of hits, and what comes of them.

use std::path::PathBuf;
use std::sync::Arc;

use lab::compare::{Loaded, read};
use lab::explain::{Listener, TimelineWanted, Wanted};
use lab::files::keeps;
use lab::folder::{self, Folder, RESULTS};
use lab::report::{Shown, html};
use lab::result::SCHEMA;
use lab::study::{Kind, Table};
use lab::{Document, Experiment, HostCost, LabError};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyNone;
use report::json::{Json, Map};

use crate::errors::guarded;
use crate::registry;
use crate::requests::Requests;
use crate::scenario::{Scenario, asked};
use crate::watched::{Shared, watched};

/// The result document of an experiment, and its numbers as columns.
#[pyclass(frozen, module = "varve._varve")]
pub struct Results {
    document: Document,
    values: Vec<Map>,
    /// A document alone does not say it.
    scenario: Option<String>,
    /// If it was asked for, of the only run.
    requests: Option<Arc<Requests>>,
    /// Why files that were asked for beside it are not there.
    unwritten: Vec<String>,
}

impl Results {
    pub fn new(document: Document, values: Vec<Map>, scenario: Option<String>) -> Results {
        Results { document, values, scenario, requests: None, unwritten: Vec::new() }
    }

    /// The document as a reader of its text has it.
    pub fn loaded(&self) -> Loaded {
        Loaded { name: String::new(), document: self.document.value() }
    }
}

/// What is to be found out about requests, beside what every run tells: attributes of an object of Python.
#[derive(FromPyObject)]
pub struct Looks {
    explain: bool,
    requests: bool,
    requests_out: Option<PathBuf>,
    timeline: Option<(String, PathBuf, usize)>,
}

impl Looks {
    /// The files that it asks for.
    fn writes(&self) -> Vec<PathBuf> {
        let timeline = self.timeline.as_ref().map(|(_, path, _)| path.clone());
        self.requests_out.clone().into_iter().chain(timeline).collect()
    }

    fn wanted(self) -> Result<(Wanted, Option<Arc<Requests>>), LabError> {
        let requests = self.requests.then(|| Arc::new(Requests::default()));
        let listener = requests.as_ref().map(|log| {
            let log = Arc::clone(log);
            Listener(Arc::new(move |request| log.push(request)))
        });
        let timeline = self.timeline.map(|(window, path, most)| {
            let window = window.parse().map_err(LabError::Input)?;
            Ok::<_, LabError>(TimelineWanted { window, path, most })
        });
        let (causes, requests_out) = (self.explain, self.requests_out);
        let timeline = timeline.transpose()?;
        Ok((Wanted { causes, requests: requests_out, listener, timeline }, requests))
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

    /// The scenario that repeats it, if that is known.
    #[getter]
    fn scenario(&self) -> Option<&str> {
        self.scenario.as_deref()
    }

    /// The log of its requests, if it was asked for.
    fn requests(&self) -> Option<Requests> {
        self.requests.as_deref().map(Requests::same)
    }

    /// Why files that were asked for beside it could not be written, once they were known to.
    #[getter]
    fn unwritten(&self) -> Vec<String> {
        self.unwritten.clone()
    }

    /// Writes the folder that `varve run --out` does, with what the runs cost if that is said.
    #[pyo3(signature = (folder, cost = None))]
    fn save(&self, py: Python<'_>, folder: PathBuf, cost: Option<(u64, u64, u64)>) -> PyResult<()> {
        let scenario = self.scenario.as_deref().unwrap_or_default();
        let document = self.document.clone();
        let document = match cost {
            Some((wall_ms, cpu_ms, peak_rss)) => {
                document.with_cost(HostCost { wall_ms, cpu_ms, peak_rss })
            }
            None => document,
        };
        py.detach(|| {
            guarded(|| {
                let out = Folder::prepare(&folder)?;
                // The scenario names what it reads from any folder.
                let of = lab::scenario::Scenario::from_text("run.toml", scenario, PathBuf::new())?;
                keeps(&of.reads(), &out.files())?;
                // Results of another study make room, as they do for the program, which says so.
                out.replaces(Some(scenario), SCHEMA)?;
                out.write(scenario, &document).map(|_command| ())
            })
        })
    }

    /// The page of results.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        let page = || html(&[Shown { name: "", value: &self.document.value(), command: "" }]);
        py.detach(|| guarded(|| Ok(page())))
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
#[pyo3(signature = (scenario, version, threads, looks, progress = None))]
pub fn run(
    py: Python<'_>,
    scenario: &Scenario,
    version: Py<PyAny>,
    threads: usize,
    looks: Looks,
    progress: Option<Py<PyAny>>,
) -> PyResult<Results> {
    let (scenario, named) = (&scenario.0, scenario.1.clone());
    watched(py, progress.as_ref(), |watch| {
        let mut reads = scenario.reads();
        // What a run wrote there it may write again.
        reads.extend(named.filter(|path| !folder::is_written(path)).map(|path| ("scenario", path)));
        keeps(&reads, &looks.writes())?;
        let mut experiment = Experiment::watched(scenario, watch)?;
        let (wanted, requests) = looks.wanted()?;
        experiment.explain(wanted)?;
        let text = experiment.scenario().to_toml()?;
        let document =
            experiment.run(registry::threads(&text, threads), &says(&version, &text)?, watch)?;
        let results = Results::new(document, experiment.values(), Some(text));
        let unwritten = experiment.unwritten().iter().map(LabError::to_string).collect();
        Ok(Results { requests, unwritten, ..results })
    })
}

/// Results of a file, or of the folder of a run.
#[pyfunction]
pub fn load(py: Python<'_>, path: PathBuf) -> PyResult<Results> {
    py.detach(|| {
        guarded(|| {
            let (_, document) = read(&path)?;
            // The scenario beside it is that of results of its own name.
            let named = path.file_name().is_some_and(|name| name == RESULTS);
            let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
            let folder = folder.filter(|_| path.is_dir() || named);
            let scenario = folder.and_then(folder::scenario).map(|path| {
                std::fs::read_to_string(&path).map_err(|error| LabError::io(&path, error))
            });
            let values = document.values();
            Ok(Results::new(document, values, scenario.transpose()?))
        })
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
