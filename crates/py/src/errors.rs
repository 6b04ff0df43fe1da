//! Errors of the library as exceptions of Python, with the words that the command line says.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lab::LabError;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use workload::SourceError;

create_exception!(varve, RunError, PyRuntimeError, "A run did not get where it had to.");
create_exception!(
    varve,
    PolicyError,
    PyRuntimeError,
    "A policy gave an answer that none may give: which, and at which access."
);
create_exception!(
    varve,
    CheckError,
    PyRuntimeError,
    "A promise of the model does not hold: there is no result."
);
create_exception!(
    varve,
    InternalError,
    PyRuntimeError,
    "A fault of varve itself. Nothing that a program does may lead here; please report it."
);

/// What the command line ends with code 3 for is a `ValueError`, a file that cannot be read an `OSError`.
pub fn raised(error: LabError) -> PyErr {
    let text = error.to_string();
    let bad_input = error.exit_code() == 3;
    match error {
        LabError::Interrupted => PyKeyboardInterrupt::new_err(()),
        LabError::Io { source, .. } | LabError::Source(SourceError::Io { source, .. }) => {
            std::io::Error::new(source.kind(), text).into()
        }
        LabError::Check { .. } => CheckError::new_err(text),
        _ if bad_input => PyValueError::new_err(text),
        _ => RunError::new_err(text),
    }
}

/// A panic of the library.
pub fn panicked(cause: &(dyn Any + Send)) -> PyErr {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
    InternalError::new_err(text.unwrap_or_else(|| "a panic without words".to_string()))
}

/// Short work of the library.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, LabError>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(raised),
        Err(cause) => Err(panicked(&*cause)),
    }
}
