//! Results side by side, as `varve compare` has them.

use lab::LabError;
use lab::compare::{Loaded, Tolerance, compare as compared};
use pyo3::prelude::*;

use crate::errors::guarded;
use crate::runs::Results;

/// A configuration key that differs, and its text in each document.
type Difference = (String, Vec<Option<String>>);
/// A run, a metric, its value in each document, and by how many percent those behind the first differ from it.
type Row = (String, String, Vec<Option<f64>>, Vec<Option<f64>>);
/// A run, and the documents that lack it.
type Unmatched = (String, Vec<usize>);
/// All of it, and what is outside the tolerances.
type Compared = (Vec<Difference>, Vec<Row>, Vec<Unmatched>, Option<String>);

/// Compares documents with the first; `fail_over` are tolerances as `METRIC=PERCENT`.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    documents: Vec<Py<Results>>,
    fail_over: Vec<String>,
) -> PyResult<Compared> {
    let compare = || {
        let read = |text: &String| {
            text.parse::<Tolerance>().map_err(|e| LabError::Input(format!("fail_over: {e}")))
        };
        let tolerances = fail_over.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let documents: Vec<Loaded> = documents.iter().map(|of| of.get().loaded()).collect();
        let found = compared(&documents, &tolerances);
        let outside = match found.check(&tolerances) {
            Err(LabError::Tolerance(text)) => Some(text),
            verdict => verdict.map(|()| None)?,
        };
        let rows = found.rows.iter().map(|row| {
            let changes = (1..row.values.len()).map(|n| row.change(n)).collect();
            (row.run.clone(), row.metric.clone(), row.values.clone(), changes)
        });
        let differences = found.differences.iter().map(|of| (of.key.clone(), of.values.clone()));
        Ok((differences.collect(), rows.collect(), found.unmatched.clone(), outside))
    };
    py.detach(|| guarded(compare))
}
