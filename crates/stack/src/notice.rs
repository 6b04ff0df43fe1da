//! What an operator must know at once: one line on standard error.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether nothing is said for now: where somebody cuts the power on purpose he knows what comes of it.
pub fn quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::SeqCst);
}

/// Says it. Nothing depends on whether anybody can read it: a server in the background may have nobody
/// left.
pub fn say(what: &str) {
    if !QUIET.load(Ordering::SeqCst) {
        let _ = writeln!(std::io::stderr(), "varve: {what}");
    }
}
