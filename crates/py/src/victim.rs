//! A victim policy written in Python, as one of the library: which closed line is collected next.
//!
//! The object is made when it is first asked, on the thread of its run. Its first exception, or a line that is
//! not closed, ends the run, as of buffer policies.

use std::fmt;
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use ssd::{Choice, ClosedLine, Victim, VictimInfo, VictimSpec};

use crate::errors::PolicyError;
use crate::registry;
use crate::watched::Shared;

/// A closed line.
#[pyclass(frozen, module = "varve", get_all)]
#[derive(Clone)]
pub struct Line {
    /// Its number: what `choose` answers.
    line: u32,
    /// Slots that hold current data, which would be copied.
    valid: u32,
    /// Slots that it has.
    slots: u32,
    /// Slot programs of the drive when it was closed.
    closed_at: u64,
}

#[pymethods]
impl Line {
    fn __repr__(&self) -> String {
        format!("<varve.Line {}: {} of {} valid>", self.line, self.valid, self.slots)
    }
}

/// The closed lines, those closed first before the others.
#[pyclass(frozen, module = "varve")]
pub struct Lines {
    lines: Vec<ClosedLine>,
    now: u64,
}

fn line(of: &ClosedLine) -> Line {
    Line { line: of.line, valid: of.valid, slots: of.slots, closed_at: of.closed_at }
}

#[pymethods]
impl Lines {
    /// Slot programs of the drive so far: the clock of ages.
    #[getter]
    fn now(&self) -> u64 {
        self.now
    }

    /// The numbers of the lines, as a column.
    #[getter]
    fn line(&self) -> Vec<u32> {
        self.lines.iter().map(|of| of.line).collect()
    }

    #[getter]
    fn valid(&self) -> Vec<u32> {
        self.lines.iter().map(|of| of.valid).collect()
    }

    #[getter]
    fn slots(&self) -> Vec<u32> {
        self.lines.iter().map(|of| of.slots).collect()
    }

    #[getter]
    fn closed_at(&self) -> Vec<u64> {
        self.lines.iter().map(|of| of.closed_at).collect()
    }

    fn __len__(&self) -> usize {
        self.lines.len()
    }

    fn __getitem__(&self, at: isize) -> PyResult<Line> {
        let at = if at < 0 { at + self.lines.len() as isize } else { at };
        let found = usize::try_from(at).ok().and_then(|at| self.lines.get(at));
        found.map(line).ok_or_else(|| PyIndexError::new_err(format!("no line {at}")))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.lines.iter().map(line))?.try_iter()
    }
}

/// An object that is asked.
struct Asked {
    /// Its method `choose`.
    choose: Py<PyAny>,
    /// Gives the method of a copy.
    copy: Py<PyAny>,
    shared: Arc<Shared>,
    /// Choices so far.
    choices: u64,
}

/// An object of Python that chooses victims.
pub struct PyVictim {
    info: &'static VictimInfo,
    in_turn: bool,
    asked: Option<Asked>,
}

impl fmt::Debug for PyVictim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PyVictim({})", self.info.name)
    }
}

/// Makes one. What is made is tried when a name is read: nothing of Python is called for that.
pub fn make(spec: &VictimSpec) -> Option<Box<dyn Victim>> {
    let in_turn = Python::attach(|py| {
        let factory = registry::of_victim(py, spec.info)?;
        factory.getattr(py, "in_turn").ok()?.extract(py).ok()
    });
    Some(Box::new(PyVictim { info: spec.info, in_turn: in_turn?, asked: None }))
}

impl Asked {
    fn new(py: Python<'_>, info: &'static VictimInfo, shared: Arc<Shared>) -> PyResult<Asked> {
        let factory = registry::of_victim(py, info);
        let factory = factory.ok_or_else(|| PolicyError::new_err("its definition is gone"))?;
        let (choose, copy) = factory.call0(py)?.extract(py)?;
        Ok(Asked { choose, copy, shared, choices: 0 })
    }

    fn ask(&mut self, py: Python<'_>, lines: &[ClosedLine], now: u64) -> PyResult<u32> {
        self.choices += 1;
        let given = Lines { lines: lines.to_vec(), now };
        let said = self.choose.call1(py, (given,))?;
        let found = said.extract::<u32>(py).ok();
        found.filter(|found| lines.iter().any(|of| of.line == *found)).ok_or_else(|| {
            let text = said.bind(py).repr().map_or_else(|_| "?".to_string(), |t| t.to_string());
            PolicyError::new_err(format!(
                "choice {}: choose answered {text}, which is none of the {} closed lines",
                self.choices,
                lines.len()
            ))
        })
    }
}

impl Victim for PyVictim {
    fn choose(&mut self, choice: Choice<'_>) -> Option<u32> {
        let lines: Vec<ClosedLine> = choice.closed().collect();
        let instead = lines.iter().min_by_key(|of| of.valid)?.line;
        let shared = self.asked.as_ref().map(|asked| Arc::clone(&asked.shared));
        let shared = shared.unwrap_or_else(Shared::of_this_thread);
        if shared.stops() {
            return Some(instead);
        }
        let answer = Python::attach(|py| {
            if self.asked.is_none() {
                self.asked = Some(Asked::new(py, self.info, Arc::clone(&shared))?);
            }
            self.asked.as_mut().map(|asked| asked.ask(py, &lines, choice.now)).transpose()
        });
        match answer {
            Ok(line) => line,
            Err(error) => {
                shared.fail(error);
                Some(instead)
            }
        }
    }

    fn in_turn(&self) -> bool {
        self.in_turn
    }

    fn boxed(&self) -> Box<dyn Victim> {
        let copied = self.asked.as_ref().map(|asked| {
            Python::attach(|py| {
                let again = asked.copy.call0(py).and_then(|again| again.extract(py));
                let (choose, copy) = again.unwrap_or_else(|error| {
                    asked.shared.fail(error);
                    (asked.choose.clone_ref(py), asked.copy.clone_ref(py))
                });
                Asked { choose, copy, shared: Arc::clone(&asked.shared), choices: asked.choices }
            })
        });
        Box::new(PyVictim { info: self.info, in_turn: self.in_turn, asked: copied })
    }
}
