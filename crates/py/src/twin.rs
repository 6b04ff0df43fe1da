//! Two policies in lockstep: one of Python beside the one that it should be.

use block::Op;
use lab::lockstep::{Counted, Pair, Plan};
use pyo3::prelude::*;

use crate::watched::watched;

/// An operation, its page, the number of its request.
type Access = (&'static str, u32, u64);
/// What a policy has counted, by name.
type Counts = Vec<(&'static str, u64)>;
/// Entries, pages of the drive, the accesses, and what each had counted behind the last.
type Difference = (usize, u32, Vec<Access>, Counts, Counts);

fn counts(of: Counted) -> Counts {
    let Counted { hits, dirty, clean, padded, flushed } = of;
    let (dirty, clean) = (("dirty_evictions", dirty), ("clean_evictions", clean));
    vec![("hits", hits), dirty, clean, ("padded", padded), ("flushed", flushed)]
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
    }
}

/// The first difference of two policies over drawn accesses, if there is one.
#[pyfunction]
#[pyo3(signature = (policies, accesses, seed, discards, progress = None))]
pub fn lockstep(
    py: Python<'_>,
    policies: (String, String),
    accesses: u64,
    seed: u64,
    discards: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Option<Difference>> {
    watched(py, progress.as_ref(), |watch| {
        let pair = Pair::new([&policies.0, &policies.1])?;
        let found = pair.first_difference(Plan { accesses, seed, discards }, watch)?;
        Ok(found.map(|of| {
            let access = |a: &ssd::HitAccess| (name(a.op), a.page.0, a.request);
            let [one, other] = of.counted.map(counts);
            let accesses = of.accesses.iter().map(access).collect();
            (of.shape.entries, of.shape.pages, accesses, one, other)
        }))
    })
}
