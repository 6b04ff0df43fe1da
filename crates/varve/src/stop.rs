//! Control-C: the run stops at its next look and leaves no half-written file; a second one stops
//! the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

/// Whether the user wants everything to stop.
pub fn flag() -> &'static AtomicBool {
    &STOP
}

/// Listens for control-C. If that is not possible, control-C ends the program as it always does.
pub fn on_interrupt() {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}
