//! Counting in a program that knows nothing of it: the pass-through VFS becomes the default of each
//! of its SQLites, and what they do together goes to a file that `varve sqlite measure` names.
//!
//! Invariant: the file always holds whole counts. It is written at every commit, sync, delete and
//! close, because programs end without saying so. A forked child counts for itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use varve_sqlite_vfs::event::{Call, Event, Observer};
use varve_sqlite_vfs::tally::VARIABLE;
use varve_sqlite_vfs::{Api, Counter, PerProcess, register_observed};

/// Whether somebody asks for counts.
pub(crate) fn wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Registers the counting VFS as the default of one SQLite. It may be there already.
pub(crate) fn start(api: &Api) {
    // Without counts there is no file, and who waits for it says why that may be.
    let _ = register_observed(api, "varve-count", true, false, Arc::new(Flushing));
}

static OWN: PerProcess<Own> = PerProcess::new();

/// The counts of one process, over all SQLites in it.
struct Own {
    counter: Counter,
    out: Mutex<Option<File>>,
}

impl Default for Own {
    fn default() -> Own {
        let out = std::env::var(VARIABLE)
            .ok()
            .and_then(|path| File::create(format!("{path}.{}", std::process::id())).ok());
        Own { counter: Counter::default(), out: Mutex::new(out) }
    }
}

impl Own {
    /// Nothing is reported: the program must not notice, and no file is what says that.
    fn write(&self) {
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*out {
            // Numbers only grow, so a shorter text never follows a longer one.
            let _ = file.write_all_at(self.counter.counts().to_text().as_bytes(), 0);
        }
    }
}

struct Flushing;

impl Observer for Flushing {
    fn event(&self, event: &Event<'_>) {
        let own = OWN.get();
        own.counter.event(event);
        let now = matches!(
            event.call,
            Call::Open | Call::Commit | Call::Sync | Call::Delete(_) | Call::Close
        );
        if now {
            own.write();
        }
    }
}
