//! What a timeline's file shows, as rows of Python.

use std::path::PathBuf;

use lab::explain::{Drawing as Drawn, MOST_SLICES, Operation, Request, Spent, Victim, column};
use pyo3::prelude::*;

use crate::errors::guarded;

/// A timeline that was read.
#[pyclass(frozen, module = "varve._varve")]
pub struct Drawing(Drawn);

/// Slot, operation, number, app, offset, bytes, start, end, latency; by cause; places of operations.
type RequestRow =
    ((usize, String, u64, u64, u64, u64, u64, u64, u64), [u64; Spent::COUNT], Vec<usize>);
/// Die, name, cause, request, block, page, pages, start, end.
type OperationRow = (usize, String, String, u64, u64, u64, u64, u64, u64);
/// Line, valid slots, start, end; places of operations.
type VictimRow = (u64, u64, u64, u64, Vec<usize>);

fn request(of: &Request) -> RequestRow {
    let numbers = (
        of.slot,
        of.op.clone(),
        of.number,
        of.app,
        of.offset,
        of.bytes,
        of.start_ns,
        of.end_ns,
        of.latency_ns,
    );
    (numbers, of.causes, of.operations.clone())
}

fn operation(of: &Operation) -> OperationRow {
    let (name, cause) = (of.name.clone(), of.cause.clone());
    (of.die, name, cause, of.request, of.block, of.page, of.pages, of.start_ns, of.end_ns)
}

fn victim(of: &Victim) -> VictimRow {
    (of.line, of.valid, of.start_ns, of.end_ns, of.operations.clone())
}

#[pymethods]
impl Drawing {
    /// Reads the file of a timeline.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Drawing> {
        py.detach(|| guarded(|| Drawn::load(&path, MOST_SLICES).map(Drawing)))
    }

    /// Names of the dies.
    #[getter]
    fn dies(&self) -> Vec<String> {
        self.0.dies.clone()
    }

    /// Names of the columns of times by cause.
    #[getter]
    fn causes(&self) -> Vec<String> {
        Spent::ALL.into_iter().map(column).collect()
    }

    fn requests(&self) -> Vec<RequestRow> {
        self.0.requests.iter().map(request).collect()
    }

    fn operations(&self) -> Vec<OperationRow> {
        self.0.operations.iter().map(operation).collect()
    }

    fn victims(&self) -> Vec<VictimRow> {
        self.0.victims.iter().map(victim).collect()
    }

    /// Numbers over time: the name of each, and from which nanosecond on it was how much.
    fn levels(&self) -> Vec<(String, Vec<(u64, u64)>)> {
        self.0.levels.iter().map(|level| (level.name.clone(), level.values.clone())).collect()
    }
}
