//! Tables that were made in Python, as others take them: by the Arrow PyCapsule interface.
//!
//! The type of a column is said, not guessed from what came out: a column without any known value has it too.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchOptions,
    StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::batch::broken;
use crate::foreign::capsule;

/// Named columns of one length.
#[pyclass(frozen, module = "varve._varve")]
pub struct Columns(RecordBatch);

/// Whole numbers as 64 bits, with a sign unless one is too large for it.
fn whole(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    match values.extract::<Vec<Option<i64>>>() {
        Ok(values) => Ok(Arc::new(Int64Array::from(values))),
        Err(_) => Ok(Arc::new(UInt64Array::from(values.extract::<Vec<Option<u64>>>()?))),
    }
}

fn array(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(match kind {
        "text" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
        "whole" => whole(values)?,
        "real" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        _ => {
            return Err(PyValueError::new_err(format!(
                "kind `{kind}`: expected text, whole, real"
            )));
        }
    })
}

#[pymethods]
impl Columns {
    /// Each column: its name, its unit, what its values are (`text`, `whole`, `real`), and they.
    #[new]
    fn new(
        columns: Vec<(String, String, String, Bound<'_, PyAny>)>,
        rows: usize,
    ) -> PyResult<Columns> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays = Vec::with_capacity(columns.len());
        for (name, unit, kind, values) in columns {
            let array = array(&kind, &values)?;
            let kind: DataType = array.data_type().clone();
            let unit = std::iter::once(("unit".to_string(), unit));
            fields.push(Field::new(name, kind, true).with_metadata(unit.collect()));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new_with_options(schema, arrays, &options).map(Columns).map_err(broken)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        capsule::give(py, batches)
    }
}
