//! A buffer policy written in Python, as one of the library.
//!
//! * The interpreter is held for a block of accesses or a request, not for a call ([`Policy::around`]); the
//!   thread is known to it all the while (`watched`).
//! * The first exception, or the first answer that no policy may give, ends the run: from then on the object is
//!   not called any more, entries leave in the order in which they came, and nobody sees what comes of it.
//! * The order of entries is Python's; a list here says only which there are, and in which order they came.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use block::{Lpn, Op};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange};
use ssd::{Access, Admission, Batches, Buffer, Frame, KeyKind, List, Policy, Pool, Setup, Stream};

use crate::errors::PolicyError;
use crate::registry;
use crate::watched::Shared;

/// What a policy answers if a page is not to enter the buffer.
#[pyclass(frozen, module = "varve")]
pub struct Bypass;

#[pymethods]
impl Bypass {
    fn __repr__(&self) -> &'static str {
        "varve.BYPASS"
    }
}

/// What is known of an access beside its page.
#[pyclass(frozen, module = "varve", get_all)]
pub struct AccessInfo {
    /// It is a write.
    write: bool,
    /// Number of the request, from 1.
    request: u64,
    /// First byte of the request.
    offset: u64,
    /// Bytes of the request.
    length: u64,
    /// Application of the request.
    app: u16,
    /// The stream that the writer named.
    hint: u8,
    /// Number of the page within the request, from 0.
    index: u32,
}

impl AccessInfo {
    fn of(access: &Access<'_>) -> AccessInfo {
        AccessInfo {
            write: access.op == Op::Write,
            request: access.req.id,
            offset: access.req.offset.0,
            length: access.req.len.0,
            app: access.req.app.0,
            hint: access.req.hint.0,
            index: access.index,
        }
    }
}

/// The methods of an object, looked up once; those that it does not have are not called.
#[derive(FromPyObject)]
struct Calls {
    hit: Option<Py<PyAny>>,
    hit_takes_access: bool,
    admit: Py<PyAny>,
    admit_takes_access: bool,
    discarded: Py<PyAny>,
    forgotten: Option<Py<PyAny>>,
    flushed: Option<Py<PyAny>>,
    /// Gives the calls of a copy.
    copy: Py<PyAny>,
}

/// An object of Python that chooses.
pub struct PyPolicy {
    calls: Calls,
    /// All entries, those that came last in front.
    entries: List,
    shared: Arc<Shared>,
    /// Pages of the drive.
    pages: u32,
    /// Accesses so far.
    accesses: u64,
}

impl fmt::Debug for PyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PyPolicy({} entries, {} accesses)", self.entries.len(), self.accesses)
    }
}

impl Clone for PyPolicy {
    /// A drive that is copied has a policy of its own, which knows what this one knows.
    fn clone(&self) -> PyPolicy {
        Python::attach(|py| {
            let copied = self.calls.copy.call0(py).and_then(|calls| calls.extract(py));
            let calls = copied.unwrap_or_else(|error| {
                self.shared.fail(error);
                self.calls.shared(py)
            });
            let shared = Arc::clone(&self.shared);
            let (entries, pages) = (self.entries, self.pages);
            PyPolicy { calls, entries, shared, pages, accesses: self.accesses }
        })
    }
}

impl Calls {
    /// The same object.
    fn shared(&self, py: Python<'_>) -> Calls {
        let same = |call: &Option<Py<PyAny>>| call.as_ref().map(|call| call.clone_ref(py));
        Calls {
            hit: same(&self.hit),
            hit_takes_access: self.hit_takes_access,
            admit: self.admit.clone_ref(py),
            admit_takes_access: self.admit_takes_access,
            discarded: self.discarded.clone_ref(py),
            forgotten: same(&self.forgotten),
            flushed: same(&self.flushed),
            copy: self.copy.clone_ref(py),
        }
    }
}

/// Makes one for a buffer, with options.
pub fn make(setup: &Setup<'_>) -> Result<Buffer, String> {
    let shared = Shared::of_this_thread();
    let calls = Python::attach(|py| -> PyResult<Calls> {
        let factory = registry::of_policy(py, setup.info());
        let factory = factory.ok_or_else(|| PolicyError::new_err("its definition is gone"))?;
        let options = PyDict::new(py);
        for option in setup.info().options {
            let name = option.name;
            match option.kind {
                KeyKind::Count(..) => options.set_item(name, setup.count(name))?,
                KeyKind::Size => options.set_item(name, setup.size(name))?,
                KeyKind::Share => options.set_item(name, setup.share_of_entries(name))?,
                KeyKind::Flag => options.set_item(name, setup.flag(name))?,
                _ => options.set_item(name, setup.word(name))?,
            }
        }
        let shape = PyDict::new(py);
        shape.set_item("entries", setup.shape.entries)?;
        shape.set_item("pages", setup.shape.pages)?;
        shape.set_item("seed", setup.shape.seed)?;
        shape.set_item("planes", setup.shape.planes)?;
        shape.set_item("page_entries", setup.shape.page_entries)?;
        shape.set_item("block_pages", setup.shape.block_pages)?;
        factory.call1(py, (options, shape))?.extract(py)
    });
    let calls = calls.map_err(|error| {
        let text = error.to_string();
        shared.fail(error);
        text
    })?;
    setup.buffer(PyPolicy {
        calls,
        entries: List::default(),
        shared,
        pages: setup.shape.pages,
        accesses: 0,
    })
}

/// What a policy says to a miss, as numbers of pages.
enum Answer {
    Bypass,
    Admit,
    One(u64),
    Several(Vec<u64>),
}

fn answer(given: &Bound<'_, PyAny>) -> PyResult<Answer> {
    if given.is_none() {
        return Ok(Answer::Admit);
    }
    if let Ok(page) = given.extract::<u64>() {
        return Ok(Answer::One(page));
    }
    if given.is_instance_of::<Bypass>() {
        return Ok(Answer::Bypass);
    }
    let pages = given.try_iter().and_then(|all| all.map(|page| page?.extract::<u64>()).collect());
    pages.map(Answer::Several).map_err(|_: PyErr| {
        let found = given.repr().map_or_else(|_| "?".to_string(), |text| text.to_string());
        PyTypeError::new_err(format!(
            "admit answered {found}: expected a page, several pages, varve.BYPASS or None"
        ))
    })
}

impl PyPolicy {
    /// Accesses so far, and the page of the last: where something is wrong.
    fn wrong(&self, page: Lpn, what: &str) -> PyErr {
        PolicyError::new_err(format!("access {} (page {}): {what}", self.accesses, page.0))
    }

    /// Asks about a miss, and takes out what is named.
    fn ask(
        &mut self,
        pool: &mut Pool,
        access: &Access<'_>,
        out: &mut Batches,
    ) -> PyResult<Admission> {
        let full = pool.free() == 0;
        let page = access.page.0;
        let said = Python::attach(|py| {
            let said = if self.calls.admit_takes_access {
                self.calls.admit.call1(py, (page, AccessInfo::of(access), full))
            } else {
                self.calls.admit.call1(py, (page, full))
            };
            answer(said?.bind(py))
        })?;
        let victims = match &said {
            Answer::Bypass => return Ok(Admission::Bypass),
            Answer::Admit => &[][..],
            Answer::One(victim) => std::slice::from_ref(victim),
            Answer::Several(victims) => victims,
        };
        if full && victims.is_empty() {
            return Err(
                self.wrong(access.page, "the buffer is full, and no page is named to leave")
            );
        }
        let mut frames: Vec<Frame> = Vec::with_capacity(victims.len());
        for victim in victims {
            let page = u32::try_from(*victim).ok().filter(|page| *page < self.pages);
            let found = page.and_then(|page| pool.find(Lpn(page)));
            match found {
                None => {
                    let what = format!("page {victim} is to leave, which is not in the buffer");
                    return Err(self.wrong(access.page, &what));
                }
                Some(frame) if frames.contains(&frame) => {
                    let what = format!("page {victim} is to leave twice");
                    return Err(self.wrong(access.page, &what));
                }
                Some(frame) => frames.push(frame),
            }
        }
        for frame in frames {
            pool.unlink(&mut self.entries, frame);
            out.evict(frame, Stream::Other);
        }
        Ok(Admission::Admit(0))
    }

    /// Makes room without asking.
    fn instead(&mut self, pool: &mut Pool, out: &mut Batches) -> Admission {
        if pool.free() == 0
            && let Some(oldest) = self.entries.back()
        {
            pool.unlink(&mut self.entries, oldest);
            out.evict(oldest, Stream::Other);
        }
        Admission::Admit(0)
    }

    /// Tells the object something of a page.
    fn tell(&self, call: &Py<PyAny>, page: Lpn) {
        if let Err(error) = Python::attach(|py| call.call1(py, (page.0,)).map(drop)) {
            self.shared.fail(error);
        }
    }
}

impl Policy for PyPolicy {
    fn around<R>(work: impl FnOnce() -> R) -> R {
        Python::attach(|_| work())
    }

    fn hit(&mut self, _: &mut Pool, _: Frame, access: &Access<'_>) {
        self.accesses += 1;
        if self.shared.stops() {
            return;
        }
        let Some(hit) = &self.calls.hit else { return };
        if !self.calls.hit_takes_access {
            return self.tell(hit, access.page);
        }
        let told =
            |py: Python<'_>| hit.call1(py, (access.page.0, AccessInfo::of(access))).map(drop);
        if let Err(error) = Python::attach(told) {
            self.shared.fail(error);
        }
    }

    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        self.accesses += 1;
        if pool.capacity() == 0 {
            return Admission::Bypass;
        }
        if self.shared.stops() {
            return self.instead(pool, out);
        }
        self.ask(pool, access, out).unwrap_or_else(|error| {
            self.shared.fail(error);
            self.instead(pool, out)
        })
    }

    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.entries, frame);
    }

    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(&mut self.entries, frame);
        if !self.shared.stops() {
            self.tell(&self.calls.discarded, pool.page(frame));
        }
    }

    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        if let Some(flushed) = self.calls.flushed.as_ref().filter(|_| !self.shared.stops()) {
            self.tell(flushed, pool.page(frame));
        }
    }

    fn forget(&mut self, pages: Range<u32>, _: &dyn Fn(u32) -> bool) {
        let Some(forgotten) = self.calls.forgotten.as_ref().filter(|_| !self.shared.stops()) else {
            return;
        };
        let told = |py: Python<'_>| {
            let range = py.get_type::<PyRange>().call1((pages.start, pages.end))?;
            forgotten.call1(py, (range,)).map(drop)
        };
        if let Err(error) = Python::attach(told) {
            self.shared.fail(error);
        }
    }

    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("resident", self.entries.len());
    }

    fn check(&self, pool: &Pool) -> Result<(), String> {
        let (here, there) = (self.entries.len(), pool.resident());
        if here == there { Ok(()) } else { Err(format!("{here} in the list, {there} resident")) }
    }
}
