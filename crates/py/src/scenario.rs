//! A scenario, made and changed by texts as the command line does.

use std::path::{Path, PathBuf};

use lab::LabError;
use lab::scenario::split_list;
use lab::sim::{Sim, named};
use lab::study::Study;
use pyo3::prelude::*;

use crate::errors::guarded;
use crate::runs::says;
use crate::watched::watched;

/// A whole experiment: what `varve run` is given, and the file that it was read from.
#[pyclass(module = "varve._varve")]
#[derive(Clone)]
pub struct Scenario(pub lab::scenario::Scenario, pub Option<PathBuf>);

/// What `varve sim` is asked, by its options.
pub fn asked(
    trace: &str,
    ssd: Option<String>,
    lists: (Option<Vec<String>>, Option<Vec<String>>),
    set: Vec<String>,
    options: &[(String, String)],
) -> Result<Sim, LabError> {
    let members = |texts: Vec<String>| texts.iter().flat_map(|text| split_list(text)).collect();
    let mut sim = Sim::new(trace);
    sim.ssd = ssd;
    sim.policies = lists.0.map(members);
    sim.buffers = lists.1.map(members);
    sim.set = set;
    for (name, text) in options {
        sim.option(name, text)?;
    }
    Ok(sim)
}

/// The scenario of `varve sim`.
#[pyfunction]
pub fn sim_scenario(
    trace: &str,
    ssd: Option<String>,
    policies: Option<Vec<String>>,
    buffers: Option<Vec<String>>,
    set: Vec<String>,
    options: Vec<(String, String)>,
) -> PyResult<Scenario> {
    let lists = (policies, buffers);
    guarded(|| Ok(Scenario(asked(trace, ssd, lists, set, &options)?.scenario()?, None)))
}

#[pymethods]
impl Scenario {
    /// One without anything set.
    #[new]
    fn new() -> Scenario {
        Scenario(lab::scenario::Scenario::default(), None)
    }

    /// That of a file, or the demo's.
    #[staticmethod]
    fn load(name: &str) -> PyResult<Scenario> {
        guarded(|| Ok(Scenario(named(name, &[])?, Some(PathBuf::from(name)))))
    }

    /// That of a text; paths in it start from `folder`.
    #[staticmethod]
    fn from_toml(name: &str, text: &str, folder: &str) -> PyResult<Scenario> {
        let folder = Path::new(folder).to_path_buf();
        guarded(|| Ok(Scenario(lab::scenario::Scenario::from_text(name, text, folder)?, None)))
    }

    fn copy(&self) -> Scenario {
        self.clone()
    }

    fn set(&mut self, key: &str, value: &str) -> PyResult<()> {
        guarded(|| self.0.set(key, value))
    }

    fn to_toml(&self) -> PyResult<String> {
        guarded(|| self.0.to_toml())
    }

    /// The document of `varve points --json`.
    #[pyo3(signature = (version, progress = None))]
    fn index(
        &self,
        py: Python<'_>,
        version: Py<PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let scenario = &self.0;
        watched(py, progress.as_ref(), |watch| {
            let experiment = lab::Experiment::watched(scenario, watch)?;
            let version = says(&version, &experiment.scenario().to_toml()?)?;
            Ok(Study::of(experiment, &version)?.index().to_json().pretty())
        })
    }
}
