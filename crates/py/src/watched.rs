//! Long work: on a thread of its own, while the calling one waits for it without holding the interpreter.
//!
//! * Python sets its signal handlers' flags and runs them on the main thread, in bytecode: a thread that is in
//!   the library sees nothing. So the calling thread wakes now and then, lets handlers run and tells of
//!   progress; an exception of either stops the work through its [`Watch`] and is raised once it has ended.
//!   No thread is left.
//! * The working thread is known to the interpreter from its beginning to its end. A thread that is not is
//!   made known and forgotten by each call into Python, which costs more than the call.
//! * Of an exception and a result the exception counts: there is no result of a run in which a policy failed.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lab::LabError;
use lab::replay::Watch;
use pyo3::prelude::*;

use crate::errors::{panicked, raised};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(50);

/// What all parts of one piece of work share.
#[derive(Debug, Default)]
pub struct Shared {
    stop: AtomicBool,
    failure: Mutex<Option<PyErr>>,
}

thread_local! {
    static SHARED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

impl Shared {
    /// That of the work which this thread does.
    pub fn of_this_thread() -> Arc<Shared> {
        SHARED.with_borrow(|shared| shared.clone()).unwrap_or_default()
    }

    /// The first exception of a policy is kept, and stops the work.
    pub fn fail(&self, error: PyErr) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to stop: nobody will see what it does from here on.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Does `work`; `progress` is called with the number of requests since its last call.
///
/// # Errors
/// The first exception of a signal handler, of `progress` or of a policy; else what `work` fails with.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(Watch<'_>) -> Result<T, LabError> + Send,
) -> PyResult<T> {
    let shared = Arc::new(Shared::default());
    let done = AtomicU64::new(0);
    let count = |requests: u64| {
        done.fetch_add(requests, Ordering::Relaxed);
    };
    let tell = || {
        Python::attach(|py| {
            py.check_signals()?;
            let since = done.swap(0, Ordering::Relaxed);
            match progress {
                Some(progress) if since > 0 => progress.call1(py, (since,)).map(drop),
                _ => Ok(()),
            }
        })
    };
    let (ends, ended) = sync_channel::<()>(0);
    let run = || {
        let _ends = ends;
        SHARED.set(Some(Arc::clone(&shared)));
        let work = || work(Watch { stop: &shared.stop, progress: &count });
        catch_unwind(AssertUnwindSafe(|| Python::attach(|py| py.detach(work))))
    };
    let (result, looked) = py.detach(|| {
        let ended = ended;
        std::thread::scope(|scope| {
            let running = scope.spawn(run);
            let mut looked = Ok(());
            loop {
                let over = ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                if looked.is_ok() {
                    looked = tell();
                }
                if looked.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                if over {
                    break;
                }
            }
            (running.join().and_then(|result| result), looked)
        })
    });
    looked?;
    if let Some(failure) = shared.take() {
        return Err(failure);
    }
    result.map_err(|cause| panicked(&*cause))?.map_err(raised)
}
