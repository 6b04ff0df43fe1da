//! Tables taken from others and given to them, by the Arrow PyCapsule interface.
//!
//! What the pointer leads to is moved out at once: from then on it is an ordinary reader, and the capsule is
//! empty, as the interface demands of who takes a stream.

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::batch::broken;

/// What the interface calls a stream.
const NAME: &CStr = c"arrow_array_stream";

/// Batches for whoever takes them.
///
/// # Errors
/// Python's.
pub fn give<'py>(
    py: Python<'py>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), NAME)
}

/// The batches of whatever has a method `__arrow_c_stream__`.
///
/// # Errors
/// It has none, or what it answers is no stream.
pub fn stream(table: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    let method = "__arrow_c_stream__";
    if !table.hasattr(method)? {
        let found = table.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a {found}: expected a table that can be taken as Arrow (it has no {method}): of polars, of pyarrow, of pandas 2.2 or later"
        )));
    }
    let capsule = table.call_method0(method)?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(NAME))?;
    // SAFETY: a capsule of this name, which was checked, holds an `ArrowArrayStream` by the interface's
    // definition; `from_raw` moves it out and leaves a released one, and the interpreter is held meanwhile, so
    // that nobody else takes it.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    ArrowArrayStreamReader::try_new(stream).map_err(broken)
}
