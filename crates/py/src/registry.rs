//! Policies written in Python, by their names: what scenarios say, and what makes an object of it.
//!
//! The library's registry is of entries that live as long as the program. So each definition that is added
//! leaves a few hundred bytes for good, and what was read under a name keeps the definition of that time.

use std::ptr;
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ssd::{
    Buffer, KeyKind, PolicyInfo, PolicyOption, Setup, VictimInfo, replace_policy, replace_victim,
};

use crate::compiled;
use crate::policy;
use crate::victim;

/// Threads for the runs of a scenario of this text. A thread that the library starts is not known to the
/// interpreter, and no two of them could run Python at a time: with policies of Python there is one. With compiled
/// ones too: what they fail with is told to the thread that began the work.
pub fn threads(text: &str, asked: usize) -> usize {
    let policies = POLICIES.read().unwrap_or_else(PoisonError::into_inner);
    let victims = VICTIMS.read().unwrap_or_else(PoisonError::into_inner);
    let names = policies.iter().map(|named| named.info.name);
    let mut names = names.chain(victims.iter().map(|named| named.info.name));
    if names.any(|name| text.contains(name)) { 1 } else { asked }
}

/// Whether a policy, as it is written in a configuration, is one of Python.
pub fn is_python(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or(text).trim();
    let policies = POLICIES.read().unwrap_or_else(PoisonError::into_inner);
    let victims = VICTIMS.read().unwrap_or_else(PoisonError::into_inner);
    let names = policies.iter().map(|named| named.info.name);
    names.chain(victims.iter().map(|named| named.info.name)).any(|known| known == name)
}

/// A function of Python that makes what is called.
type Factory = Py<PyAny>;

struct Named<I: 'static> {
    info: &'static I,
    factory: Factory,
}

static POLICIES: RwLock<Vec<Named<PolicyInfo>>> = RwLock::new(Vec::new());
static VICTIMS: RwLock<Vec<Named<VictimInfo>>> = RwLock::new(Vec::new());

/// The factory of an entry.
fn factory<I>(all: &RwLock<Vec<Named<I>>>, py: Python<'_>, info: &'static I) -> Option<Factory> {
    let all = all.read().unwrap_or_else(PoisonError::into_inner);
    let found = all.iter().find(|named| ptr::eq(named.info, info))?;
    Some(found.factory.clone_ref(py))
}

/// What makes the buffer policies of an entry.
pub fn of_policy(py: Python<'_>, info: &'static PolicyInfo) -> Option<Factory> {
    factory(&POLICIES, py, info)
}

/// What makes the victim policies of an entry.
pub fn of_victim(py: Python<'_>, info: &'static VictimInfo) -> Option<Factory> {
    factory(&VICTIMS, py, info)
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// An option as Python says it: its name, its kind, the words of a choice, its default, what it means.
type Said = (String, String, Vec<String>, String, String);

fn option((name, kind, words, default, doc): Said) -> PyResult<PolicyOption> {
    let kind = match kind.as_str() {
        "count" => KeyKind::Count(0, u64::MAX),
        "size" => KeyKind::Size,
        "share" => KeyKind::Share,
        "flag" => KeyKind::Flag,
        "word" => {
            let words: Vec<&'static str> = words.into_iter().map(leaked).collect();
            KeyKind::Choice(Box::leak(words.into_boxed_slice()))
        }
        other => return Err(PyValueError::new_err(format!("option {name}: no kind `{other}`"))),
    };
    kind.check(&default).map_err(|expected| {
        PyValueError::new_err(format!("option {name}: default `{default}`: expected {expected}"))
    })?;
    Ok(PolicyOption { name: leaked(name), kind, default: leaked(default), doc: leaked(doc) })
}

/// Adds a buffer policy, or replaces the one of its name that was added before.
#[pyfunction]
pub fn add_policy(name: String, doc: String, options: Vec<Said>, factory: Factory) -> PyResult<()> {
    let options = options.into_iter().map(option).collect::<PyResult<Vec<_>>>()?;
    add(name, doc, options, factory, policy::make)
}

/// Adds one that was compiled, or replaces the one of its name; `compiled` has the addresses of its functions.
#[pyfunction]
pub fn add_compiled(name: String, doc: String, compiled: Factory) -> PyResult<()> {
    add(name, doc, Vec::new(), compiled, compiled::make)
}

/// What makes a buffer policy.
type Make = fn(&Setup<'_>) -> Result<Buffer, String>;

fn add(
    name: String,
    doc: String,
    options: Vec<PolicyOption>,
    factory: Factory,
    make: Make,
) -> PyResult<()> {
    let info: &'static PolicyInfo = Box::leak(Box::new(PolicyInfo {
        name: leaked(name),
        aliases: &[],
        doc: leaked(doc),
        source: "written in Python",
        options: Box::leak(options.into_boxed_slice()),
        clairvoyant: false,
        make,
    }));
    replace_policy(info).map_err(PyValueError::new_err)?;
    let named = Named { info, factory };
    POLICIES.write().unwrap_or_else(PoisonError::into_inner).push(named);
    Ok(())
}

/// Adds a victim policy, or replaces the one of its name that was added before.
#[pyfunction]
pub fn add_victim(name: String, doc: String, factory: Factory) -> PyResult<()> {
    let (name, doc) = (leaked(name), leaked(doc));
    let info: &'static VictimInfo =
        Box::leak(Box::new(VictimInfo { name, doc, make: victim::make }));
    replace_victim(info).map_err(PyValueError::new_err)?;
    VICTIMS.write().unwrap_or_else(PoisonError::into_inner).push(Named { info, factory });
    Ok(())
}
