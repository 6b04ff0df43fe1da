//! A trace by its name, read anew by whoever wants its requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{ArrowError, SchemaRef};
use lab::LabError;
use lab::replay::Watch;
use lab::scenario::Scenario;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use workload::info::{InfoOptions, trace_info};
use workload::read::{OpenTrace, ReadOptions};
use workload::{Record, Source, SourceError};

use crate::batch::{Batch, columns, schema};
use crate::errors::{guarded, panicked, raised};
use crate::watched::watched;

/// Requests of a batch: 2.4 MB of columns.
const ROWS: usize = 1 << 16;

/// A trace file, or the demo's.
#[pyclass(frozen, module = "varve")]
pub struct Trace {
    name: String,
    options: ReadOptions,
    format: &'static str,
    compression: &'static str,
}

/// A source that can be stopped.
struct Stoppable<'a, 'w>(&'a mut OpenTrace, Watch<'w>);

impl Source for Stoppable<'_, '_> {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        self.0.fill(block)?;
        self.1.tick(block.len() as u64).map_err(|stopped| SourceError::Recipe(stopped.to_string()))
    }
}

/// A trace being read.
struct Reading {
    trace: OpenTrace,
    block: Vec<Record>,
    over: bool,
}

impl Reading {
    fn new(trace: OpenTrace) -> Reading {
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
                Ok(Trace { name, options, format, compression })
            })
        })
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
            let mut trace = lab::trace::open(&self.name, &self.options)?;
            let found = trace_info(&mut Stoppable(&mut trace, watch), &InfoOptions::default());
            watch.tick(0)?;
            Ok(lab::trace::document(&self.name, &trace, &found?, version).pretty())
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches(Mutex::new(Reading::new(self.open(py)?))))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(Reading::new(self.open(py)?)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

impl Trace {
    fn open(&self, py: Python<'_>) -> PyResult<OpenTrace> {
        py.detach(|| lab::trace::open(&self.name, &self.options)).map_err(raised)
    }
}
