//! Counting in a program that knows nothing of it: the pass-through VFS becomes the default, and
//! what it counts goes to a file that `varve sqlite measure` names.
//!
//! Invariant: the file always holds whole counts. It is written at every commit, sync, delete and
//! close, because programs end without saying so. A forked child counts for itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use varve_sqlite_vfs::event::{Call, Event, Observer};
use varve_sqlite_vfs::tally::VARIABLE;
use varve_sqlite_vfs::{Api, Counter, register_observed};

/// Where counts go, if somebody asks for them.
pub(crate) fn wanted() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Registers the counting VFS as the default.
pub(crate) fn start(api: &Api, path: String) -> Result<(), String> {
    let observer = Flushing { counter: Counter::default(), path, out: Mutex::default() };
    register_observed(api, "varve-count", true, false, Arc::new(observer))
        .map_err(|error| error.to_string())
}

struct Flushing {
    counter: Counter,
    path: String,
    /// The file of the process with this number.
    out: Mutex<Option<(u32, Option<File>)>>,
}

impl Flushing {
    /// Nothing is reported: the program must not notice, and no file is what says that.
    fn write(&self) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, Some(file))) = &mut *out {
            // Numbers only grow, so a shorter text never follows a longer one.
            let _ = file.write_all_at(self.counter.counts().to_text().as_bytes(), 0);
        }
    }

    /// The process may be a child that inherited its parent's counts.
    fn own(&self) {
        let process = std::process::id();
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.as_ref().is_none_or(|(owner, _)| *owner != process) {
            self.counter.reset();
            *out = Some((process, File::create(format!("{}.{process}", self.path)).ok()));
        }
    }
}

impl Observer for Flushing {
    fn event(&self, event: &Event<'_>) {
        self.own();
        self.counter.event(event);
        let now = matches!(
            event.call,
            Call::Open | Call::Commit | Call::Sync | Call::Delete(_) | Call::Close
        );
        if now {
            self.write();
        }
    }
}
