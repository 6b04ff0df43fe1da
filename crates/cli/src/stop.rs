//! Control-C: the run stops at its next look and leaves no half-written file; a second one stops
//! the program at once, and so does the first while nothing looks and nothing is written.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
static AT_ONCE: AtomicBool = AtomicBool::new(false);
/// The exit code of who was interrupted.
pub const INTERRUPTED: i32 = 130;

/// Whether the user wants everything to stop.
pub fn flag() -> &'static AtomicBool {
    &STOP
}

/// Does work that writes nothing and does not look whether it is to stop.
pub fn at_once<R>(work: impl FnOnce() -> R) -> R {
    AT_ONCE.store(true, Ordering::SeqCst);
    if STOP.load(Ordering::SeqCst) {
        std::process::exit(INTERRUPTED);
    }
    let result = work();
    AT_ONCE.store(false, Ordering::SeqCst);
    result
}

/// Listens for control-C. If that is not possible, control-C ends the program as it always does.
pub fn on_interrupt() {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) || AT_ONCE.load(Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    });
}
