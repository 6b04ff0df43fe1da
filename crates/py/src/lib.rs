//! The native part of the Python package `varve`: traces, scenarios, runs, and policies written in Python.
//!
//! Everything here is thin: what a run is, and each text of an error, is the library's, as for the command
//! line. Promises kept here:
//! * whatever may take long runs on a thread of its own, and the calling one looks 20 times a second for
//!   Control-C and tells of progress ([`watched`]);
//! * the interpreter is not held while the library works, except by policies written in Python;
//! * a panic of the library is an exception with a type, never an abort nor a `PanicException`
//!   ([`errors::guarded`]);
//! * no file is written but where the caller says.

// What pyo3 makes of functions and classes has no words of its own; those that users read are in the stubs.
#![allow(missing_docs)]

mod batch;
mod cells;
mod columns;
mod compare;
mod compiled;
mod drawing;
mod drive;
mod errors;
mod fetch;
#[allow(unsafe_code)]
mod foreign;
mod policy;
mod registry;
mod requests;
mod runs;
mod scenario;
mod study;
mod table;
mod trace;
mod twin;
mod victim;
mod watched;

use pyo3::prelude::*;

#[pymodule]
fn _varve(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("VERSION", env!("VARVE_VERSION"))?;
    module.add("RunError", py.get_type::<errors::RunError>())?;
    module.add("CheckError", py.get_type::<errors::CheckError>())?;
    module.add("InternalError", py.get_type::<errors::InternalError>())?;
    module.add("PolicyError", py.get_type::<errors::PolicyError>())?;
    module.add("BYPASS", policy::Bypass)?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<columns::Columns>()?;
    module.add_class::<drawing::Drawing>()?;
    module.add_class::<drive::Drive>()?;
    module.add_class::<policy::AccessInfo>()?;
    module.add_class::<policy::Bypass>()?;
    module.add_class::<victim::Line>()?;
    module.add_class::<victim::Lines>()?;
    module.add_class::<requests::Requests>()?;
    module.add_class::<runs::Results>()?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<trace::Batches>()?;
    module.add_class::<trace::Trace>()?;
    module.add_function(wrap_pyfunction!(fetch::fetch_by, module)?)?;
    module.add_function(wrap_pyfunction!(fetch::keep, module)?)?;
    module.add_function(wrap_pyfunction!(registry::add_policy, module)?)?;
    module.add_function(wrap_pyfunction!(registry::add_compiled, module)?)?;
    module.add_function(wrap_pyfunction!(registry::add_victim, module)?)?;
    module.add_function(wrap_pyfunction!(scenario::sim_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(runs::run, module)?)?;
    module.add_function(wrap_pyfunction!(runs::load, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(twin::lockstep, module)?)?;
    module.add_function(wrap_pyfunction!(study::begin, module)?)?;
    module.add_function(wrap_pyfunction!(study::finish, module)?)?;
    module.add_function(wrap_pyfunction!(study::missing, module)?)?;
    module.add_function(wrap_pyfunction!(study::merge, module)?)?;
    module.add_function(wrap_pyfunction!(runs::hits, module)?)
}
