//! Requests of a trace as columns, and how others take them: by the Arrow PyCapsule interface, without any
//! package that both would have to know.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::types::{Int8Type, UInt8Type, UInt16Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray, StructArray, UInt8Array,
    UInt16Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use workload::Record;

/// Names of operations, by their numbers.
pub const OPS: [&str; 5] = ["read", "write", "flush", "discard", "zero"];

/// The columns: units are in the names, bytes have none.
pub fn schema() -> SchemaRef {
    let op = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("at_ns", DataType::UInt64, false),
        Field::new("op", op, false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("length", DataType::UInt64, false),
        Field::new("app", DataType::UInt16, false),
        Field::new("response_ns", DataType::UInt64, true),
        Field::new("flags", DataType::UInt8, false),
        Field::new("hint", DataType::UInt8, false),
    ]))
}

/// Records as columns. Times are rounded down to a nanosecond.
pub fn columns(records: &[Record]) -> Result<RecordBatch, ArrowError> {
    let numbers = |of: fn(&Record) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(records.iter().map(of)))
    };
    let bytes = |of: fn(&Record) -> u8| -> ArrayRef {
        Arc::new(UInt8Array::from_iter_values(records.iter().map(of)))
    };
    let op = Int8Array::from_iter_values(records.iter().map(|r| r.op as i8));
    let names = Arc::new(StringArray::from_iter_values(OPS));
    let response = records.iter().map(|r| r.response.map(|span| span.as_ps() / 1000));
    RecordBatch::try_new(
        schema(),
        vec![
            numbers(|r| r.at.as_ns()),
            Arc::new(DictionaryArray::<Int8Type>::try_new(op, names)?),
            numbers(|r| r.offset.0),
            numbers(|r| r.len.0),
            Arc::new(UInt16Array::from_iter_values(records.iter().map(|r| r.app.0))),
            Arc::new(UInt64Array::from_iter(response)),
            bytes(|r| r.flags.0),
            bytes(|r| r.hint),
        ],
    )
}

/// Some requests of a trace, one after another.
#[pyclass(frozen, module = "varve")]
pub struct Batch(pub RecordBatch);

/// One column as a list of Python.
pub fn list<'py>(py: Python<'py>, column: &dyn Array) -> PyResult<Bound<'py, PyList>> {
    match column.data_type() {
        DataType::UInt64 => PyList::new(py, column.as_primitive::<UInt64Type>().iter()),
        DataType::UInt16 => PyList::new(py, column.as_primitive::<UInt16Type>().iter()),
        DataType::UInt8 => PyList::new(py, column.as_primitive::<UInt8Type>().iter()),
        _ => {
            let keys = column.as_dictionary::<Int8Type>().keys();
            PyList::new(py, keys.values().iter().map(|key| OPS[*key as usize]))
        }
    }
}

pub fn broken(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<varve.Batch of {} requests>", self.0.num_rows())
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.0.column_by_name(name);
        list(py, column.ok_or_else(|| PyKeyError::new_err(name.to_string()))?)
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows: Vec<_> = (0..self.0.num_rows()).map(|_| PyDict::new(py)).collect();
        for (field, column) in self.0.schema().fields().iter().zip(self.0.columns()) {
            for (row, value) in rows.iter().zip(list(py, column)?) {
                row.set_item(field.name(), value)?;
            }
        }
        Ok(rows)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let data = StructArray::from(self.0.clone()).into_data();
        let (array, schema): (FFI_ArrowArray, FFI_ArrowSchema) = to_ffi(&data).map_err(broken)?;
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        Ok((schema, PyCapsule::new_with_value(py, array, c"arrow_array")?))
    }
}
