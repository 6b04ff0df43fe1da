//! A trace by its name, read anew by whoever wants its requests.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_array::RecordBatchReader;
use arrow_schema::{ArrowError, SchemaRef};
use lab::LabError;
use lab::files::{Reads, keeps};
use lab::replay::Watch;
use lab::scenario::Scenario;
use lab::trace::About;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use workload::generate::{Recipe, parse_recipe};
use workload::info::{InfoOptions, trace_info};
use workload::read::{OpenTrace, ReadOptions, VtrHeader, VtrWriter, open_reader};
use workload::{Record, Source, SourceError};

use crate::batch::{Batch, columns, schema};
use crate::errors::{guarded, panicked, raised};
use crate::foreign::capsule;
use crate::table::{self, Asked};
use crate::watched::watched;

/// Requests of a batch: 2.4 MB of columns.
const ROWS: usize = 1 << 16;

/// Of a recipe that says none: that of a scenario which says none.
const SEED: u64 = 1;

/// Where the requests are.
enum Origin {
    /// In a file, or the demo's.
    File(ReadOptions),
    /// Nowhere: they are made by this recipe.
    Recipe(Recipe),
    /// In memory, as a `.vtr` file.
    Memory(Arc<[u8]>),
}

/// A trace.
#[pyclass(frozen, module = "varve._varve")]
pub struct Trace {
    name: String,
    origin: Origin,
    format: &'static str,
    compression: &'static str,
}

/// Bytes that are shared.
struct Shared(Arc<[u8]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A trace that was opened.
enum Opened {
    Trace(Box<OpenTrace>),
    Recipe(Box<dyn Source + Send>),
}

impl Source for Opened {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        match self {
            Opened::Trace(trace) => trace.fill(block),
            Opened::Recipe(source) => source.fill(block),
        }
    }
}

/// A source that can be stopped.
struct Stoppable<'a, 'w>(&'a mut Opened, Watch<'w>);

impl Source for Stoppable<'_, '_> {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        self.0.fill(block)?;
        self.1.tick(block.len() as u64).map_err(|stopped| SourceError::Recipe(stopped.to_string()))
    }
}

/// A trace being read.
struct Reading {
    trace: Opened,
    block: Vec<Record>,
    over: bool,
}

impl Reading {
    fn new(trace: Opened) -> Reading {
        Reading { trace, block: Vec::new(), over: false }
    }

    /// The next requests; none at the end, and after an error.
    fn batch(&mut self) -> Result<Option<RecordBatch>, LabError> {
        let mut records = Vec::new();
        while !self.over && records.len() < ROWS {
            let filled = self.trace.fill(&mut self.block);
            self.over = filled.is_err() || self.block.is_empty();
            filled?;
            records.extend_from_slice(&self.block);
        }
        if records.is_empty() {
            return Ok(None);
        }
        columns(&records).map(Some).map_err(|e| LabError::Failed(e.to_string()))
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch, ArrowError>;

    /// Called from the code of others: a panic ends here.
    fn next(&mut self) -> Option<Self::Item> {
        let batch = catch_unwind(AssertUnwindSafe(|| self.batch()));
        let told = |text: String| Err(ArrowError::ExternalError(text.into()));
        match batch {
            Ok(Ok(batch)) => batch.map(Ok),
            Ok(Err(error)) => Some(told(error.to_string())),
            Err(cause) => {
                self.over = true;
                Some(told(panicked(&*cause).to_string()))
            }
        }
    }
}

impl RecordBatchReader for Reading {
    fn schema(&self) -> SchemaRef {
        schema()
    }
}

/// The requests of a trace, in batches.
#[pyclass(frozen, module = "varve")]
pub struct Batches(Mutex<Reading>);

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let next = || self.0.lock().unwrap_or_else(PoisonError::into_inner).batch();
        Ok(py.detach(|| guarded(next))?.map(Batch))
    }
}

#[pymethods]
impl Trace {
    /// `options` are those of `varve trace`, by their names.
    #[new]
    fn new(py: Python<'_>, name: String, options: Vec<(String, String)>) -> PyResult<Trace> {
        py.detach(|| {
            guarded(|| {
                let mut scenario = Scenario::default();
                for (key, text) in &options {
                    scenario.set(&format!("workload.{key}"), text)?;
                }
                let options = scenario.workload.options;
                let trace = lab::trace::open(&name, &options)?;
                let (format, compression) = (trace.format().name, trace.compression().name());
                Ok(Trace { name, origin: Origin::File(options), format, compression })
            })
        })
    }

    /// The requests of a generator, by the text that a scenario has.
    #[staticmethod]
    fn recipe(text: &str) -> PyResult<Trace> {
        let recipe = guarded(|| Ok(parse_recipe(text, SEED)?))?;
        let (name, origin) = (format!("gen:{text}"), Origin::Recipe(recipe));
        Ok(Trace { name, origin, format: "recipe", compression: "none" })
    }

    /// The rows of somebody else's table.
    #[staticmethod]
    #[pyo3(signature = (name, table, asked, progress = None))]
    fn table(
        py: Python<'_>,
        name: String,
        table: &Bound<'_, PyAny>,
        asked: Asked,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Trace> {
        let bytes = table::read(py, &name, table, &asked, progress.as_ref())?;
        let origin = Origin::Memory(bytes.into());
        Ok(Trace { name, origin, format: "vtr", compression: "none" })
    }

    /// Refuses to be written over what it is read from.
    fn keeps(&self, path: PathBuf) -> PyResult<()> {
        guarded(|| {
            let reads = match self.origin {
                Origin::File(_) => lab::trace::files(&self.name)?,
                Origin::Recipe(_) | Origin::Memory(_) => Vec::new(),
            };
            let reads: Vec<Reads> = reads.into_iter().map(|file| ("trace", file)).collect();
            keeps(&reads, &[path])
        })
    }

    /// The bytes of a `.vtr` file.
    #[pyo3(signature = (progress = None))]
    fn vtr<'py>(
        &self,
        py: Python<'py>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Origin::Memory(bytes) = &self.origin {
            return Ok(PyBytes::new(py, bytes));
        }
        let bytes = watched(py, progress.as_ref(), |watch| {
            let mut trace = self.open()?;
            let header = self.header(&trace);
            let io = |source| LabError::io(&self.name, source);
            let mut out = VtrWriter::new(Vec::new(), &header).map_err(io)?;
            let copied = out.copy(&mut Stoppable(&mut trace, watch), self.name.as_ref());
            watch.tick(0)?;
            copied?;
            let apps = match &trace {
                Opened::Trace(trace) => trace.apps(),
                Opened::Recipe(_) => &[],
            };
            let (bytes, _) = out.finish(apps).map_err(io)?;
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn format(&self) -> &str {
        self.format
    }

    #[getter]
    fn compression(&self) -> &str {
        self.compression
    }

    fn __repr__(&self) -> String {
        format!("<varve.Trace {}, {}, {}>", self.name, self.format, self.compression)
    }

    /// The document of `varve trace info --json`.
    #[pyo3(signature = (version, progress = None))]
    fn document(
        &self,
        py: Python<'_>,
        version: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        watched(py, progress.as_ref(), |watch| {
            let mut trace = self.open()?;
            let found = trace_info(&mut Stoppable(&mut trace, watch), &InfoOptions::default());
            watch.tick(0)?;
            let about = match &trace {
                Opened::Trace(trace) => About::of(trace),
                Opened::Recipe(_) => About::recipe(),
            };
            Ok(lab::trace::about(&self.name, &about, &found?, version).pretty())
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches(Mutex::new(Reading::new(self.opened(py)?))))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        capsule::give(py, Reading::new(self.opened(py)?))
    }
}

impl Trace {
    fn open(&self) -> Result<Opened, LabError> {
        Ok(match &self.origin {
            Origin::File(options) => {
                Opened::Trace(Box::new(lab::trace::open(&self.name, options)?))
            }
            Origin::Recipe(recipe) => Opened::Recipe(recipe.open()),
            Origin::Memory(bytes) => {
                let bytes = Box::new(Cursor::new(Shared(Arc::clone(bytes))));
                let options = ReadOptions::default();
                Opened::Trace(Box::new(open_reader(self.name.as_ref(), bytes, &options)?))
            }
        })
    }

    fn opened(&self, py: Python<'_>) -> PyResult<Opened> {
        py.detach(|| self.open()).map_err(raised)
    }

    /// What a file that is made of it says about where it comes from.
    fn header(&self, trace: &Opened) -> VtrHeader {
        let file = self.name.rsplit('/').next().unwrap_or(&self.name);
        match (&self.origin, trace) {
            (Origin::Recipe(recipe), _) => {
                let described =
                    recipe.describe().into_iter().map(|(key, value)| format!("{key}={value}"));
                VtrHeader {
                    source: self.name.clone(),
                    format: self.format.to_string(),
                    commands: vec![described.collect::<Vec<_>>().join(" ")],
                    synthetic: true,
                    shared: true,
                    ..VtrHeader::default()
                }
            }
            (_, Opened::Trace(trace)) => trace.header().cloned().unwrap_or_else(|| VtrHeader {
                source: file.to_string(),
                format: self.format.to_string(),
                shared: trace.is_shared(),
                carries: trace.carries(),
                ..VtrHeader::default()
            }),
            (_, Opened::Recipe(_)) => VtrHeader::default(),
        }
    }
}
