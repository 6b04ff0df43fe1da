//! Traces by their digests: who fetches them where `$VARVE_FETCH` names nobody, and who puts one there.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use lab::input::pinned;
use pyo3::prelude::*;

use crate::errors::guarded;

/// A function of Python: of a URL and the file to be written.
static FETCH: RwLock<Option<Py<PyAny>>> = RwLock::new(None);

fn fetch(url: &str, file: &Path) -> Result<(), String> {
    Python::attach(|py| {
        let found = FETCH.read().unwrap_or_else(PoisonError::into_inner);
        let function = found.as_ref().map(|function| function.clone_ref(py));
        drop(found);
        let function = function.ok_or_else(|| format!("{url}: nobody fetches"))?;
        function.call1(py, (url, file)).map(drop).map_err(|error| format!("{url}: {error}"))
    })
}

/// Who fetches from now on.
#[pyfunction]
pub fn fetch_by(function: Py<PyAny>) {
    *FETCH.write().unwrap_or_else(PoisonError::into_inner) = Some(function);
    pinned::replace_fetch(fetch);
}

/// Puts a file, or what a URL names, into `$VARVE_TRACES`: its name there.
#[pyfunction]
pub fn keep(py: Python<'_>, source: &str) -> PyResult<String> {
    py.detach(|| guarded(|| Ok(pinned::keep(source)?.to_string())))
}
