//! A buffer policy that was written in Python and compiled there: its functions are called by their addresses, and
//! the interpreter has no part in it.
//!
//! * Its entries are rows of its own, as the buffer numbers them: which page is in which row is the buffer's affair.
//! * The first exception, or the first row that no page is in, ends the run as of other policies of Python: from then
//!   on nothing is called any more, and nobody sees what comes of it.

use std::fmt;
use std::sync::Arc;

use block::Op;
use pyo3::prelude::*;
use ssd::{Access, Admission, Batches, Buffer, Frame, List, Policy, Pool, Setup, Stream};

use crate::errors::PolicyError;
use crate::foreign::function::{Function, RAISED, State};
use crate::registry;
use crate::watched::Shared;

/// What Python says of a compiled policy: addresses, 0 for what it has not, and sizes in bytes.
#[derive(FromPyObject)]
struct Compiled {
    head_bytes: usize,
    row_bytes: usize,
    start: usize,
    hit: usize,
    victim: usize,
    inserted: usize,
    removed: usize,
    flushed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Functions {
    start: Option<Function>,
    hit: Option<Function>,
    victim: Option<Function>,
    inserted: Option<Function>,
    removed: Option<Function>,
    flushed: Option<Function>,
}

impl Functions {
    fn of(compiled: &Compiled) -> Functions {
        Functions {
            start: Function::at(compiled.start),
            hit: Function::at(compiled.hit),
            victim: Function::at(compiled.victim),
            inserted: Function::at(compiled.inserted),
            removed: Function::at(compiled.removed),
            flushed: Function::at(compiled.flushed),
        }
    }
}

/// Compiled code that chooses.
#[derive(Clone)]
pub struct CompiledPolicy {
    functions: Functions,
    state: State,
    /// All entries: which rows have a page.
    entries: List,
    shared: Arc<Shared>,
    /// Accesses so far.
    accesses: u64,
}

impl fmt::Debug for CompiledPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompiledPolicy({} entries, {} accesses)", self.entries.len(), self.accesses)
    }
}

/// Makes one for a buffer.
pub fn make(setup: &Setup<'_>) -> Result<Buffer, String> {
    let shared = Shared::of_this_thread();
    let compiled = Python::attach(|py| -> PyResult<Compiled> {
        let said = registry::of_policy(py, setup.info());
        said.ok_or_else(|| PolicyError::new_err("its definition is gone"))?.extract(py)
    });
    let compiled = compiled.map_err(|error| {
        let text = error.to_string();
        shared.fail(error);
        text
    })?;
    let mut policy = CompiledPolicy {
        functions: Functions::of(&compiled),
        state: State::new(compiled.head_bytes, compiled.row_bytes, setup.shape.entries),
        entries: List::default(),
        shared,
        accesses: 0,
    };
    policy.tell(policy.functions.start, "start", 0, 0, false);
    setup.buffer(policy)
}

impl CompiledPolicy {
    /// Ends the run.
    fn wrong(&self, page: u32, what: &str) {
        let text = format!("access {} (page {page}): {what}", self.accesses);
        self.shared.fail(PolicyError::new_err(text));
    }

    /// What a function answers; `None` if it raised.
    fn ask(
        &mut self,
        function: Function,
        name: &str,
        row: usize,
        page: u32,
        write: bool,
    ) -> Option<i64> {
        let said = function.call(&mut self.state, row, page, write);
        if said == RAISED {
            self.wrong(page, &format!("`{name}` raised an exception in its compiled code"));
            return None;
        }
        Some(said)
    }

    fn tell(&mut self, function: Option<Function>, name: &str, row: usize, page: u32, write: bool) {
        if let Some(function) = function.filter(|_| !self.shared.stops()) {
            let _ = self.ask(function, name, row, page, write);
        }
    }

    /// The entry that leaves, by the row that is named.
    fn victim(&mut self, pool: &Pool, access: &Access<'_>) -> Option<Frame> {
        let (page, function) = (access.page.0, self.functions.victim?);
        let said = self.ask(function, "victim", 0, page, access.op == Op::Write)?;
        let row = usize::try_from(said).ok();
        // The buffer is full: all rows below its capacity have a page.
        let found = row.and_then(|row| pool.at(row));
        if found.is_none() {
            self.wrong(page, &format!("`victim` answered {said}, a row that has no page"));
        }
        found
    }
}

impl Policy for CompiledPolicy {
    fn hit(&mut self, _: &mut Pool, frame: Frame, access: &Access<'_>) {
        self.accesses += 1;
        let write = access.op == Op::Write;
        self.tell(self.functions.hit, "hit", frame.index(), access.page.0, write);
    }

    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        self.accesses += 1;
        if pool.capacity() == 0 {
            return Admission::Bypass;
        }
        if pool.free() > 0 {
            return Admission::Admit(0);
        }
        let stops = self.shared.stops();
        let named = if stops { None } else { self.victim(pool, access) };
        if let Some(frame) = named.or(self.entries.back()) {
            pool.unlink(&mut self.entries, frame);
            out.evict(frame, Stream::Other);
        }
        Admission::Admit(0)
    }

    fn inserted(&mut self, pool: &mut Pool, frame: Frame, access: &Access<'_>) {
        pool.push_front(&mut self.entries, frame);
        let write = access.op == Op::Write;
        self.tell(self.functions.inserted, "inserted", frame.index(), access.page.0, write);
    }

    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.entries, frame);
        self.tell(self.functions.removed, "removed", frame.index(), pool.page(frame).0, false);
    }

    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        self.tell(self.functions.flushed, "flushed", frame.index(), pool.page(frame).0, false);
    }

    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("resident", self.entries.len());
    }

    fn check(&self, pool: &Pool) -> Result<(), String> {
        let (here, there) = (self.entries.len(), pool.resident());
        if here == there { Ok(()) } else { Err(format!("{here} in the list, {there} resident")) }
    }
}
