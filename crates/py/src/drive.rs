//! A modelled drive that Python steps: requests in, the virtual times at which they are done out.
//!
//! * Times are whole nanoseconds, and a request is done at the next whole one: nothing depends on how a number
//!   with a fraction is rounded, and the same calls have the same answers everywhere. Who submits the next request when
//!   one is done would drift from a run, whose times are picoseconds, by these fractions: he asks for picoseconds.
//! * A request is short work, done by the calling thread while it holds the interpreter.
//! * Policies written in Python are those of runs: here there is nobody who would end what one spoils.

use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{BlockDevice, DeviceError, Lba, Request, SECTOR_BYTES, Sectors, Time};
use lab::LabError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{RunError, guarded};
use crate::registry;
use crate::scenario::Scenario;

/// Blocks of which a table is made.
const MOST_BLOCKS: u32 = 1 << 20;

/// A drive, and the time.
#[pyclass(frozen, module = "varve._varve")]
pub struct Drive {
    drive: Mutex<ssd::Drive>,
    /// Picoseconds of a unit of its times.
    grain: u64,
}

/// What a request cannot be is the caller's, what became of the drive is not.
fn refused(error: &DeviceError) -> PyErr {
    let text = error.to_string();
    match error {
        DeviceError::OutOfRange { .. }
        | DeviceError::TimeReversed { .. }
        | DeviceError::TimeExhausted(_)
        | DeviceError::Unsupported(_) => PyValueError::new_err(text),
        _ => RunError::new_err(text),
    }
}

fn sectors(what: &str, bytes: u64) -> PyResult<u64> {
    match bytes.is_multiple_of(SECTOR_BYTES) {
        true => Ok(bytes / SECTOR_BYTES),
        false => Err(PyValueError::new_err(format!(
            "{what} {bytes}: expected whole sectors of {SECTOR_BYTES} bytes"
        ))),
    }
}

impl Drive {
    /// A time in the unit of its times, rounded up.
    fn units(&self, time: Time) -> u64 {
        time.as_ps().div_ceil(self.grain)
    }

    fn lock(&self) -> MutexGuard<'_, ssd::Drive> {
        self.drive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, at: u64, request: Request<'_>) -> PyResult<u64> {
        let ps = at.checked_mul(self.grain).filter(|ps| *ps <= Time::LIMIT.as_ps());
        let at = ps.map(Time::from_ps).ok_or_else(|| {
            let unit = if self.grain == 1 { "ps" } else { "ns" };
            let text = format!("at {at} {unit}: virtual time ends 106 days after its start");
            PyValueError::new_err(text)
        })?;
        let done = guarded(|| Ok(self.lock().submit(at, request)))?;
        done.map(|done| self.units(done)).map_err(|error| refused(&error))
    }
}

#[pymethods]
impl Drive {
    /// That of a scenario, fresh from the factory; `grain` are the picoseconds of a unit of its times.
    #[new]
    fn new(py: Python<'_>, scenario: &Scenario, grain: u64) -> PyResult<Drive> {
        let made = py.detach(|| {
            guarded(|| {
                if !scenario.0.sweeps.is_empty() {
                    return Err(LabError::Input("a sweep: expected one drive".to_string()));
                }
                let config = scenario.0.config()?;
                for key in ["buffer.policy", "gc.victim"] {
                    let text = config.text(key);
                    if registry::is_python(text) {
                        return Err(LabError::Input(format!(
                            "{key} = {text} is written in Python: expected one of the drive's; those of Python are for sim and run"
                        )));
                    }
                }
                let params = config.resolve()?;
                Ok(ssd::Drive::new(&params)?)
            })
        })?;
        Ok(Drive { drive: Mutex::new(made), grain })
    }

    /// Bytes of the drive.
    #[getter]
    fn capacity(&self) -> u64 {
        self.lock().capacity().bytes().0
    }

    /// The time of the latest request.
    #[getter]
    fn now(&self) -> u64 {
        self.units(self.lock().now())
    }

    fn read(&self, at: u64, offset: u64, length: u64) -> PyResult<u64> {
        let (lba, count) = (Lba(sectors("offset", offset)?), Sectors(sectors("length", length)?));
        self.submit(at, Request::read(lba, count))
    }

    fn write(&self, at: u64, offset: u64, length: u64, fua: bool) -> PyResult<u64> {
        let (lba, count) = (Lba(sectors("offset", offset)?), Sectors(sectors("length", length)?));
        let request = Request::write(lba, count);
        self.submit(at, if fua { request.with_fua() } else { request })
    }

    fn trim(&self, at: u64, offset: u64, length: u64) -> PyResult<u64> {
        let (lba, count) = (Lba(sectors("offset", offset)?), Sectors(sectors("length", length)?));
        self.submit(at, Request::discard(lba, count))
    }

    fn flush(&self, at: u64) -> PyResult<u64> {
        self.submit(at, Request::flush())
    }

    /// What it counts, as a document.
    fn stats(&self) -> PyResult<String> {
        guarded(|| Ok(lab::result::drive_json(&self.lock().stats()).pretty()))
    }

    /// Its counters begin anew.
    fn reset_stats(&self) {
        self.lock().reset_stats();
    }

    /// Each block: how often it was erased (none: it is bad), and its slots that hold data.
    fn blocks(&self) -> PyResult<Vec<(Option<u32>, Option<u32>)>> {
        let found = guarded(|| Ok(self.lock().blocks(MOST_BLOCKS)))?.ok_or_else(|| {
            PyValueError::new_err(format!("the drive has more than {MOST_BLOCKS} blocks"))
        })?;
        Ok(found.blocks.iter().map(|block| (block.erases, block.valid)).collect())
    }

    /// Looks at every invariant of the model.
    fn check(&self) -> PyResult<()> {
        guarded(|| {
            let broken = |v: ssd::Violation| LabError::Check {
                contract: v.contract.to_string(),
                what: v.what,
            };
            self.lock().check().map_err(broken)
        })
    }

    fn copy(&self) -> Drive {
        Drive { drive: Mutex::new(self.lock().clone()), grain: self.grain }
    }
}
