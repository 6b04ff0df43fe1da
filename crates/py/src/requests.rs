//! Every request of a run, and what its time went to, as columns.
//!
//! They are held as they will be handed out, in batches that are not copied again.

use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt16Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lab::explain::{Explained, Spent, column};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::batch::{OPS, list};
use crate::foreign::capsule;

/// Requests of a batch.
const ROWS: usize = 1 << 16;
/// Numbers before those of the causes, and their units.
const NUMBERS: [(&str, &str); 5] = [
    ("request", "count"),
    ("offset", "bytes"),
    ("bytes", "bytes"),
    ("arrival_ns", "ns"),
    ("latency_ns", "ns"),
];

fn field(name: String, kind: DataType, unit: &str) -> Field {
    let unit = std::iter::once(("unit".to_string(), unit.to_string()));
    Field::new(name, kind, false).with_metadata(unit.collect())
}

fn schema() -> SchemaRef {
    let op = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let number = |(name, unit): &(&str, &str)| field(name.to_string(), DataType::UInt64, unit);
    let mut fields: Vec<Field> = NUMBERS.iter().map(number).collect();
    fields.insert(1, field("app".to_string(), DataType::UInt16, "count"));
    fields.insert(2, field("op".to_string(), op, "text"));
    let cause = |cause: Spent| field(column(cause), DataType::UInt64, "ns");
    fields.extend(Spent::ALL.into_iter().map(cause));
    Arc::new(Schema::new(fields))
}

/// Those of the batch that is not full yet, and the full ones.
#[derive(Default)]
struct Gathered {
    apps: Vec<u16>,
    ops: Vec<i8>,
    numbers: [Vec<u64>; NUMBERS.len()],
    causes: [Vec<u64>; Spent::COUNT],
    full: Vec<RecordBatch>,
}

impl Gathered {
    fn push(&mut self, request: &Explained) {
        self.apps.push(request.app.0);
        self.ops.push(request.op as i8);
        let (arrival, latency) = (request.arrival.as_ns(), request.latency.as_ns());
        let numbers = [request.number, request.offset, request.bytes, arrival, latency];
        self.numbers.iter_mut().zip(numbers).for_each(|(all, one)| all.push(one));
        self.causes.iter_mut().zip(request.by_cause.in_ns()).for_each(|(all, one)| all.push(one));
        if self.apps.len() == ROWS {
            self.end();
        }
    }

    /// Ends the batch.
    fn end(&mut self) {
        if self.apps.is_empty() {
            return;
        }
        let whole = |all: &mut Vec<u64>| -> ArrayRef { Arc::new(UInt64Array::from(take(all))) };
        let mut columns: Vec<ArrayRef> = self.numbers.iter_mut().map(whole).collect();
        columns.insert(1, Arc::new(UInt16Array::from(take(&mut self.apps))));
        let names = Arc::new(StringArray::from_iter_values(OPS));
        let ops = Int8Array::from(take(&mut self.ops));
        let ops = DictionaryArray::<Int8Type>::try_new(ops, names).expect("operations have names");
        columns.insert(2, Arc::new(ops));
        columns.extend(self.causes.iter_mut().map(whole));
        let batch = RecordBatch::try_new(schema(), columns);
        self.full.push(batch.expect("columns of one length, as the schema says"));
    }
}

/// The log of a run.
#[pyclass(frozen, module = "varve._varve")]
#[derive(Default)]
pub struct Requests(Mutex<Gathered>);

impl Requests {
    /// Adds a request.
    pub fn push(&self, request: &Explained) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }

    fn batches(&self) -> Vec<RecordBatch> {
        let mut gathered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.end();
        gathered.full.clone()
    }

    /// Another one of the same requests, which are shared.
    pub fn same(&self) -> Requests {
        Requests(Mutex::new(Gathered { full: self.batches(), ..Gathered::default() }))
    }
}

#[pymethods]
impl Requests {
    fn __len__(&self) -> usize {
        self.batches().iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns, and their units.
    fn columns(&self) -> Vec<(String, String)> {
        let unit = |field: &Field| field.metadata().get("unit").cloned().unwrap_or_default();
        schema().fields().iter().map(|field| (field.name().clone(), unit(field))).collect()
    }

    /// One column.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        if schema().index_of(name).is_err() {
            return Err(PyKeyError::new_err(name.to_string()));
        }
        for batch in self.batches() {
            if let Some(column) = batch.column_by_name(name) {
                for value in list(py, column)? {
                    all.append(value)?;
                }
            }
        }
        Ok(all)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches().into_iter().map(Ok);
        capsule::give(py, RecordBatchIterator::new(batches, schema()))
    }
}
